//! Publishes the metrics of all fleets of a process to the recorder that the program has installed. The counters of a
//! ledger outlive its instances: a counter that was reset would hide what happened before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use metrics::{Key, Label, Level, Metadata, Recorder};

use super::ledger::Ledger;
use crate::telemetry::{
    self, MetricDescription,
    fleet::{BALANCE, CONNECTED, DIFFERS, LEASED, MEMBERS, SYNCS},
};

const METADATA: Metadata<'static> = Metadata::new("redial", Level::INFO, Some("redial"));
/// This many ledgers have separate series; later ones are `other`.
const MOST_NAMES: usize = 256;
const RESULTS: [&str; 5] = ["ok", "timeout", "unreachable", "refused", "garbage"];

/// By name. The first one makes the numbers known to [`telemetry`].
static KNOWN: LazyLock<Mutex<BTreeMap<String, Arc<Totals>>>> = LazyLock::new(|| {
    telemetry::also(publish);
    Mutex::default()
});

/// The counters of one name.
#[derive(Default)]
pub(super) struct Totals {
    leased: AtomicU64,
    syncs: [AtomicU64; 5],
    living: Mutex<Vec<Weak<Ledger>>>,
}

impl Totals {
    /// The totals of the ledger with this name.
    pub(super) fn of(name: &str) -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let full = known.len() >= MOST_NAMES && !known.contains_key(name);
        let name = if full { "other" } else { name };
        Arc::clone(known.entry(name.to_owned()).or_default())
    }

    pub(super) fn watch(&self, ledger: &Arc<Ledger>) {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|it| it.strong_count() > 0);
        living.push(Arc::downgrade(ledger));
    }

    pub(super) fn leased(&self, tokens: u64) {
        self.leased.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Counts a sync with this result: [`LedgerError::name`](super::LedgerError::name), or `ok`.
    pub(super) fn synced(&self, result: &str) {
        if let Some(index) = RESULTS.iter().position(|it| *it == result) {
            self.syncs[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// With several instances of one ledger, the worst state is published.
    fn publish(&self, recorder: &dyn Recorder, name: &str) {
        let living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        let stats: Vec<_> =
            living.iter().filter_map(Weak::upgrade).map(|it| it.stats().clone()).collect();
        drop(living);
        let gauge = |metric, value: f64| {
            recorder.register_gauge(&key(metric, name, None), &METADATA).set(value);
        };
        // A ledger without instances does not count as disconnected.
        let connected = stats.iter().all(|it| it.connected);
        gauge(CONNECTED, f64::from(u8::from(connected)));
        gauge(MEMBERS, stats.iter().map(|it| it.members).max().unwrap_or(0) as f64);
        gauge(BALANCE, stats.iter().map(|it| it.balance).fold(0.0, f64::max));
        let differs = stats.iter().any(|it| it.differs.is_some());
        gauge(DIFFERS, f64::from(u8::from(differs)));
        let leased = recorder.register_counter(&key(LEASED, name, None), &METADATA);
        leased.absolute(self.leased.load(Ordering::Relaxed));
        for (result, count) in RESULTS.iter().zip(&self.syncs) {
            let counter = recorder.register_counter(&key(SYNCS, name, Some(result)), &METADATA);
            counter.absolute(count.load(Ordering::Relaxed));
        }
    }
}

/// Publishes the metrics of all fleets to `recorder`.
fn publish(recorder: &dyn Recorder) {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (name, totals) in known {
        totals.publish(recorder, &name);
    }
}

fn key(metric: MetricDescription, fleet: &str, result: Option<&'static str>) -> Key {
    let mut labels = vec![Label::new("fleet", fleet.to_owned())];
    labels.extend(result.map(|result| Label::new("result", result)));
    Key::from_parts(metric.name, labels)
}
