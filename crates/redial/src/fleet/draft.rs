use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redial_core::fleet::{Location, check_name, without_password};
use redial_core::{Invalid, Span};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::event::FleetEvent;
use super::handle::{Config, Fleet};
use super::secret;
use crate::link::{Address, Trust};

const ADDRESS: &str = "redis://[user:password@]host[:port][/database], or rediss:// for TLS";
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a fleet that has not been opened yet.
///
/// Defaults: keys start with `redial:fleet:`, Redis has 250 ms to answer, the operating system's certificates are trusted,
/// and there is no observer.
#[must_use = "a draft does nothing until it is opened"]
pub struct FleetDraft {
    url: String,
    /// The user, if it is not in the address, and the password.
    credentials: Option<(Option<String>, String)>,
    name: String,
    prefix: String,
    timeout: Duration,
    ca_file: Option<PathBuf>,
    observer: Option<Observer>,
}

pub(super) type Observer = Arc<dyn Fn(&FleetEvent) + Send + Sync>;

impl FleetDraft {
    pub(super) fn new(url: &str, name: &str) -> Self {
        Self {
            url: url.to_owned(),
            credentials: None,
            name: name.to_owned(),
            prefix: "redial:fleet:".to_owned(),
            timeout: Duration::from_millis(250),
            ca_file: None,
            observer: None,
        }
    }

    /// The fleet whose ledger is at `location`. Reads the password.
    pub(super) fn at(location: &Location, name: &str) -> Result<Self, Invalid> {
        location.check()?;
        let password = location.password.as_ref().map(secret::resolve).transpose()?;
        Ok(Self {
            credentials: password.map(|password| (location.user.clone(), password)),
            ca_file: location.ca_file.as_ref().map(PathBuf::from),
            ..Self::new(&location.redis, name)
        })
    }

    /// Sets the prefix of all keys.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Sets how long Redis has to answer, from 1 ms to 60 s. After that, retries are paid for without it.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Trusts the certificates of this file (PEM) instead of the operating system's.
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        Self { ca_file: Some(path.into()), ..self }
    }

    /// Calls `observer` for every event, on the fleet's own thread: the fleet waits until it returns.
    pub fn observe(self, observer: impl Fn(&FleetEvent) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Validates the options and starts the fleet's thread. Does not wait for the network.
    pub fn open(self) -> Result<Fleet, Invalid> {
        check_name("fleet.name", &self.name, 1)?;
        check_name("fleet.prefix", &self.prefix, 0)?;
        if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&self.timeout) {
            let value = Span::from(self.timeout).to_string();
            return Err(Invalid::new("fleet.timeout", value, "1ms to 60s"));
        }
        let address = self.address()?;
        let Self { name, prefix, timeout, observer, .. } = self;
        Fleet::start(address, Config { name, prefix, timeout, observer })
    }

    fn address(&self) -> Result<Address, Invalid> {
        let url = self.url.as_str();
        let wrong =
            |allowed: &'static str| Invalid::new("fleet.url", without_password(url), allowed);
        let mut info: ConnectionInfo = url.into_connection_info().map_err(|_| wrong(ADDRESS))?;
        if let Some((user, password)) = &self.credentials {
            let mut settings = info.redis_settings().clone().set_password(password);
            if let Some(user) = user {
                settings = settings.set_username(user);
            }
            info = info.set_redis_settings(settings);
        }
        let trust = match (info.addr(), &self.ca_file) {
            (ConnectionAddr::TcpTls { insecure: true, .. }, _) => {
                return Err(wrong("without #insecure: put a private certificate into a CA file"));
            }
            (ConnectionAddr::TcpTls { .. }, Some(path)) => Trust::Roots(Arc::new(roots(path)?)),
            (_, Some(_)) => return Err(wrong("rediss://… with a CA file")),
            (_, None) => Trust::System,
        };
        Ok(Address::new(info, trust))
    }
}

/// Omits the address, which may contain a password.
impl fmt::Debug for FleetDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix, timeout, ca_file, .. } = self;
        f.debug_struct("FleetDraft")
            .field("name", name)
            .field("prefix", prefix)
            .field("timeout", timeout)
            .field("ca_file", ca_file)
            .finish_non_exhaustive()
    }
}

fn roots(path: &Path) -> Result<RootCertStore, Invalid> {
    let wrong = |what: String| {
        let value = format!("{} ({what})", path.display());
        Invalid::new("fleet.ca_file", value, "a file with certificates in PEM")
    };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("no certificate found".to_owned()));
    }
    Ok(roots)
}
