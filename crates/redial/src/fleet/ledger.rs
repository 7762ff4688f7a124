use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use redial_core::fleet::{FleetTerms, Grant};
use tokio::sync::Notify;

use super::error::LedgerError;
use super::stats::FleetStats;

/// The state of one ledger, shared by its calls, the driver and observers of its statistics.
pub(super) struct Ledger {
    pub(super) key: String,
    pub(super) waker: Arc<LeaseWaker>,
    stats: Mutex<FleetStats>,
    served: Mutex<Served>,
    changed: Condvar,
    #[cfg(feature = "metrics")]
    totals: Arc<super::metrics::Totals>,
}

/// Which wake-ups the driver has served.
#[derive(Clone, Copy, Default)]
struct Served {
    /// Up to this wake-up, all available tokens were leased.
    wakes: u64,
    /// The driver has ended.
    ended: bool,
}

/// Woken by a retry that waits for a lease.
pub(super) struct LeaseWaker {
    wakes: AtomicU64,
    driver: Arc<Notify>,
}

impl LeaseWaker {
    /// How often it was woken.
    pub(super) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Acquire)
    }
}

impl Wake for LeaseWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
        self.driver.notify_one();
    }
}

impl Ledger {
    pub(super) fn new(name: String, prefix: &str, driver: &Arc<Notify>) -> Arc<Self> {
        let ledger = Arc::new(Self {
            #[cfg(feature = "metrics")]
            totals: super::metrics::Totals::of(&name),
            key: format!("{prefix}{name}"),
            waker: Arc::new(LeaseWaker { wakes: AtomicU64::new(0), driver: Arc::clone(driver) }),
            stats: Mutex::new(FleetStats { ledger: name, ..FleetStats::default() }),
            served: Mutex::default(),
            changed: Condvar::new(),
        });
        #[cfg(feature = "metrics")]
        ledger.totals.watch(&ledger);
        ledger
    }

    pub(super) fn answered(&self, grant: &Grant, differs: Option<FleetTerms>) {
        self.stats().answered(grant, differs);
        #[cfg(feature = "metrics")]
        {
            self.totals.leased(grant.granted);
            self.totals.synced("ok");
        }
    }

    pub(super) fn failed(&self, error: &LedgerError) {
        self.stats().failed(error);
        #[cfg(feature = "metrics")]
        self.totals.synced(error.name());
    }

    pub(super) fn name(&self) -> String {
        self.stats().ledger.clone()
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, FleetStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All wake-ups up to this one have been served.
    pub(super) fn serve(&self, wakes: u64) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.wakes < wakes {
            served.wakes = wakes;
            self.changed.notify_all();
        }
    }

    pub(super) fn end(&self) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.changed.notify_all();
    }

    /// Waits until all earlier wake-ups have been served. Returns whether they have.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let wakes = self.waker.wakes();
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let unserved = |served: &mut Served| served.wakes < wakes && !served.ended;
        let waited = self.changed.wait_timeout_while(served, timeout, unserved);
        waited.unwrap_or_else(PoisonError::into_inner).0.wakes >= wakes
    }
}
