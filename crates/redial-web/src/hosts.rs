//! Names of this server. Any name can resolve to this machine, so only listed ones are answered.

use std::net::{IpAddr, SocketAddr};

/// The `Host` headers that are answered, and the origins that belong to them.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// In lower case, without a port where a browser leaves it out.
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Hosts {
    /// The names of this address, and those that the user allows: `NAME` at the port of the address, or `NAME:PORT` as
    /// browsers reach it through another server.
    pub(crate) fn new(address: SocketAddr, allowed: &[String]) -> Self {
        let mut all = Self { hosts: Vec::new(), origins: Vec::new() };
        let port = address.port();
        match address.ip() {
            ip if ip.is_unspecified() => {}
            IpAddr::V4(ip) => all.add(&ip.to_string(), port),
            IpAddr::V6(ip) => all.add(&format!("[{ip}]"), port),
        }
        if address.ip().is_loopback() {
            all.add("localhost", port);
        }
        for name in allowed {
            match split(name) {
                Some((name, port)) => all.add(name, port),
                None => all.add(name, port),
            }
        }
        all
    }

    fn add(&mut self, name: &str, port: u16) {
        let name = name.to_ascii_lowercase();
        // With the port of its scheme, a browser sends none.
        let origins = match port {
            80 => vec![format!("http://{name}")],
            443 => vec![format!("https://{name}")],
            _ => vec![format!("http://{name}:{port}"), format!("https://{name}:{port}")],
        };
        self.origins.extend(origins);
        if matches!(port, 80 | 443) {
            self.hosts.push(name.clone());
        }
        self.hosts.push(format!("{name}:{port}"));
    }

    pub(crate) fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// An address to open.
    pub(crate) fn first(&self) -> String {
        self.origins.first().cloned().unwrap_or_default()
    }
}

/// A name and its port, if it has one.
fn split(name: &str) -> Option<(&str, u16)> {
    let (name, port) = name.rsplit_once(':')?;
    Some((name, port.parse().ok()?))
}

/// Checks a name that the user allows.
///
/// # Errors
///
/// It is not a host name, or an address in brackets, with or without a port.
pub fn check_host(name: &str) -> Result<(), String> {
    let host = split(name).map_or(name, |(host, _)| host);
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_v6 = is_v6.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    if is_v6 || (!host.is_empty() && host.bytes().all(is_valid)) {
        return Ok(());
    }
    Err("must be a host name, as a browser shows it: NAME or NAME:PORT, without http://".to_owned())
}
