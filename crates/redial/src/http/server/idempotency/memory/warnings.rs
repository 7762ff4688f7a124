//! A full store rejects new keys until records expire, which may take a day. Operators have to know before that, but a
//! log line for each request would be too many.

use std::sync::atomic::{AtomicU64, Ordering};

use redial_core::{Span, Time};

use super::records::{Limits, Shortage, Used};

/// At most one line of each kind is logged in this time.
const INTERVAL: Span = Span::from_secs(60);

/// When a line of each kind may be logged next, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    filling: AtomicU64,
    refusing: AtomicU64,
    /// Rejections since the last line about one.
    unreported: AtomicU64,
}

/// The state of the store after a step.
pub(super) struct Usage<'a> {
    pub(super) name: &'a str,
    pub(super) limits: &'a Limits,
    pub(super) all: Used,
    /// What the scope of the step holds.
    pub(super) held: Used,
    pub(super) shortage: Option<Shortage>,
}

impl Warnings {
    pub(super) fn check(&self, usage: &Usage<'_>, now: Time) {
        let Usage { name, limits, all, held, shortage } = usage;
        let of = |used: &Used| (used.records, used.bytes);
        let ((records, bytes), (scope_records, scope_bytes)) = (of(all), of(held));
        let (records_limit, bytes_limit) = (limits.records, limits.bytes);
        if let Some(shortage) = shortage {
            let refused = self.unreported.fetch_add(1, Ordering::Relaxed) + 1;
            if is_due(&self.refusing, now) {
                self.unreported.fetch_sub(refused, Ordering::Relaxed);
                let (reason, transition) = (shortage.name(), "idempotency-store-refusing");
                tracing::warn!(
                    target: "redial", transition, store = name, reason, refused, records, records_limit,
                    bytes, bytes_limit, scope_records, scope_bytes,
                    "the store for idempotency keys has no room and refuses new keys"
                );
            }
        } else if let Some(shortage) = usage.nearly_full()
            && is_due(&self.filling, now)
        {
            let (reason, transition) = (shortage.name(), "idempotency-store-filling");
            tracing::warn!(
                target: "redial", transition, store = name, reason, records, records_limit, bytes,
                bytes_limit, scope_records, scope_bytes,
                "the store for idempotency keys is 80% full"
            );
        }
    }
}

impl Usage<'_> {
    /// What is 80% full, if anything.
    fn nearly_full(&self) -> Option<Shortage> {
        let Self { limits, all, held, .. } = self;
        let is_nearly = |used: usize, of: usize| used as f64 >= of as f64 * 0.8;
        if is_nearly(all.records, limits.records) || is_nearly(all.bytes, limits.bytes) {
            return Some(Shortage::IdempotencyStore);
        }
        let free = Used {
            records: limits.records.saturating_sub(all.records),
            bytes: limits.bytes.saturating_sub(all.bytes),
        };
        let shared = limits.shares && held.records > 1;
        let used_up = is_nearly(held.records, free.records) || is_nearly(held.bytes, free.bytes);
        (shared && used_up).then_some(Shortage::Scope)
    }
}

/// Whether a line may be logged now. True for one of several threads.
fn is_due(next: &AtomicU64, now: Time) -> bool {
    let due = |next| (next <= now.as_nanos()).then_some((now + INTERVAL).as_nanos());
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
}
