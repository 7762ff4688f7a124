//! One connection to Redis for all, made anew when it breaks. The library's own manager keeps the error of a
//! failed reconnection for ever unless it came from the socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "redis")]
use redial_core::Nanos;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult};
use tokio::sync::watch;
use tokio::time::timeout;

#[cfg(feature = "redis")]
use crate::clock::{Clock, Monotonic};

/// A connection may take longer to make than an answer, and is given up after this long at the latest if
/// answers are given up sooner: a handshake whose packets were lost waits ever longer before it goes on.
const LEAST_TO_CONNECT: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    client: Client,
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
    /// From 1, in the order in which they were made.
    pub(crate) number: u64,
    /// What the server's clock said, and when we heard it.
    #[cfg(feature = "redis")]
    server_ms: u64,
    #[cfg(feature = "redis")]
    heard: Nanos,
}

#[cfg(feature = "redis")]
impl Open {
    /// What the server's clock says now, or less by the time that its answer took to reach us.
    pub(crate) fn server_ms(&self) -> u64 {
        self.server_ms + Monotonic::now().saturating_sub(self.heard) / 1_000_000
    }
}

impl Link {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, slot: Mutex::default() }
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
        let mut connection =
            self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let time: (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
        #[cfg(not(feature = "redis"))]
        let _ = time;
        Ok(Open {
            connection,
            number: 0,
            #[cfg(feature = "redis")]
            server_ms: time.0 * 1000 + time.1 / 1000,
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

fn gave_up(why: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, why).into()
}
