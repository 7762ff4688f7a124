//! When everything fails, a log line for every failure is a second storm, and hides what changed. So a line is written
//! when a state changes, and their number is limited.

mod changes;
mod line;
mod table;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redial_core::admit::{BreakerState, RateLimit, RateRule};
use redial_core::decide::{Class, Outcome};
use redial_core::{CallInfo, Event, Observer, Rate, Span, Time};

use crate::clock::{Ambient, Clock as _};
use changes::Changes;
use line::{About, Line};
use table::Table;

/// Logs state changes of the calls to one upstream as events of the crate `tracing`. It is an [`Observer`]; combine it with
/// another one as a pair, `retry.observe((logs, mine))`.
///
/// Defaults: at most one line of each transition in 10 s for each key, and 20 lines a minute for all keys together, with a
/// burst of 20. Lines about the upstream itself (budget, parked calls, breaker, storm) have a separate limit of the same size. The state
/// is kept for the 1024 keys that failed last.
///
/// | transition | level | when |
/// |---|---|---|
/// | `first-failure` | info | the first failed attempt of a healthy key |
/// | `backoff-growing` | info | a wait of a key is at least twice the first one, later twice that of the last such line |
/// | `repeated-failure` | warn | another call of a key gave up, without a success in between |
/// | `recovered` | info | a call succeeded after failures that were logged |
/// | `budget-dry` | warn | the budget refused a retry |
/// | `parked` | info | a call waits until the destination is back |
/// | `released` | info | a parked call goes on |
/// | `not-parked` | info | a call stops, because it must not wait |
/// | `breaker-moved` | warn when it opened, else info | the breaker changed its state |
/// | `storm-level` | warn when it rose, else info | the storm detector changed its level (`Logs::storm`) |
///
/// The fields are `transition`, `upstream`, and where known `key` (its hash), `attempt`, `delay_ms`, `parked_ms`, `class`, `code`,
/// `stop`, `reason`, `failures`, `state`, `level` and `multiplier`. `suppressed` is the number of lines of this transition and key that were
/// suppressed since the last one, `others_suppressed` that of keys without a line of their own. The target is `redial`.
///
/// ```
/// use redial::telemetry::Logs;
/// use redial::{Policy, Retry};
///
/// let retry = Retry::new(Policy::standard()).observe(Logs::new("inventory"));
/// ```
pub struct Logs {
    upstream: String,
    interval: Span,
    keys: RateLimit,
    upstreams: RateLimit,
    table: Table,
    changes: Changes,
    /// Suppressed lines of keys that will have no line of their own.
    unreported: AtomicU64,
}

impl Logs {
    /// Logs for calls to the upstream with this name.
    pub fn new(upstream: impl Into<String>) -> Self {
        let rule = RateRule::new(Rate::new(20, Duration::from_secs(60)), 20);
        Self {
            upstream: upstream.into(),
            interval: Span::from_secs(10),
            keys: RateLimit::new(&rule),
            upstreams: RateLimit::new(&rule),
            table: Table::new(),
            changes: Changes::new(),
            unreported: AtomicU64::new(0),
        }
    }

    /// Sets the least time between two lines of one transition and key.
    pub fn every(self, interval: Duration) -> Self {
        Self { interval: interval.into(), ..self }
    }

    /// Limits the lines about all keys together, and separately those about the upstream.
    pub fn at_most(self, rule: RateRule) -> Self {
        Self { keys: RateLimit::new(&rule), upstreams: RateLimit::new(&rule), ..self }
    }

    /// Logs a change of the storm level: `meter.on_change(move |changed| logs.storm(changed))`.
    #[cfg(feature = "metrics")]
    pub fn storm(&self, changed: &super::StormChanged) {
        let (to, multiplier) = (changed.reading.level, changed.reading.flow.multiplier());
        let line = Line { level: Some(to.name()), multiplier, ..Line::default() };
        self.change(About::StormLevel { to, rose: to > changed.from }, line);
    }

    /// Logs a change of the upstream.
    fn change(&self, about: About, line: Line) {
        let now = Ambient::now();
        let rest = || self.upstreams.take(now).is_ok();
        if let Some((about, line)) = self.changes.record(about, line, now, self.interval, rest) {
            self.write(about, line);
        }
    }

    /// Logs a suppressed state that may be logged by now.
    #[cold]
    fn write_owed(&self) {
        let now = Ambient::now();
        let rest = || self.upstreams.take(now).is_ok();
        if let Some((about, line)) = self.changes.take_owed(now, self.interval, rest) {
            self.write(about, line);
        }
    }

    /// Logs a change of a key.
    fn about_key(&self, key: Option<u64>, event: &Event, now: Time) {
        let is_allowed = || self.keys.take(now).is_ok();
        let seen = self.table.record(key.unwrap_or(0), event, now, self.interval, is_allowed);
        self.unreported.fetch_add(seen.unreported, Ordering::Relaxed);
        if let Some((about, line)) = seen.line {
            self.write(about, Line { key, ..line });
        }
    }

    fn write(&self, about: About, line: Line) {
        let others = self.unreported.swap(0, Ordering::Relaxed);
        line.write(about, &self.upstream, others);
    }
}

impl Observer for Logs {
    fn event(&self, event: &Event) {
        self.call_event(CallInfo::default(), event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        if self.changes.has_owed() {
            self.write_owed();
        }
        match event {
            Event::BudgetDry => {
                let line = Line { key: call.cooldown_key, ..Line::default() };
                self.change(About::BudgetDry, line);
            }
            Event::Parked { attempt } => {
                let line = Line { attempt: Some(*attempt), ..Line::default() };
                self.change(About::Parked, Line { key: call.cooldown_key, ..line });
            }
            Event::Released { attempt, held, .. } => {
                let line = Line { attempt: Some(*attempt), parked: Some(*held), ..Line::default() };
                self.change(About::Released, Line { key: call.cooldown_key, ..line });
            }
            Event::NotParked { reason } => {
                let line = Line { reason: Some(reason.name()), ..Line::default() };
                self.change(About::NotParked, Line { key: call.cooldown_key, ..line });
            }
            Event::BreakerMoved { to } => {
                let state = match to {
                    BreakerState::Closed => "closed",
                    BreakerState::Open => "open",
                    BreakerState::HalfOpen => "half-open",
                };
                self.change(
                    About::BreakerMoved(*to),
                    Line { state: Some(state), ..Line::default() },
                );
            }
            Event::Succeeded { .. } if self.table.is_calm() => {}
            Event::AttemptEnded { outcome: Outcome::Failure(failure), .. }
                if failure.class == Class::Cancelled => {}
            Event::AttemptEnded { outcome: Outcome::Failure(_), .. }
            | Event::RetryScheduled { failure: Some(_), .. }
            | Event::Stopped { .. }
            | Event::Succeeded { .. } => {
                self.about_key(call.cooldown_key, event, Ambient::now());
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}
