//! One shared connection to Redis that reconnects when it breaks. The library's own connection manager returns the error
//! of a failed reconnection for ever, unless it was an I/O error, and buffers a reply of any length.

mod address;
mod replies;

#[cfg(feature = "fleet")]
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "redis")]
use redial_core::Time;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, RedisResult};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

#[cfg(feature = "redis")]
use crate::clock::{Clock, Monotonic};

pub(crate) use address::{Address, Trust};
#[cfg(feature = "fleet")]
use replies::TooLong;
use replies::{Measured, ReplyLimit};

/// The least time for connecting, even if the timeout for replies is shorter: a handshake with lost packets waits ever
/// longer before it sends them again.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    address: Address,
    /// The limit of each reply.
    limit: ReplyLimit,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    state: State,
    /// The number of the last connection.
    number: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    /// One task connects for all callers that wait, so that they do not all connect at the same time.
    Connecting(watch::Receiver<Option<RedisResult<Open>>>),
    Open(Open),
}

#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) connection: MultiplexedConnection,
    /// Reads and writes for as long as anything uses the connection.
    _driver: Arc<Driver>,
    /// From 1, in the order of connecting.
    pub(crate) number: u64,
    /// The server's clock, and when it was read.
    #[cfg(feature = "redis")]
    server_ms: u64,
    #[cfg(feature = "redis")]
    read_at: Time,
}

/// A task that is aborted when this is dropped. Otherwise it would wait for replies that may never come.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(feature = "redis")]
impl Open {
    /// The server's clock now, or earlier by the latency of its reply.
    pub(crate) fn server_ms(&self) -> u64 {
        let since = Monotonic::now() - self.read_at;
        self.server_ms.saturating_add(since.as_millis())
    }
}

impl Link {
    /// A reply has at most `limit` bytes.
    pub(crate) fn new(address: Address, limit: usize) -> Self {
        Self { address, limit: ReplyLimit::new(limit), slot: Mutex::default() }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn limit(&self) -> &ReplyLimit {
        &self.limit
    }

    /// Callers bound how long they wait for this. Connecting continues in the background: otherwise a connection that takes
    /// longer than that would be started by each caller and finished by none.
    pub(crate) async fn get(self: &Arc<Self>, timeout: Duration) -> RedisResult<Open> {
        let mut connected = {
            let mut slot = self.slot();
            match &slot.state {
                State::Open(open) => return Ok(open.clone()),
                // Without its sender it belongs to a runtime that has shut down.
                State::Connecting(connected) if connected.has_changed().is_ok() => {
                    connected.clone()
                }
                State::Connecting(_) | State::Closed => {
                    let (done, connected) = watch::channel(None);
                    slot.state = State::Connecting(connected.clone());
                    let connect =
                        Arc::clone(self).connect(timeout.max(LEAST_CONNECT_TIMEOUT), done);
                    tokio::spawn(connect);
                    connected
                }
            }
        };
        match connected.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(connected)) => connected.clone(),
            _ => Err(timed_out("the connecting runtime has shut down")),
        }
    }

    async fn connect(
        self: Arc<Self>,
        limit: Duration,
        done: watch::Sender<Option<RedisResult<Open>>>,
    ) {
        let connected = timeout(limit, self.open()).await;
        let connected = connected.unwrap_or_else(|_| Err(timed_out("connecting timed out")));
        let mut slot = self.slot();
        let connected = connected.map(|open| {
            slot.number += 1;
            Open { number: slot.number, ..open }
        });
        slot.state = connected.clone().map_or(State::Closed, State::Open);
        drop(slot);
        done.send_replace(Some(connected));
    }

    /// Connects and reads the server's clock. A server that does not report it is not a working Redis.
    async fn open(&self) -> RedisResult<Open> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let stream = Measured::new(self.address.connect().await?, self.limit.clone());
        let settings = self.address.info.redis_settings();
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        let driver = Arc::new(Driver(tokio::spawn(driver).abort_handle()));
        let time: (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
        #[cfg(not(feature = "redis"))]
        let _ = time;
        Ok(Open {
            connection,
            _driver: driver,
            number: 0,
            #[cfg(feature = "redis")]
            server_ms: time.0.saturating_mul(1000).saturating_add(time.1 / 1000),
            #[cfg(feature = "redis")]
            read_at: Monotonic::now(),
        })
    }

    /// Closes the connection with this number, and keeps a later one.
    pub(crate) fn forget(&self, number: u64) {
        let mut slot = self.slot();
        if matches!(&slot.state, State::Open(open) if open.number == number) {
            slot.state = State::Closed;
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a connection was closed because of a reply that was too long.
#[cfg(feature = "fleet")]
pub(crate) fn was_too_long(error: &RedisError) -> bool {
    // The library's own error holds the cause in this type.
    type Shared = Arc<dyn Error + Send + Sync>;
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Shared>());
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.and_then(std::io::Error::get_ref).is_some_and(|cause| cause.is::<TooLong>())
}

fn timed_out(why: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, why).into()
}
