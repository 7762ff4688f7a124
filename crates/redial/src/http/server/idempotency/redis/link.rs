//! One connection for all, made anew when it breaks. The library's own manager keeps the error of a
//! failed reconnection for ever unless it came from the socket.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

pub(super) struct Link {
    client: Client,
    slot: Mutex<Slot>,
    /// Held while connecting: a server that comes back is not met by everybody at once.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Slot {
    open: Option<MultiplexedConnection>,
    /// Counts the connections that were made.
    number: u64,
}

impl Link {
    pub(super) fn new(url: &str) -> RedisResult<Self> {
        let client = Client::open(url)?;
        Ok(Self { client, slot: Mutex::default(), connecting: tokio::sync::Mutex::new(()) })
    }

    /// The connection and its number. The caller bounds how long this takes.
    pub(super) async fn get(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let open = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut slot = self.slot();
        slot.number += 1;
        slot.open = Some(open.clone());
        Ok((open, slot.number))
    }

    /// The connection with this number is of no use any more; a later one stays.
    pub(super) fn forget(&self, number: u64) {
        let mut slot = self.slot();
        if slot.number == number {
            slot.open = None;
        }
    }

    fn open(&self) -> Option<(MultiplexedConnection, u64)> {
        let slot = self.slot();
        slot.open.clone().map(|open| (open, slot.number))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
