//! One connection for all, made anew when it breaks. The library's own manager keeps the error of a
//! failed reconnection for ever unless it came from the socket.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::Nanos;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

use crate::clock::{Clock, Monotonic};

pub(super) struct Link {
    client: Client,
    slot: Mutex<Slot>,
    /// Held while connecting: a server that comes back is not met by everybody at once.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Slot {
    open: Option<Open>,
    /// Counts the connections that were made.
    number: u64,
}

#[derive(Clone)]
pub(super) struct Open {
    pub(super) connection: MultiplexedConnection,
    pub(super) number: u64,
    /// What the server's clock said, and when we heard it.
    server_ms: u64,
    heard: Nanos,
}

impl Open {
    /// What the server's clock says now, or less by the time that its answer took to reach us.
    pub(super) fn server_ms(&self) -> u64 {
        self.server_ms + Monotonic::now().saturating_sub(self.heard) / 1_000_000
    }
}

impl Link {
    pub(super) fn new(url: &str) -> RedisResult<Self> {
        let client = Client::open(url)?;
        Ok(Self { client, slot: Mutex::default(), connecting: tokio::sync::Mutex::new(()) })
    }

    /// The caller bounds how long this takes.
    pub(super) async fn get(&self) -> RedisResult<Open> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut connection =
            self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
        let mut slot = self.slot();
        slot.number += 1;
        let open = Open {
            connection,
            number: slot.number,
            server_ms: seconds * 1000 + micros / 1000,
            heard: Monotonic::now(),
        };
        slot.open = Some(open.clone());
        Ok(open)
    }

    /// The connection with this number is of no use any more; a later one stays.
    pub(super) fn forget(&self, number: u64) {
        let mut slot = self.slot();
        if slot.number == number {
            slot.open = None;
        }
    }

    fn open(&self) -> Option<Open> {
        self.slot().open.clone()
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
