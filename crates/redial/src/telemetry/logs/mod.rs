//! When everything fails, a line for every failure is a second storm, in the logs, and what changed drowns in what goes
//! on. So a line is written when something changes, and only so many.

mod changes;
mod line;
mod table;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redial_core::admit::{BreakerState, RateLimit, RateRule};
use redial_core::decide::{Class, Outcome};
use redial_core::{CallInfo, Event, Nanos, Observer, Rate, nanos};

use crate::clock::{Ambient, Clock as _};
use changes::Changes;
use line::{About, Line};
use table::Table;

/// Writes what changes for the calls to one upstream as events of the crate `tracing`. An [`Observer`]; beside another one
/// it is told in a pair, `retry.observe((logs, mine))`.
///
/// Defaults: of each transition at most one line in 10 s for each key, and 20 lines a minute for all keys together with room for
/// 20 at once. Lines about the upstream itself (budget, breaker, storm) have as many of their own. The state of 1024 keys is
/// kept; of more, those that failed last.
///
/// | transition | level | when |
/// |---|---|---|
/// | `first-failure` | info | the first failed attempt of a key that was well |
/// | `backoff-growing` | info | a wait of a key is at least twice as long as its first one, then as the one of the last such line |
/// | `repeated-failure` | warn | another call of a key gave up, and none succeeded in between |
/// | `recovered` | info | a call of a key that had failed, and of which a line was written, succeeded |
/// | `budget-dry` | warn | the budget refused a retry |
/// | `breaker-moved` | warn when it opened, else info | the breaker changed its state |
/// | `storm-level` | warn when it rose, else info | the storm detector changed its level ([`storm`](Self::storm)) |
///
/// The fields are `transition`, `upstream`, and as far as they are known `key` (its hash), `attempt`, `delay_ms`, `class`, `code`,
/// `stop`, `failures`, `state`, `level`, `multiplier`; `suppressed` says how many lines of this transition and key were left out
/// since the last one, `others_suppressed` how many of keys whose own lines did not come. The target is `redial`.
///
/// ```
/// use redial::telemetry::Logs;
/// use redial::{Policy, Retry};
///
/// let retry = Retry::new(Policy::standard()).observe(Logs::new("inventory"));
/// ```
pub struct Logs {
    upstream: String,
    interval: Nanos,
    keys: RateLimit,
    upstreams: RateLimit,
    table: Table,
    changes: Changes,
    /// Lines that were left out and of which no line of their own will tell.
    untold: AtomicU64,
}

impl Logs {
    /// For calls to an upstream of this name.
    pub fn new(upstream: impl Into<String>) -> Self {
        let rule = RateRule::new(Rate::new(20, Duration::from_secs(60)), 20);
        Self {
            upstream: upstream.into(),
            interval: nanos(Duration::from_secs(10)),
            keys: RateLimit::new(&rule),
            upstreams: RateLimit::new(&rule),
            table: Table::new(),
            changes: Changes::new(),
            untold: AtomicU64::new(0),
        }
    }

    /// At most one line of each transition and key in this time.
    pub fn every(self, interval: Duration) -> Self {
        Self { interval: nanos(interval), ..self }
    }

    /// So many lines about keys in all, and as many about the upstream.
    pub fn at_most(self, rule: RateRule) -> Self {
        Self { keys: RateLimit::new(&rule), upstreams: RateLimit::new(&rule), ..self }
    }

    /// Writes that a storm changed its level: `meter.on_change(move |changed| logs.storm(changed))`.
    #[cfg(feature = "metrics")]
    pub fn storm(&self, changed: &super::StormChanged) {
        let (to, multiplier) = (changed.reading.level, changed.reading.flow.multiplier());
        let line = Line { level: Some(to.name()), multiplier, ..Line::default() };
        self.change(About::StormLevel { to, rose: to > changed.from }, line);
    }

    /// Something about the upstream changed.
    fn change(&self, about: About, line: Line) {
        let now = Ambient::now();
        let rest = || self.upstreams.take(now).is_ok();
        if let Some((about, line)) = self.changes.see(about, line, now, self.interval, rest) {
            self.write(about, line);
        }
    }

    /// A state of which nothing was written may be worth a line by now.
    #[cold]
    fn settle(&self) {
        let now = Ambient::now();
        let rest = || self.upstreams.take(now).is_ok();
        if let Some((about, line)) = self.changes.settle(now, self.interval, rest) {
            self.write(about, line);
        }
    }

    /// Something about a key changed.
    fn about_key(&self, key: Option<u64>, event: &Event, now: Nanos) {
        let rest = || self.keys.take(now).is_ok();
        let seen = self.table.see(key.unwrap_or(0), event, now, self.interval, rest);
        self.untold.fetch_add(seen.untold, Ordering::Relaxed);
        if let Some((about, line)) = seen.line {
            self.write(about, Line { key, ..line });
        }
    }

    fn write(&self, about: About, line: Line) {
        let others = self.untold.swap(0, Ordering::Relaxed);
        line.write(about, &self.upstream, others);
    }
}

impl Observer for Logs {
    fn event(&self, event: &Event) {
        self.call_event(CallInfo::default(), event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        if self.changes.owes() {
            self.settle();
        }
        match event {
            Event::BudgetDry => {
                let line = Line { key: call.cooldown_key, ..Line::default() };
                self.change(About::BudgetDry, line);
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
