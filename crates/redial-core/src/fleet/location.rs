//! A policy names its fleet; where the ledger of that fleet is belongs to the deployment.

use alloc::format;
use alloc::string::String;

use crate::invalid::Invalid;

/// Where the ledger of a fleet is, as a file describes it. The password is not part of it, only the place where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Location {
    /// `redis://host[:port][/database]`, or `rediss://` for TLS.
    pub redis: String,
    /// The user in Redis; the default user if there is none.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub user: Option<String>,
    /// Where the password is.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub password: Option<SecretSource>,
    /// A file with the certificates (PEM) that are trusted, instead of the operating system's.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub ca_file: Option<String>,
}

/// Where a secret is found when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum SecretSource {
    /// In the file at this path.
    File(String),
    /// In this environment variable.
    Env(String),
}

impl SecretSource {
    /// The path of the file, or the name of the variable.
    pub fn place(&self) -> &str {
        match self {
            Self::File(place) | Self::Env(place) => place,
        }
    }
}

const ADDRESS: &str = "redis://host[:port][/database], or rediss://… for TLS";
const CREDENTIALS: &str = "an address without user and password: write user = \"…\" and \
                           password = { file = \"…\" } or { env = \"…\" }";

impl Location {
    /// Validates all fields. A password in the address is refused, and not repeated in the error.
    ///
    /// # Errors
    ///
    /// Names the first field that is not valid.
    pub fn check(&self) -> Result<(), Invalid> {
        let scheme = ["redis://", "rediss://"].into_iter().find(|it| self.redis.starts_with(it));
        let host = scheme.map_or("", |scheme| &self.redis[scheme.len()..]);
        let shown = || without_password(&self.redis);
        if self.redis.contains('@') {
            return Err(Invalid::new("redis", shown(), CREDENTIALS));
        }
        if host.is_empty() || host.starts_with([':', '/']) || host.contains(['?', '#', ' ']) {
            return Err(Invalid::new("redis", shown(), ADDRESS));
        }
        if self.user.is_some() && self.password.is_none() {
            let user = self.user.clone().unwrap_or_default();
            return Err(Invalid::new("user", user, "used with password"));
        }
        for (field, text) in [
            ("user", self.user.as_deref()),
            ("ca_file", self.ca_file.as_deref()),
            ("password", self.password.as_ref().map(SecretSource::place)),
        ] {
            if text.is_some_and(str::is_empty) {
                return Err(Invalid::new(field, "empty", "left out or not empty"));
            }
        }
        match &self.ca_file {
            Some(path) if scheme != Some("rediss://") => {
                Err(Invalid::new("ca_file", path.clone(), "used with rediss://…"))
            }
            _ => Ok(()),
        }
    }
}

/// The address of a ledger for an error message. The password is before the host, or in the query parameters of a socket.
#[doc(hidden)]
pub fn without_password(url: &str) -> String {
    let (scheme, rest) =
        url.split_once("://").map_or(("", url), |(scheme, _)| url.split_at(scheme.len() + 3));
    match (rest.rsplit_once('@'), rest.split_once('?')) {
        (Some(_), Some(_)) => format!("{scheme}…"),
        (Some((_, host)), None) => format!("{scheme}…@{host}"),
        (None, Some((address, _))) => format!("{scheme}{address}"),
        (None, None) => url.into(),
    }
}
