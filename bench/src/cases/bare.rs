//! The same operation without retries, and the parts of which every retry is made.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{op, pending_once, ready as operation, repeat, repeat_async};

pub(crate) fn sync(n: u64) {
    repeat(n, op);
}

pub(crate) fn ready(n: u64) {
    repeat_async(n, async |x| operation(x).await);
}

pub(crate) fn pending(n: u64) {
    repeat_async(n, async |x| pending_once(x).await);
}

/// Tokio's timer alone.
pub(crate) fn timeout(n: u64) {
    const LONG: Duration = Duration::from_secs(10);
    repeat_async(n, async |x| tokio::time::timeout(LONG, pending_once(x)).await);
}

/// One clock read, as a runner makes it.
pub(crate) fn clock(n: u64) {
    #[inline(never)]
    fn now(_: u64) -> u64 {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        let since = Instant::now().saturating_duration_since(*EPOCH.get_or_init(Instant::now));
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }
    repeat(n, now);
}
