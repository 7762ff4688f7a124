//! The addresses behind the names in a file, as the system's resolver finds them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::thread;

use redial_policy::file::{File, Target};

/// What was found, by host and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved(BTreeMap<(String, u16), Vec<SocketAddr>>);

impl Resolved {
    /// Looks up every name of a file, all at once: a resolver that does not answer takes seconds for each. A name that is
    /// not found keeps the addresses from `before`.
    pub(crate) fn look_up(file: &File, before: &Self) -> Self {
        let mut found: BTreeMap<(String, u16), Vec<SocketAddr>> = BTreeMap::new();
        for target in file.upstreams.iter().flat_map(|upstream| &upstream.to) {
            if let Target::Http { host, port, .. } = target {
                found.insert((host.clone(), *port), Vec::new());
            }
        }
        thread::scope(|scope| {
            for ((host, port), addresses) in &mut found {
                let mut look_up = move || {
                    let known = || before.addresses(host, *port).to_vec();
                    *addresses = one(host, *port).unwrap_or_else(known);
                };
                if host.parse::<std::net::IpAddr>().is_ok() {
                    look_up();
                } else {
                    // Without a thread the name has no address until the next lookup.
                    let _ = thread::Builder::new().spawn_scoped(scope, look_up);
                }
            }
        });
        Self(found)
    }

    /// The addresses of a name; empty if none has been found.
    pub(crate) fn addresses(&self, host: &str, port: u16) -> &[SocketAddr] {
        self.0.get(&(host.to_owned(), port)).map_or(&[], Vec::as_slice)
    }
}

/// The addresses of one name: those of the family that the resolver prefers first, otherwise in an order that is always
/// the same, because resolvers rotate them.
fn one(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    let is_ipv4 = found.first()?.is_ipv4();
    found.sort_by_key(|address| (address.is_ipv4() != is_ipv4, *address));
    found.dedup();
    Some(found)
}
