//! A user who can choose the URL of a webhook can enter `http://169.254.169.254/`, or a name that resolves to it, or one that
//! resolves to something else by the time of the connection. So the address is checked, not the name, and the connection goes
//! to the address that was checked.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether an address is on the public Internet: not loopback, private, link-local, shared by the customers of a carrier,
/// multicast or reserved. An IPv6 address that embeds an IPv4 address is judged by that one, except for the tunnels Teredo and
/// 6to4, which are not public.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let reserved = matches!(
        address.octets(),
        [0 | 10 | 127 | 224.., ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    );
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // IPv4-mapped, and NAT64, which reaches all of IPv4 from networks with IPv6 only.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // IETF protocols (Teredo among them), documentation, 6to4, documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => {
            false
        }
        [0x2000..0x4000, ..] => true,
        _ => false,
    }
}

/// Checks a host that is an address: it is not resolved, so the resolver does not see it.
pub(super) fn check_literal(url: &Url) -> Result<(), Blocked> {
    let host = url.host_str().unwrap_or_default();
    match host.trim_matches(['[', ']']).parse() {
        Ok(address) if !is_public(address) => Err(Blocked { host: host.to_owned(), address }),
        _ => Ok(()),
    }
}

/// Resolves names as the system does, and keeps only public addresses.
pub(super) struct OnlyPublic;

impl Resolve for OnlyPublic {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let all: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let (public, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|address| is_public(address.ip()));
            match others.first() {
                Some(other) if public.is_empty() => {
                    let host = name.as_str().to_owned();
                    Err(Blocked { host, address: other.ip() }.into())
                }
                _ => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

/// A host that is not public.
#[derive(Debug)]
pub(super) struct Blocked {
    host: String,
    address: IpAddr,
}

impl Blocked {
    /// Finds it among the sources of an error.
    pub(super) fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(blocked) = error.downcast_ref() {
                return Some(blocked);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        write!(
            f,
            "{host} is not on the public Internet ({address}); this worker delivers only to public addresses"
        )
    }
}

impl Error for Blocked {}
