use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use redial_core::fleet::{Answer, Terms};
use tokio::sync::Notify;

use super::event::Trouble;
use super::stats::FleetStats;

/// What one ledger's calls, its driver and whoever looks at it share.
pub(super) struct Ledger {
    pub(super) key: String,
    pub(super) bell: Arc<Bell>,
    stats: Mutex<FleetStats>,
    served: Mutex<Served>,
    changed: Condvar,
    #[cfg(feature = "metrics")]
    totals: Arc<super::metrics::Totals>,
}

/// How far the driver has come with what the bell asked for.
#[derive(Clone, Copy, Default)]
struct Served {
    /// Up to this ring, all that could be leased was.
    rings: u64,
    /// Nobody will answer any more.
    over: bool,
}

/// Rung by a retry that waits for a lease.
pub(super) struct Bell {
    rings: AtomicU64,
    /// Wakes the driver.
    pub(super) post: Arc<Notify>,
}

impl Bell {
    pub(super) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rings.fetch_add(1, Ordering::AcqRel);
        self.post.notify_one();
    }
}

impl Ledger {
    pub(super) fn new(name: String, prefix: &str, post: &Arc<Notify>) -> Arc<Self> {
        let ledger = Arc::new(Self {
            #[cfg(feature = "metrics")]
            totals: super::metrics::Totals::of(&name),
            key: format!("{prefix}{name}"),
            bell: Arc::new(Bell { rings: AtomicU64::new(0), post: Arc::clone(post) }),
            stats: Mutex::new(FleetStats { ledger: name, ..FleetStats::default() }),
            served: Mutex::default(),
            changed: Condvar::new(),
        });
        #[cfg(feature = "metrics")]
        ledger.totals.watch(&ledger);
        ledger
    }

    pub(super) fn answered(&self, answer: &Answer, differs: Option<Terms>) {
        self.stats().answered(answer, differs);
        #[cfg(feature = "metrics")]
        {
            self.totals.leased(answer.granted);
            self.totals.synced("ok");
        }
    }

    pub(super) fn failed(&self, trouble: &Trouble) {
        self.stats().failed(trouble);
        #[cfg(feature = "metrics")]
        self.totals.synced(trouble.name());
    }

    pub(super) fn name(&self) -> String {
        self.stats().ledger.clone()
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, FleetStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever rang up to here has got what there is.
    pub(super) fn serve(&self, rings: u64) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.rings < rings {
            served.rings = rings;
            self.changed.notify_all();
        }
    }

    pub(super) fn end(&self) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.changed.notify_all();
    }

    /// Waits until all who rang before have got what there is. Says whether they have.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let rings = self.bell.rings();
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let unserved = |served: &mut Served| served.rings < rings && !served.over;
        let waited = self.changed.wait_timeout_while(served, most, unserved);
        waited.unwrap_or_else(PoisonError::into_inner).0.rings >= rings
    }
}
