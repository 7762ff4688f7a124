//! The tables of the sidecar (`redial proxy`): where it listens, where it sends requests, and under which policies.
//!
//! ```toml
//! [proxy]
//! admin = "127.0.0.1:9900"
//!
//! [upstream.stripe]
//! to     = "https://api.stripe.com"
//! listen = "127.0.0.1:9001"
//! policy = "payments"                 # a [policy.NAME] of the file
//! keys   = "make"
//!
//! [[route]]
//! upstream = "stripe"
//! path     = "/v1/refunds/*"
//! policy   = "refunds"
//! ```

mod address;
mod check;
mod print;
mod read;
mod size;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use address::{Address, Target};
pub(super) use print::{proxy as print_proxy, upstream as print_upstream};
pub(super) use read::read;
use redial_core::Policy;
use redial_core::admit::BreakerRule;
use redial_core::admit::budget::Budget;

use crate::source::Problem;
use crate::tree::{Entry, Node, Table, Truncated};

/// Whether a TOML document has upstreams. Without a target, or among unknown tables, `upstream` may mean anything.
pub(super) fn recognises(node: &Node, only_known: bool) -> bool {
    let upstreams = node.get("upstream").and_then(Node::table).map_or(&[][..], Table::entries);
    let has_target = |to: &Node| {
        let first = to.list().map_or(Some(to), <[Node]>::first).and_then(Node::text);
        first.is_some_and(|text| text.parse::<Target>().is_ok())
    };
    let is_upstream = |entry: &Entry| match entry.node.get("to") {
        Some(to) => only_known || has_target(to),
        None => only_known && (entry.node.table().is_some() || entry.key == "to"),
    };
    upstreams.iter().any(is_upstream)
}

/// What concerns the whole process of the sidecar: the table `[proxy]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// Where metrics, health and state are served: loopback or a Unix socket; `None` for nowhere.
    pub admin: Option<Address>,
    /// The number of threads.
    pub threads: usize,
    /// The most connections of callers at once.
    pub connections: usize,
    /// The most requests that are parked at once, over all upstreams.
    pub parked: u32,
    /// The most bytes of all replay buffers together.
    pub replay: u64,
    /// How long open requests may take to finish before the process ends.
    pub drain: Duration,
    /// The format of the access log.
    pub log: AccessLog,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            admin: Some(Address::loopback(9900)),
            threads: 1,
            connections: 10_000,
            parked: 1000,
            replay: 64 << 20,
            drain: Duration::from_secs(30),
            log: AccessLog::Text,
        }
    }
}

/// The format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// A line of text per request.
    #[default]
    Text,
    /// A line of JSON per request.
    Json,
    /// No access log.
    None,
}

/// A destination of requests, and the listener that leads to it: a table `[upstream.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The name: a letter, then letters, digits, `-` and `_`.
    pub name: String,
    /// The endpoints, at least one and all different. A host name may resolve to several addresses.
    pub to: Vec<Target>,
    /// Where the sidecar accepts requests; `None` for a free port on loopback.
    pub listen: Option<Address>,
    /// The policy of requests that match no route, by its name in the file; `None` for the preset `standard`.
    pub policy: Option<String>,
    /// What happens to requests without an idempotency key.
    pub keys: MissingKeys,
    /// The most bytes of a request body that are kept for another attempt.
    pub buffer: u64,
    /// The `Host` that the upstream receives.
    pub host: HostHeader,
    /// Whether headers such as `redial-*`, `x-envoy-*` and `x-forwarded-*` are accepted from callers.
    pub trust: bool,
    /// Whether responses carry the number of attempts.
    pub attempts_header: bool,
    /// The limit on requests in progress.
    pub shed: Option<ShedLimits>,
    /// Replays the stored response to a request whose idempotency key is known.
    pub idempotency: Option<IdempotencyRules>,
    /// The active check of each endpoint.
    pub health: Option<HealthCheck>,
    /// The guards of each endpoint, as a policy with one attempt. `None` for the default, which depends on the number of
    /// endpoints ([`Upstream::endpoint_policy`]).
    pub endpoint: Option<Policy>,
    /// TLS towards the upstream.
    pub tls: ClientTls,
    /// TLS towards callers; `None` for plain text.
    pub listen_tls: Option<ServerTls>,
}

impl Upstream {
    const BUFFER: u64 = 64 << 10;

    /// An upstream with all other fields at their defaults.
    ///
    /// # Errors
    ///
    /// The name is not valid, or there is no target.
    pub fn new(name: &str, to: Vec<Target>) -> Result<Self, Problem> {
        let letters = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
        if !letters || name.len() > 64 || !name.starts_with(|it: char| it.is_ascii_alphabetic()) {
            let what = "must be a letter, followed by up to 63 letters, digits, - or _, but is";
            let message = format!("the name of an upstream {what} `{}`", Truncated(name));
            return Err(Problem::whole(message).help("its URL is in the variable NAME_URL"));
        }
        if to.is_empty() {
            return Err(Problem::whole(format!("the upstream `{name}` has no target")));
        }
        Ok(Self {
            name: name.to_owned(),
            to,
            listen: None,
            policy: None,
            keys: MissingKeys::default(),
            buffer: Self::BUFFER,
            host: HostHeader::default(),
            trust: true,
            attempts_header: false,
            shed: None,
            idempotency: None,
            health: None,
            endpoint: None,
            tls: ClientTls::default(),
            listen_tls: None,
        })
    }

    /// The environment variable in which a program finds the URL of the listener, such as `STRIPE_URL`.
    pub fn variable(&self) -> String {
        format!("{}_URL", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// The guards of each of this many endpoints, as a policy with one attempt. By default, several endpoints have a
    /// breaker each, and a single one has none: there is no other to send its requests to.
    pub fn endpoint_policy(&self, endpoints: usize) -> Policy {
        match &self.endpoint {
            Some(policy) => policy.clone(),
            None if endpoints > 1 => guards_only(Policy::draft().breaker(BreakerRule::default())),
            None => guards_only(Policy::draft()),
        }
    }
}

/// The guards of a draft, without anything else that limits a call.
fn guards_only(draft: redial_core::Draft) -> Policy {
    let draft = draft.attempts(1).without_deadline().without_hedge().without_stall().without_park();
    draft.budget(Budget::None).build().unwrap_or_else(|_| Policy::standard())
}

/// What happens to requests that need an idempotency key and have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKeys {
    /// They are sent as they are.
    #[default]
    Leave,
    /// They get a key, the same for every attempt.
    Make,
}

/// The `Host` that an upstream receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostHeader {
    /// The host of the target.
    #[default]
    Upstream,
    /// The caller's.
    Keep,
}

/// A limit on requests in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShedLimits {
    /// The most requests in progress.
    pub limit: u32,
    /// The most requests that wait; as many as `limit` by default.
    pub queue: u32,
}

/// Idempotency keys of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyRules {
    /// Where keys and responses are stored.
    pub store: KeyStore,
    /// Whose keys they are.
    pub scope: KeyScope,
    /// The methods whose keys are read, in upper case; POST and PATCH by default.
    pub methods: Vec<String>,
    /// How long a response is stored.
    pub ttl: Duration,
}

impl IdempotencyRules {
    fn new(store: KeyStore) -> Self {
        let methods = ["POST", "PATCH"].map(str::to_owned).to_vec();
        Self { store, scope: KeyScope::default(), methods, ttl: Duration::from_secs(24 * 3600) }
    }
}

/// What distinguishes callers. The names in a verified client certificate always do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyScope {
    /// A key with other credentials, in headers, is refused.
    #[default]
    Credentials,
    /// Each client certificate has its own keys. Credentials in headers are not compared.
    Certificate,
    /// Each value of this header has its own keys; its name is in lower case.
    Header(String),
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "credentials",
            Self::Certificate => "certificate",
            Self::Header(name) => name,
        })
    }
}

/// Where idempotency keys and responses are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyStore {
    /// In memory.
    Memory,
    /// In this SQLite file.
    Sqlite(PathBuf),
    /// In the Redis at this URL, which has no password.
    Redis(String),
    /// In the Redis whose URL is in this environment variable.
    RedisFromEnv(String),
}

impl fmt::Display for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Redis(url) => f.write_str(url),
            Self::RedisFromEnv(variable) => write!(f, "redis:{variable}"),
        }
    }
}

/// An active check of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path of a GET request that a healthy endpoint answers with a 2xx.
    pub path: String,
    /// The time between two checks.
    pub every: Duration,
    /// How long an endpoint has to answer.
    pub timeout: Duration,
}

impl HealthCheck {
    const EVERY: Duration = Duration::from_secs(5);

    fn new(path: &str, every: Duration) -> Self {
        Self { path: path.to_owned(), every, timeout: every.min(Duration::from_secs(1)) }
    }
}

/// TLS towards the upstream. Files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The certificates that are trusted; those of the operating system if unset.
    pub ca: Option<PathBuf>,
    /// The certificate that the sidecar presents, with its key.
    pub identity: Option<Identity>,
    /// The name that the certificate of the upstream must have; the host of the target if unset.
    pub name: Option<String>,
}

/// TLS towards callers. Files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate that the sidecar presents, with its key.
    pub identity: Identity,
    /// The certificates that callers must be signed by; callers need none if unset.
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its private key. Files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}
