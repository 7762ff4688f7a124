//! A retry may reach another server than the first attempt, and has to find its record there. This store is shared by
//! all servers. Each step is one script, so that it is atomic, and only the clock of Redis counts: those of the servers
//! disagree.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{
    ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult, Script,
    ScriptInvocation, ServerErrorKind,
};
use tokio::time::timeout;

use super::error::IdempotencyStoreError;
use super::store::{Begun, IdempotencyStore, Interrupted, KeyClaim, KeyTerms};
use crate::link::{Address, Link, Open, Trust};

/// 100 years, which Redis can add to its clock without an overflow.
const MOST_MS: u128 = 100 * 365 * 24 * 3600 * 1000;

/// Responses of up to 1 MiB are stored by default. This leaves room for their headers, and for layers that store larger
/// ones.
const REPLY_BYTES: usize = 8 << 20;

/// The bytes of a reply besides its record.
const BESIDE_RECORD: usize = 256;

/// Stores keys and responses in Redis (5 or later; a single server, or a proxy that acts as one).
///
/// Defaults: keys start with `redial:idempotency:`; Redis has 1 s to answer, including a new connection; its replies, and
/// so the stored responses, have up to 8 MiB. While it does not answer, requests with a key get a 503 and are not
/// executed; each of them tries again.
///
/// Redis must not evict records (`maxmemory-policy noeviction`). Records that it loses in a restart may be executed again.
/// A record takes its response and about 200 bytes.
pub struct RedisStore {
    link: Arc<Link>,
    prefix: String,
    timeout: Duration,
    begin: Script,
    renew: Script,
    finish: Script,
    release: Script,
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`.
    pub async fn connect(url: &str) -> Result<Self, IdempotencyStoreError> {
        let store = Self::open(url)?;
        match timeout(store.timeout, store.link.get(store.timeout)).await {
            Ok(Ok(_)) => Ok(store),
            Ok(Err(error)) => Err(unavailable(error)),
            Err(elapsed) => Err(unavailable(elapsed)),
        }
    }

    /// The same without a connection: the first request with a key makes it. For programs that have to start while Redis is
    /// down.
    ///
    /// # Errors
    ///
    /// The URL is not valid.
    pub fn open(url: &str) -> Result<Self, IdempotencyStoreError> {
        let info = url.into_connection_info().map_err(unavailable)?;
        let address = Address::new(info, Trust::System);
        Ok(Self {
            link: Arc::new(Link::new(address, REPLY_BYTES)),
            prefix: "redial:idempotency:".to_owned(),
            timeout: Duration::from_secs(1),
            begin: Script::new(include_str!("begin.lua")),
            renew: Script::new(include_str!("renew.lua")),
            finish: Script::new(include_str!("finish.lua")),
            release: Script::new(include_str!("release.lua")),
        })
    }

    /// Sets the prefix of all keys. Each service that shares a Redis needs its own.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Sets how long Redis has to answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Limits a reply of Redis. A connection with a longer one is closed before the reply is read into memory. A response
    /// that does not fit into a reply is not stored: its repetition gets a 410. The limit has to be larger than the layer's
    /// `response_bytes`, and the same on all servers.
    #[must_use]
    pub fn reply_bytes(self, most: usize) -> Self {
        self.link.limit().set(most);
        self
    }

    /// Runs a script. A connection that did not answer in time may be dead, and is replaced.
    async fn run<'a, T: FromRedisValue>(
        &self,
        call: impl Fn() -> ScriptInvocation<'a>,
    ) -> Result<T, IdempotencyStoreError> {
        let mut used = None;
        let answer = timeout(self.timeout, async {
            match self.run_once(&call, &mut used).await {
                // Nothing was done. The clock of Redis may have jumped: try again with its current time.
                Err(error) if is_late(&error) => self.run_once(&call, &mut used).await,
                answer => answer,
            }
        });
        match answer.await {
            Ok(answer) => answer.map_err(unavailable),
            Err(elapsed) => {
                used.into_iter().for_each(|number| self.link.forget(number));
                Err(unavailable(elapsed))
            }
        }
    }

    async fn run_once<'a, T: FromRedisValue>(
        &self,
        call: impl Fn() -> ScriptInvocation<'a>,
        used: &mut Option<u64>,
    ) -> RedisResult<T> {
        let mut open = self.link.get(self.timeout).await?;
        *used = Some(open.number);
        let mut call = call();
        let answer = call.arg(self.not_after(&open)).invoke_async(&mut open.connection).await;
        if answer.as_ref().is_err_and(is_dead) {
            self.link.forget(open.number);
        }
        answer
    }

    /// The time after which a script must have no effect. A server that hung executes queued commands when it resumes; by
    /// then the caller has timed out, and a key taken for it would look like an interruption. Twice the timeout: once for
    /// the caller's wait, and once for the error of our estimate of the server's clock.
    fn not_after(&self, open: &Open) -> u64 {
        open.server_ms().saturating_add(millis(self.timeout).saturating_mul(2))
    }

    fn call<'a>(&self, script: &'a Script, claim: &KeyClaim) -> ScriptInvocation<'a> {
        let mut key = self.prefix.clone();
        key.extend(claim.key().iter().map(|byte| format!("{byte:02x}")));
        script.key(key)
    }

    /// Runs a script that returns whether the claim still owns the key.
    async fn run_ours<'a>(
        &self,
        call: impl Fn() -> ScriptInvocation<'a>,
    ) -> Result<(), IdempotencyStoreError> {
        if self.run::<bool>(call).await? { Ok(()) } else { Err(IdempotencyStoreError::Lost) }
    }
}

impl IdempotencyStore for RedisStore {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        let executes = terms.on_interrupted == Interrupted::Execute;
        let call = || {
            let mut call = self.call(&self.begin, claim);
            call.arg(&claim.fingerprint()[..]).arg(&owner(claim)[..]);
            call.arg(millis(terms.lease)).arg(millis(terms.ttl).max(1)).arg(u8::from(executes));
            call
        };
        let mut answer = self.run::<Vec<Bytes>>(call).await?.into_iter();
        match (answer.next().as_deref(), answer.next()) {
            (Some(b"started"), _) => Ok(Begun::Started),
            (Some(b"resumed"), _) => Ok(Begun::Resumed),
            (Some(b"in-flight"), _) => Ok(Begun::InFlight),
            (Some(b"mismatch"), _) => Ok(Begun::Mismatch),
            (Some(b"interrupted"), _) => Ok(Begun::Interrupted),
            (Some(b"finished"), Some(response)) => Ok(Begun::Finished(response)),
            _ => Err(unavailable("Redis sent a reply that the script cannot return")),
        }
    }

    async fn renew(&self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), IdempotencyStoreError> {
        let call = || {
            let mut call = self.call(&self.renew, claim);
            call.arg(&claim.fingerprint()[..]).arg(&owner(claim)[..]);
            call.arg(millis(terms.lease)).arg(millis(terms.ttl).max(1));
            call
        };
        self.run_ours(call).await
    }

    async fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> Result<(), IdempotencyStoreError> {
        if response.len().saturating_add(BESIDE_RECORD) > self.link.limit().get() {
            return Err(IdempotencyStoreError::Full);
        }
        let call = || {
            let mut call = self.call(&self.finish, claim);
            call.arg(&claim.fingerprint()[..]).arg(&owner(claim)[..]);
            call.arg(millis(terms.ttl).max(1)).arg(&response[..]);
            call
        };
        self.run_ours(call).await
    }

    async fn release(&self, claim: &KeyClaim) -> Result<(), IdempotencyStoreError> {
        // Twice as long as a `begin` is valid: it may have been sent over an earlier connection.
        let begin_valid = millis(self.timeout).saturating_mul(4).max(1);
        let call = || {
            let mut call = self.call(&self.release, claim);
            call.arg(&owner(claim)[..]).arg(begin_valid);
            call
        };
        self.run_ours(call).await
    }
}

/// Omits the address, which may contain a password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, timeout, .. } = self;
        f.debug_struct("RedisStore")
            .field("prefix", prefix)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

fn owner(claim: &KeyClaim) -> [u8; 16] {
    claim.owner().to_be_bytes()
}

/// Rounded up, so that a record never expires early.
fn millis(duration: Duration) -> u64 {
    let millis = duration.as_nanos().div_ceil(1_000_000).min(MOST_MS);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// Whether to reconnect. A read-only server is the wrong one, and a new connection reads the server's clock again.
fn is_dead(error: &RedisError) -> bool {
    let reads_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
    error.is_io_error() || error.is_unrecoverable_error() || reads_only || is_late(error)
}

/// Whether the script did nothing because its caller has timed out.
fn is_late(error: &RedisError) -> bool {
    error.code() == Some("LATE")
}

fn unavailable(
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> IdempotencyStoreError {
    IdempotencyStoreError::Unavailable(cause.into())
}
