//! A scenario and a policy in ticks, if they can be expressed in ticks.

use redial_core::admit::RateRule;
use redial_core::{Span, Time, TimeLimit};

use super::backend::Build;
use super::causes::{Causes, PlannedWait, longest_wait};
use super::faults::Faults;
use super::fits::{NotCountable, refuse};
use super::waiting::WaitingCalls;
use super::work::Work;
use crate::scenario::{self, FailureMode, HowLong, Limit, STEPS};
use crate::{Scenario, Subject};

/// The longest tick: with 1 ms the peak of a storm is off by several standard errors.
pub(crate) const LONGEST_TICK: Span = Span::from_micros(250);
/// The shortest tick: with a shorter one a run would take longer than an exact one.
const SHORTEST_TICK: Span = Span::from_micros(10);
/// Service times, timeouts and waits last at least this many ticks.
const TICKS_PER_TIME: u64 = 4;
/// The most cells that a run may keep, 16 to 40 bytes each.
const MOST_CELLS: u64 = 16_000_000;
/// Ticks are stored in 32 bits.
const MOST_TICKS: u64 = 1 << 31;

/// The initial state of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) subject: &'a Subject,
    pub(super) tick: Span,
    /// One row for every attempt.
    pub(super) rows: usize,
    pub(super) latency: u64,
    pub(super) causes: Causes,
    pub(super) waits: Vec<PlannedWait>,
    pub(super) faults: Faults,
    pub(super) build: Build,
    pub(super) limit: Option<RateRule>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        subject: &'a Subject,
        tick: Span,
    ) -> Result<Self, NotCountable> {
        let (backend, policy) = (&scenario.backend, &subject.policy);
        let (causes, waits) = Causes::new(scenario, subject).map_err(|_| {
            refuse("a hint falls into the range of the backoff, so that waits are not uniform")
        })?;
        let rows = policy.attempts() as usize;
        let latency = (scenario.clients.latency.mean() / tick.as_nanos_f64()).round() as u64;
        let plan = Self {
            scenario,
            subject,
            tick,
            rows,
            latency,
            causes,
            waits,
            faults: Faults::new(scenario, tick),
            build: Build {
                servers: backend.servers.map(|servers| u64::from(servers.0)),
                most_queued: u64::from(backend.queue),
                backlog: u64::from(backend.backlog),
                work: Work::new(backend.service.base, tick),
                cancels: backend.cancel,
                lost_replies: backend.lost_replies,
                timeout: timeout(subject).span().map(|timeout| timeout.ratio_to(tick)),
                latency,
                rows,
            },
            limit: backend.limit.as_ref().map(Limit::rule),
        };
        plan.check()?;
        Ok(plan)
    }

    /// How many cells a run keeps.
    pub(super) fn cells(&self) -> u64 {
        let waits = self.waits.iter();
        let waits = waits.map(|wait| WaitingCalls::len(wait.range, self.tick).saturating_mul(2));
        waits.fold(self.build.len(&self.faults), u64::saturating_add)
    }

    /// Checks what can only be checked in ticks.
    fn check(&self) -> Result<(), NotCountable> {
        let Self { scenario, tick, .. } = self;
        if scenario.duration / *tick > MOST_TICKS {
            return Err(refuse("the run is too long for ticks of this length"));
        }
        if self.cells() > MOST_CELLS {
            return Err(refuse("waits or times in the backend are too long to be kept in ticks"));
        }
        let service = scenario.backend.service.mean();
        if scenario.backend.servers.is_some() && service < (TICKS_PER_TIME * *tick).as_nanos_f64() {
            return Err(refuse("servers take less than four ticks for a request"));
        }
        if let Some(limit) = &scenario.backend.limit
            && f64::from(limit.burst) < 2.0 * limit.rate * tick.as_nanos_f64() / 1e9
        {
            return Err(refuse("the burst of the rate limit is shorter than two ticks"));
        }
        self.twice()?;
        self.deadline()
    }

    /// Work that must not be done twice has to be followed from attempt to attempt, if callers can repeat an attempt
    /// without knowing its outcome.
    fn twice(&self) -> Result<(), NotCountable> {
        let timeout = timeout(self.subject);
        let gives_up = self.is_silent() || timeout.is_exceeded_by(self.longest_attempt());
        let repeats = self.subject.policy.attempts() > 1;
        if self.scenario.clients.work == scenario::WorkSafety::Unsafe && repeats && gives_up {
            return Err(refuse("work that may be done twice has to be followed between attempts"));
        }
        Ok(())
    }

    /// A deadline depends on when each call began, so it must not take effect.
    fn deadline(&self) -> Result<(), NotCountable> {
        let policy = &self.subject.policy;
        let deadline = Time::ZERO + policy.deadline_limit();
        let silent = self.is_silent();
        let timeout = timeout(self.subject);
        if silent && timeout.is_none() {
            return Err(refuse(if deadline.is_none() {
                "requests are not answered, and attempts have no timeout"
            } else {
                "requests are not answered, so that attempts end with the deadline of their call"
            }));
        }
        if deadline.is_none() || policy.attempts() == 1 {
            return Ok(());
        }
        let longest = if silent { Span::MAX } else { self.longest_attempt() };
        let attempt = timeout.cap(longest);
        let mut now = Time::ZERO + attempt;
        let mut fits = true;
        for k in 1..policy.attempts() {
            let left = deadline.left(now);
            fits &= self.waits.iter().all(|it| it.retry != k || it.fits(policy, left));
            now += longest_wait(policy, k, &self.waits) + attempt;
        }
        if !fits || deadline.is_over(now) {
            return Err(refuse(
                "the deadline can end calls, and cohorts do not know when a call began",
            ));
        }
        Ok(())
    }

    fn is_silent(&self) -> bool {
        let Scenario { backend, .. } = self.scenario;
        let full = backend.servers.is_some() && backend.when_full == FailureMode::Hang;
        full || backend.lost_replies > 0.0 || self.causes.outages.iter().any(Option::is_none)
    }

    /// The longest time until an attempt is answered: with a full queue, the fewest servers and a cold cache.
    fn longest_attempt(&self) -> Span {
        let slowdown = self.faults.most_slowdown();
        let mut ticks = self.build.work.longest() * slowdown + 2.0 * self.latency as f64;
        if let Some(servers) = self.build.servers {
            let (fewest, none) = self.faults.fewest_servers(servers);
            let mean = self.scenario.backend.service.mean() / self.tick.as_nanos_f64() * slowdown;
            // Half as much again, because service times vary.
            ticks += self.build.most_queued as f64 * mean / fewest.max(1) as f64 * 1.5 + none;
        }
        Span::from_nanos_f64((ticks + 2.0) * self.tick.as_nanos_f64())
    }
}

/// The timeout of an attempt. A call of one attempt ends with it, so its deadline is a timeout too.
fn timeout(subject: &Subject) -> TimeLimit {
    let policy = &subject.policy;
    let is_single = policy.attempts() == 1;
    let deadline = if is_single { policy.deadline_limit() } else { TimeLimit::NONE };
    policy.attempt_timeout_limit().min(deadline)
}

/// How long a tick should be: a fraction of the shortest time in the model, and a divisor of a constant service
/// time.
pub(super) fn tick(scenario: &Scenario, subject: &Subject, longest: Span) -> Span {
    let policy = &subject.policy;
    let service = scenario.backend.service.base;
    let mean = Span::from_nanos_f64(service.mean());
    let times = [
        policy.attempt_timeout_limit().span(),
        (policy.attempts() > 1).then(|| policy.backoff().ceiling(1)),
        scenario.backend.servers.map(|_| mean),
    ];
    let parts = times.into_iter().flatten().map(|time| time / TICKS_PER_TIME);
    let tick = parts.fold(longest.min(scenario.window / STEPS), Span::min).max(SHORTEST_TICK);
    match service {
        HowLong::Always(mean) if !mean.is_zero() => mean / (mean.round_up(tick) / tick),
        _ => tick,
    }
}
