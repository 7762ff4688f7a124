use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::source::Problem;
use crate::tree::Truncated;

/// Where the sidecar listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and a port. Port 0 is a free port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An endpoint of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// HTTP over TCP.
    Http {
        /// Whether over TLS.
        tls: bool,
        /// A name in lower case, or an IP address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// HTTP over a Unix socket.
    Unix(PathBuf),
}

const ADDRESS: &str = "an address such as \"127.0.0.1:9001\" or \"unix:/run/app.sock\"";
const TARGET: &str = "a URL such as \"https://api.example.com\" or \"unix:/run/app.sock\"";

impl Address {
    pub(super) fn loopback(port: u16) -> Self {
        Self::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl Target {
    /// Whether over TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Http { tls: true, .. })
    }

    /// The host, of a target over TCP.
    pub fn host(&self) -> Option<&str> {
        if let Self::Http { host, .. } = self { Some(host) } else { None }
    }

    /// The host, and the port unless it is the default one: the value of a `Host` header.
    pub fn authority(&self) -> String {
        let Self::Http { tls, host, port } = self else { return "localhost".to_owned() };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let default = if *tls { 443 } else { 80 };
        if *port == default { host } else { format!("{host}:{port}") }
    }

    /// The addresses of this machine that the target names, as far as its text shows.
    pub(super) fn local_ips(&self) -> Vec<IpAddr> {
        let Some(host) = self.host() else { return Vec::new() };
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match host.parse::<IpAddr>() {
            Ok(ip) if !ip.is_unspecified() => vec![ip],
            Err(_) if !is_localhost(host) => Vec::new(),
            _ => loopback.to_vec(),
        }
    }
}

fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost")
}

impl FromStr for Address {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket(path).map(Self::Unix);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| not(ADDRESS, text))?;
        let port = match port.parse::<u16>() {
            Ok(port) if port.to_string().len() == text.len() - host.len() - 1 => port,
            _ => return Err(not_a_port(text, port, 0).unwrap_or_else(|| not(ADDRESS, text))),
        };
        if host == "localhost" {
            return Ok(Self::loopback(port));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            let every =
                format!("127.0.0.1:{port} for this machine, 0.0.0.0:{port} for every interface");
            not(ADDRESS, text).help(format!("the host must be an IP address: {every}"))
        })
    }
}

impl FromStr for Target {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket(path).map(Self::Unix);
        }
        let http = text.strip_prefix("http://").map(|rest| (false, rest));
        let https = || text.strip_prefix("https://").map(|rest| (true, rest));
        let (tls, rest) = http.or_else(https).ok_or_else(|| not(TARGET, text))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            let message = "must be a URL without user and password";
            let help = "let the program send its credentials; the sidecar passes headers on";
            return Err(Problem::whole(message).help(help).secret());
        }
        if !["", "/"].contains(&path) {
            let message = format!("must be a URL without a path, but has `{}`", Truncated(path));
            return Err(Problem::whole(message).help("the path is the one of each request"));
        }
        let (host, port) = match authority.rsplit_once(':').filter(|(_, it)| !it.ends_with(']')) {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let port = match port.map(|port| (port, port.parse::<u16>())) {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some((digits, Ok(port @ 1..))) if digits == port.to_string() => port,
            Some((port, _)) => {
                return Err(not_a_port(text, port, 1).unwrap_or_else(|| not(TARGET, text)));
            }
        };
        let host = host_of(host).ok_or_else(|| not(TARGET, text))?;
        Ok(Self::Http { tls, host, port })
    }
}

/// A host as a target has it, if it is one.
fn host_of(text: &str) -> Option<String> {
    if let Some(ip) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return ip.parse::<Ipv6Addr>().ok().map(|ip| ip.to_string());
    }
    is_host(text).then(|| text.to_ascii_lowercase())
}

/// Whether a text is the name of a host, or an IPv4 address.
pub(super) fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let letters = label.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
        letters && (1..=63).contains(&label.len())
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    // A name whose last label is a number is read as an IPv4 address everywhere.
    let is_number = |label: &str| label.bytes().all(|it| it.is_ascii_digit());
    let is_ip = labels.rsplit('.').next().is_some_and(is_number);
    text.len() <= 253
        && labels.split('.').all(is_label)
        && (!is_ip || text.parse::<Ipv4Addr>().is_ok())
}

fn socket(path: &str) -> Result<PathBuf, Problem> {
    /// The length of `sun_path`, without its zero.
    const MAX_LENGTH: usize = 107;
    let fits = path.len() <= MAX_LENGTH;
    let is_path = path.starts_with('/') && fits && !path.contains(char::is_control);
    if is_path {
        return Ok(Path::new(path).to_owned());
    }
    let message = format!(
        "must be the absolute path of a Unix socket, of at most {MAX_LENGTH} bytes, but is \"{}\"",
        Truncated(path)
    );
    Err(Problem::whole(message))
}

fn not(what: &str, text: &str) -> Problem {
    // A text that is not a URL may still be one with a password.
    if text.contains('@') {
        return Problem::whole(format!("must be {what}")).secret();
    }
    Problem::whole(format!("must be {what}, but is \"{}\"", Truncated(text)))
}

/// The problem with a port that is a number and out of range.
fn not_a_port(text: &str, port: &str, least: u16) -> Option<Problem> {
    let is_number = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
    let message = format!("the port must be from {least} to 65535, but is {}", Truncated(port));
    (is_number && !text.contains('@')).then(|| Problem::whole(message))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { tls, .. } => {
                write!(f, "{}://{}", if *tls { "https" } else { "http" }, self.authority())
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
