//! A store for a fleet: whichever server a repetition reaches, it finds what the first one did. Each step
//! is one script, so nobody sees half of it, and only Redis's clock counts: those of the servers disagree.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{
    ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult, Script,
    ScriptInvocation, ServerErrorKind,
};
use tokio::time::timeout;

use super::store::{Begun, Claim, Interrupted, Store, StoreError, Terms};
use crate::link::{Address, Link, Open, Trust};

/// Longer than anybody waits, and short enough for Redis to add to its clock.
const MOST_MS: u128 = 100 * 365 * 24 * 3600 * 1000;

/// Responses of up to 1 MiB are kept by default, and this leaves room for their headers and for layers that
/// keep larger ones.
const REPLY_BYTES: usize = 8 << 20;

/// What a reply takes beside the record in it.
const BESIDE_RECORD: usize = 256;

/// Keeps keys and responses in Redis (5 or later; one server, or what stands for one).
///
/// Defaults: keys start with `redial:idempotency:`, and Redis has one second to answer, a new connection
/// included; its replies, and so the responses that are kept, have up to 8 MiB. When it does not answer,
/// requests with a key get a 503 and are not executed; it is asked again by the next one.
///
/// Redis must not evict records (`maxmemory-policy noeviction`), and what it forgets when it restarts
/// may be executed again. A record takes its response and some 200 bytes.
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
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let info = url.into_connection_info().map_err(unavailable)?;
        let address = Address::new(info, Trust::System);
        let store = Self {
            link: Arc::new(Link::new(address, REPLY_BYTES)),
            prefix: "redial:idempotency:".to_owned(),
            timeout: Duration::from_secs(1),
            begin: Script::new(include_str!("begin.lua")),
            renew: Script::new(include_str!("renew.lua")),
            finish: Script::new(include_str!("finish.lua")),
            release: Script::new(include_str!("release.lua")),
        };
        match timeout(store.timeout, store.link.get(store.timeout)).await {
            Ok(Ok(_)) => Ok(store),
            Ok(Err(error)) => Err(unavailable(error)),
            Err(elapsed) => Err(unavailable(elapsed)),
        }
    }

    /// Keys start with this instead: one for each service that shares a Redis.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Redis has this long to answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// A reply of Redis may have so many bytes. A connection that brings a longer one is closed before the reply
    /// is read into memory. A response that would not fit into a reply is not kept: its repetition gets a 410.
    /// Has to be larger than the layer's `response_bytes`, and the same on all servers.
    #[must_use]
    pub fn reply_bytes(self, most: usize) -> Self {
        self.link.most().set(most);
        self
    }

    /// A connection that did not answer in time may be dead without having said so.
    async fn run<'a, T: FromRedisValue>(
        &self,
        call: impl Fn() -> ScriptInvocation<'a>,
    ) -> Result<T, StoreError> {
        let mut used = None;
        let answer = timeout(self.timeout, async {
            match self.ask(&call, &mut used).await {
                // Nothing was done. Its clock may have jumped, for everybody at once: ask what it says now.
                Err(error) if is_late(&error) => self.ask(&call, &mut used).await,
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

    async fn ask<'a, T: FromRedisValue>(
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

    /// A server that hangs does what is in its queue when it goes on. By then nobody waits, and a key
    /// that was taken for nobody would look like an interruption: it has to be refused. Once for our own
    /// waiting, and once for how far behind our idea of its clock can be.
    fn not_after(&self, open: &Open) -> u64 {
        open.server_ms().saturating_add(millis(self.timeout).saturating_mul(2))
    }

    fn call<'a>(&self, script: &'a Script, claim: &Claim) -> ScriptInvocation<'a> {
        let mut key = self.prefix.clone();
        key.extend(claim.key().iter().map(|byte| format!("{byte:02x}")));
        script.key(key)
    }

    /// What is not ours any more is lost.
    async fn run_ours<'a>(
        &self,
        call: impl Fn() -> ScriptInvocation<'a>,
    ) -> Result<(), StoreError> {
        if self.run::<bool>(call).await? { Ok(()) } else { Err(StoreError::Lost) }
    }
}

impl Store for RedisStore {
    async fn begin(&self, claim: &Claim, terms: &Terms) -> Result<Begun, StoreError> {
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
            _ => Err(unavailable("Redis gave an answer that the script does not have")),
        }
    }

    async fn renew(&self, claim: &Claim, terms: &Terms) -> Result<(), StoreError> {
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
        claim: &Claim,
        response: Bytes,
        terms: &Terms,
    ) -> Result<(), StoreError> {
        if response.len().saturating_add(BESIDE_RECORD) > self.link.most().get() {
            return Err(StoreError::Full);
        }
        let call = || {
            let mut call = self.call(&self.finish, claim);
            call.arg(&claim.fingerprint()[..]).arg(&owner(claim)[..]);
            call.arg(millis(terms.ttl).max(1)).arg(&response[..]);
            call
        };
        self.run_ours(call).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        // Twice as long as a `begin` is good for: it may have been sent over the connection before.
        let may_come = millis(self.timeout).saturating_mul(4).max(1);
        let call = || {
            let mut call = self.call(&self.release, claim);
            call.arg(&owner(claim)[..]).arg(may_come);
            call
        };
        self.run_ours(call).await
    }
}

/// It shows nothing of the address, which may have a password in it.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, timeout, .. } = self;
        f.debug_struct("RedisStore")
            .field("prefix", prefix)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

fn owner(claim: &Claim) -> [u8; 16] {
    claim.owner().to_be_bytes()
}

/// Rounded up: a record is never forgotten early.
fn millis(duration: Duration) -> u64 {
    let millis = duration.as_nanos().div_ceil(1_000_000).min(MOST_MS);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// One to a server that only reads is to the wrong one, and with the next one the clock is read again.
fn is_dead(error: &RedisError) -> bool {
    let reads_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
    error.is_io_error() || error.is_unrecoverable_error() || reads_only || is_late(error)
}

/// What the scripts say when nobody can be waiting for their answer any more.
fn is_late(error: &RedisError) -> bool {
    error.code() == Some("LATE")
}

fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Unavailable(cause.into())
}
