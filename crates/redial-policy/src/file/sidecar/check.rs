//! Mistakes that only show when all upstreams are known.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{Address, KeyScope, Target, Upstream};
use crate::file::File;
use crate::source::Problems;
use crate::tree::Cursor;

/// Refuses upstreams that share a variable or an address, and targets that are listeners of the same file.
pub(super) fn check(top: &Cursor<'_>, file: &File, problems: &Problems) {
    let mut variables = HashMap::new();
    let mut listeners = Listeners::default();
    if let Some(admin) = &file.proxy.admin {
        listeners.add(admin, Owner::Admin);
    }
    for upstream in &file.upstreams {
        let variable = upstream.variable();
        if let Some(other) = variables.insert(variable.clone(), &upstream.name) {
            let message = format!("its URL is in {variable}, and so is that of `{other}`");
            problems.add(at(top, upstream, "").problem(message).help("rename one of them"));
        }
        if upstream.buffer > file.proxy.replay {
            let message = "larger than `replay`, which limits all buffers together";
            let help = "raise `replay` in [proxy], or lower `buffer`";
            problems.add(at(top, upstream, "buffer").problem(message).help(help));
        }
        let by_certificate =
            upstream.idempotency.as_ref().is_some_and(|it| it.scope == KeyScope::Certificate);
        let has_certificates =
            upstream.listen_tls.as_ref().is_some_and(|it| it.client_ca.is_some());
        if by_certificate && !has_certificates {
            let help = "set client_ca in `listen_tls`, or name a header";
            let here = at(top, upstream, "idempotency");
            let here = here.get("scope").unwrap_or(here);
            problems.add(here.problem("callers of this upstream have no certificates").help(help));
        }
        let Some(address) = &upstream.listen else { continue };
        if let Some(owner) = listeners.owner(address) {
            let message = format!("{address} is in use by {owner}");
            let help = match owner {
                Owner::Admin => "use another address, or write `admin` in [proxy]",
                Owner::Upstream(_) => "use another address",
            };
            problems.add(at(top, upstream, "listen").problem(message).help(help));
        }
        listeners.add(address, Owner::Upstream(&upstream.name));
    }
    for upstream in &file.upstreams {
        for (i, target) in upstream.to.iter().enumerate() {
            let Some(owner) = listeners.reached_by(target) else { continue };
            let to = at(top, upstream, "to");
            let to = to.items().nth(i).unwrap_or(to.clone());
            let message = format!("{target} is the listener of {owner}: requests would loop");
            problems.add(to.problem(message).help("write the address of the server itself"));
        }
    }
}

/// A field of an upstream, or the upstream if it does not have that field.
fn at<'a>(top: &Cursor<'a>, upstream: &Upstream, field: &str) -> Cursor<'a> {
    let table = top.at(&["upstream", &upstream.name]).unwrap_or_else(|| top.clone());
    table.get(field).unwrap_or(table)
}

#[derive(Clone, Copy)]
enum Owner<'a> {
    Admin,
    Upstream(&'a str),
}

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin => f.write_str("the admin interface"),
            Self::Upstream(name) => write!(f, "`{name}`"),
        }
    }
}

const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Every address, those of IPv4 included.
const BOTH: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Who listens where.
#[derive(Default)]
struct Listeners<'a> {
    tcp: HashMap<SocketAddr, Owner<'a>>,
    /// Any listener on a port, by whether its address is one of IPv4.
    ports: HashMap<(u16, bool), Owner<'a>>,
    unix: HashMap<&'a Path, Owner<'a>>,
}

impl<'a> Listeners<'a> {
    fn add(&mut self, address: &'a Address, owner: Owner<'a>) {
        match address {
            // A free port is a different one for each listener.
            Address::Tcp(address) if address.port() == 0 => {}
            Address::Tcp(address) => {
                self.ports.insert((address.port(), address.is_ipv4()), owner);
                self.tcp.insert(*address, owner);
            }
            Address::Unix(path) => {
                self.unix.insert(path, owner);
            }
        }
    }

    /// The listener that makes this address unavailable.
    fn owner(&self, address: &Address) -> Option<Owner<'a>> {
        let address = match address {
            Address::Unix(path) => return self.unix.get(path.as_path()).copied(),
            Address::Tcp(address) => address,
        };
        let (ip, port) = (address.ip(), address.port());
        let any = |is_ipv4| self.ports.get(&(port, is_ipv4)).copied();
        match ip {
            IPV4 => any(true).or_else(|| self.at(port, BOTH)),
            BOTH => any(true).or_else(|| any(false)),
            _ => self.at(port, ip).or_else(|| self.wildcard(port, ip)),
        }
    }

    /// The listener that receives requests to this target.
    fn reached_by(&self, target: &Target) -> Option<Owner<'a>> {
        match target {
            Target::Unix(path) => self.unix.get(path.as_path()).copied(),
            Target::Http { port, .. } => target.local_ips().into_iter().find_map(|ip| {
                let wildcard = || self.wildcard(*port, ip).filter(|_| ip.is_loopback());
                self.at(*port, ip).or_else(wildcard)
            }),
        }
    }

    fn at(&self, port: u16, ip: IpAddr) -> Option<Owner<'a>> {
        self.tcp.get(&SocketAddr::new(ip, port)).copied()
    }

    /// The listener on all addresses of which this is one.
    fn wildcard(&self, port: u16, ip: IpAddr) -> Option<Owner<'a>> {
        self.at(port, BOTH).or_else(|| self.at(port, IPV4).filter(|_| ip.is_ipv4()))
    }
}
