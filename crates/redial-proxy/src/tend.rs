//! What happens without a request: every timer of the proxy that is not the limit of a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::pool;
use crate::shared::Shared;

/// Keeps the time of this thread's pools, and closes the connections in them that have expired.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    loop {
        sleep(Duration::from_millis(pool::TICK)).await;
        pool::tick();
        for endpoint in shared.world.load().endpoints() {
            endpoint.pool.sweep();
        }
    }
}
