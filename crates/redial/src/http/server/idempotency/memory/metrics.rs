//! Reports how full the stores of a process are to the recorder that the program has installed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use metrics::{Key, Label, Level, Metadata, Recorder};

use super::Shared;
use super::records::Shortage;
use crate::telemetry::{
    self, MetricDescription,
    idempotency::{BYTES, BYTES_LIMIT, RECORDS, RECORDS_LIMIT, REFUSALS},
};

const METADATA: Metadata<'static> = Metadata::new("redial", Level::INFO, Some("redial"));
/// This many stores have separate series; later ones are `other`.
const MOST_NAMES: usize = 256;

/// By name. The first one makes the numbers known to [`telemetry`].
static KNOWN: LazyLock<Mutex<BTreeMap<String, Arc<Totals>>>> = LazyLock::new(|| {
    telemetry::also(publish);
    Mutex::default()
});

/// The counters of one name. They outlive the stores: a counter that was reset would hide what happened before.
#[derive(Debug, Default)]
pub(super) struct Totals {
    refused_by_store: AtomicU64,
    refused_by_scope: AtomicU64,
    living: Mutex<Vec<Weak<Shared>>>,
}

impl Totals {
    /// The totals of all stores with this name, including `store`.
    pub(super) fn watching(name: &str, store: &Arc<Shared>) -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let full = known.len() >= MOST_NAMES && !known.contains_key(name);
        let name = if full { "other" } else { name };
        let totals = Arc::clone(known.entry(name.to_owned()).or_default());
        drop(known);
        let mut living = totals.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|it| it.strong_count() > 0);
        living.push(Arc::downgrade(store));
        drop(living);
        totals
    }

    pub(super) fn refused(&self, shortage: Shortage) {
        self.count(shortage).fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, shortage: Shortage) -> &AtomicU64 {
        match shortage {
            Shortage::IdempotencyStore => &self.refused_by_store,
            Shortage::Scope => &self.refused_by_scope,
        }
    }

    fn publish(&self, recorder: &dyn Recorder, name: &str) {
        let living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        let stores: Vec<_> = living.iter().filter_map(Weak::upgrade).collect();
        drop(living);
        let used: Vec<_> = stores.iter().map(|store| store.lock().used()).collect();
        let gauge = |metric, value: usize| {
            recorder.register_gauge(&key(metric, name, None), &METADATA).set(value as f64);
        };
        gauge(RECORDS, used.iter().map(|used| used.records).sum());
        gauge(BYTES, used.iter().map(|used| used.bytes).sum());
        gauge(RECORDS_LIMIT, stores.iter().map(|store| store.limits.records).sum());
        gauge(BYTES_LIMIT, stores.iter().map(|store| store.limits.bytes).sum());
        for shortage in [Shortage::IdempotencyStore, Shortage::Scope] {
            let key = key(REFUSALS, name, Some(shortage.name()));
            let counter = recorder.register_counter(&key, &METADATA);
            counter.absolute(self.count(shortage).load(Ordering::Relaxed));
        }
    }
}

/// Publishes the metrics of all stores to `recorder`.
fn publish(recorder: &dyn Recorder) {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (name, totals) in known {
        totals.publish(recorder, &name);
    }
}

fn key(metric: MetricDescription, store: &str, reason: Option<&'static str>) -> Key {
    let mut labels = vec![Label::new("store", store.to_owned())];
    labels.extend(reason.map(|reason| Label::new("reason", reason)));
    Key::from_parts(metric.name, labels)
}
