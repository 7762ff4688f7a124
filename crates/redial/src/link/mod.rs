//! One connection to Redis for all, made anew when it breaks. The library's own manager keeps the error of a
//! failed reconnection for ever unless it came from the socket.

mod address;
mod replies;

#[cfg(feature = "fleet")]
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "redis")]
use redial_core::Nanos;
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
use replies::{Measured, Most};

/// A connection may take longer to make than an answer, and is given up after this long at the latest if
/// answers are given up sooner: a handshake whose packets were lost waits ever longer before it goes on.
const LEAST_TO_CONNECT: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    address: Address,
    /// For each reply.
    most: Most,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    state: State,
    /// Counts the connections that were made.
    number: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    /// A task is at it, for all who wait: a server that comes back is not met by everybody at once.
    Connecting(watch::Receiver<Option<RedisResult<Open>>>),
    Open(Open),
}

#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) connection: MultiplexedConnection,
    /// Reads and writes for as long as anything uses the connection.
    _driver: Arc<Driver>,
    /// From 1, in the order in which they were made.
    pub(crate) number: u64,
    /// What the server's clock said, and when we heard it.
    #[cfg(feature = "redis")]
    server_ms: u64,
    #[cfg(feature = "redis")]
    heard: Nanos,
}

/// A task that ends when this is dropped. By itself it would wait for replies that may never come.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(feature = "redis")]
impl Open {
    /// What the server's clock says now, or less by the time that its answer took to reach us.
    pub(crate) fn server_ms(&self) -> u64 {
        let since = Monotonic::now().saturating_sub(self.heard) / 1_000_000;
        self.server_ms.saturating_add(since)
    }
}

impl Link {
    /// A reply may have `most` bytes.
    pub(crate) fn new(address: Address, most: usize) -> Self {
        Self { address, most: Most::new(most), slot: Mutex::default() }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn most(&self) -> &Most {
        &self.most
    }

    /// The caller bounds how long it waits for this. Connecting goes on without it: a connection that takes
    /// longer than its callers wait would otherwise be begun by each of them and made by none.
    pub(crate) async fn get(self: &Arc<Self>, patience: Duration) -> RedisResult<Open> {
        let mut made = {
            let mut slot = self.slot();
            match &slot.state {
                State::Open(open) => return Ok(open.clone()),
                // Without its sender it belonged to a runtime that is gone.
                State::Connecting(made) if made.has_changed().is_ok() => made.clone(),
                State::Connecting(_) | State::Closed => {
                    let (done, made) = watch::channel(None);
                    slot.state = State::Connecting(made.clone());
                    let connect = Arc::clone(self).connect(patience.max(LEAST_TO_CONNECT), done);
                    tokio::spawn(connect);
                    made
                }
            }
        };
        match made.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(made)) => made.clone(),
            _ => Err(gave_up("the runtime that was connecting is gone")),
        }
    }

    async fn connect(
        self: Arc<Self>,
        most: Duration,
        done: watch::Sender<Option<RedisResult<Open>>>,
    ) {
        let made = timeout(most, self.open()).await;
        let made = made.unwrap_or_else(|_| Err(gave_up("connecting took too long")));
        let mut slot = self.slot();
        let made = made.map(|open| {
            slot.number += 1;
            Open { number: slot.number, ..open }
        });
        slot.state = made.clone().map_or(State::Closed, State::Open);
        drop(slot);
        done.send_replace(Some(made));
    }

    /// What does not say what time it is is no Redis, or one that does not serve.
    async fn open(&self) -> RedisResult<Open> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let stream = Measured::new(self.address.connect().await?, self.most.clone());
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
            heard: Monotonic::now(),
        })
    }

    /// The connection with this number is of no use any more; a later one stays.
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

/// Whether a connection was given up because of a reply that was too long.
#[cfg(feature = "fleet")]
pub(crate) fn was_too_long(error: &RedisError) -> bool {
    // The library's own error holds the cause in this type.
    type Shared = Arc<dyn Error + Send + Sync>;
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Shared>());
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.and_then(std::io::Error::get_ref).is_some_and(|cause| cause.is::<TooLong>())
}

fn gave_up(why: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, why).into()
}
