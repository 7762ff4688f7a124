//! Which scenarios and policies can be counted instead of followed.
//!
//! Counting is correct as long as calls with the same number of attempts are alike. A breaker, a token bucket, a
//! deadline or the last decorrelated wait make them differ, and many buckets do not behave like one average bucket.

use std::fmt;

use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::Backoff;
use redial_core::{Policy, Span, Time};

use super::plan::Plan;
use crate::scenario::{Arrivals, Discipline, HintGiven, HowLong, Keys};
use crate::{Scenario, Subject};

/// With more attempts than this a policy has more cohorts than callers.
const MOST_ATTEMPTS: u32 = 64;
/// Instances with fewer tokens than this run dry one after the other, and the storm has no single peak. With 400
/// tokens the maximum of waiting calls is 6% too high, with 2000 4%, with this many 1%; with 40 the success is off
/// by 0.2 points.
const LEAST_TOKENS: u64 = 10_000;

/// Why a scenario or its policy has to be simulated exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCountable(&'static str);

impl fmt::Display for NotCountable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cohorts cannot represent this: {}", self.0)
    }
}

impl std::error::Error for NotCountable {}

pub(super) fn refuse(why: &'static str) -> NotCountable {
    NotCountable(why)
}

pub(super) fn plan<'a>(
    scenario: &'a Scenario,
    subject: &'a Subject,
    tick: Span,
) -> Result<Plan<'a>, NotCountable> {
    clients(scenario)?;
    backend(scenario)?;
    faults(scenario)?;
    let policy = scenario.effective(&subject.policy);
    guards(&policy)?;
    waits(&policy)?;
    budget(scenario, &policy)?;
    Plan::new(scenario, subject, tick)
}

fn first_of(reasons: &[(bool, &'static str)]) -> Result<(), NotCountable> {
    match reasons.iter().find(|(applies, _)| *applies) {
        Some((_, why)) => Err(NotCountable(why)),
        None => Ok(()),
    }
}

fn clients(scenario: &Scenario) -> Result<(), NotCountable> {
    let Scenario { clients, backend, .. } = scenario;
    let can_turn_away = backend.servers.is_some() || backend.limit.is_some();
    first_of(&[
        (
            matches!(clients.arrivals, Arrivals::Closed { .. }),
            "callers of a closed loop depend on the end of their own call",
        ),
        (
            // The free places of a tick are drawn among all requests that arrive in it. Exactly, an evenly spaced
            // first attempt always finds the place that was freed for it, and only retries are turned away.
            matches!(clients.arrivals, Arrivals::Constant(_)) && can_turn_away,
            "evenly spaced calls stay in step with evenly freed places",
        ),
        (!clients.others.is_empty(), "instances have different policies"),
        (clients.lifetime.is_some(), "every instance is replaced at a time of its own"),
        (clients.requeue.is_some(), "a requeued call has to be followed until it succeeds"),
        (
            matches!(clients.keys, Keys::Zipf { .. }),
            "frequent keys load their shard more than others",
        ),
        (
            matches!(clients.latency, HowLong::Drawn(_)),
            "the network latency differs between requests",
        ),
    ])
}

fn backend(scenario: &Scenario) -> Result<(), NotCountable> {
    let backend = &scenario.backend;
    first_of(&[
        (
            !backend.calls.is_empty() || !scenario.service.is_empty(),
            "services hold a request while they call others",
        ),
        (backend.shards > 1, "shards have queues of their own"),
        (backend.endpoints > 1, "endpoints have queues of their own"),
        (backend.connections.is_some(), "a connection pool is held by single requests"),
        (backend.ban.is_some(), "a ban is for a single instance"),
        (
            backend.limit.is_some_and(|limit| limit.each_instance),
            "a rate limit for each instance is state of each instance",
        ),
        (backend.hint == HintGiven::Slots, "every slot is promised to a single request"),
        (backend.discipline != Discipline::Fifo, "only a queue in order of arrival can be counted"),
        (
            !backend.service.per_request.is_zero(),
            "the service time depends on how many requests are in service at that moment",
        ),
        (backend.reject_cost > 0.0, "the work of rejections is done between single requests"),
        (
            backend.error_cost > 0.0 || scenario.outages().any(|it| it.cost > 0.0),
            "requests that fail after their work are queued among the others",
        ),
    ])
}

fn faults(scenario: &Scenario) -> Result<(), NotCountable> {
    first_of(&[
        (!scenario.pause.is_empty(), "a pause changes the order in which requests end"),
        (!scenario.restart.is_empty(), "a restart resets the state of single instances"),
        (!scenario.switched_off.is_empty(), "only callers of single instances are switched off"),
        (
            scenario.outages().any(|it| it.shard.is_some()),
            "an outage of one shard affects only its keys",
        ),
    ])
}

fn guards(policy: &Policy) -> Result<(), NotCountable> {
    first_of(&[
        (policy.breaker().is_some(), "every instance has a breaker with a state of its own"),
        (policy.throttle().is_some(), "every instance has a throttle with a state of its own"),
        (policy.rate().is_some(), "every instance has a rate limit of its own"),
        (policy.concurrency().is_some(), "every instance has a concurrency limit of its own"),
        (policy.cooldown().is_some(), "the cool-down knows when each key was last retried"),
        (policy.stall().is_some(), "every instance holds calls back after timeouts of its own"),
        (policy.parks(), "parked calls of an instance wait for its own successes"),
        (policy.attempts() > MOST_ATTEMPTS, "there are more than 64 attempts"),
    ])
}

fn waits(policy: &Policy) -> Result<(), NotCountable> {
    let is_clipped = |backoff: &Backoff| {
        (1..policy.attempts()).any(|k| backoff.range(k, Span::ZERO).hi > backoff.cap())
    };
    first_of(&[
        (
            policy.attempts() > 1 && policy.backoff().remembers(),
            "a decorrelated wait depends on the one before",
        ),
        (policy.attempts() > 1 && !policy.backoff().is_uniform(), "normal waits are not uniform"),
        (policy.hedge().is_some(), "a hedged call has several attempts in flight"),
        (is_clipped(policy.backoff()), "clipped waits accumulate at the cap"),
    ])
}

fn budget(scenario: &Scenario, policy: &Policy) -> Result<(), NotCountable> {
    if policy.attempts() == 1 {
        return Ok(());
    }
    match policy.budget() {
        Budget::None => Ok(()),
        Budget::Window(window) => window_fits(scenario, policy, window),
        // A bucket that pays for every retry is as good as none.
        Budget::Tokens(_) if !scenario.keeps_state(policy) => Ok(()),
        Budget::Tokens(_) => Err(NotCountable("every instance has a bucket of tokens of its own")),
        Budget::Throttling(_) => {
            Err(NotCountable("the failures and successes of every instance move its own bucket"))
        }
        Budget::Inflight(_) => Err(NotCountable("attempts in flight are counted by instance")),
    }
}

/// All windows become one. That is exact for one instance, and close for many with so many tokens that they run dry
/// at the same time.
fn window_fits(
    scenario: &Scenario,
    policy: &Policy,
    window: &WindowBudget,
) -> Result<(), NotCountable> {
    let ttl = window.lifetime();
    let longest = (1..policy.attempts()).map(|k| policy.backoff().longest(k, Span::ZERO)).max();
    if longest.unwrap_or_default() >= ttl {
        return Err(NotCountable("waits outlive the window of the budget"));
    }
    let instances = scenario.clients.instances;
    // Where the budgets of the instances never refuse a retry, neither does their sum.
    if instances == 1 || !scenario.keeps_state(policy) {
        return Ok(());
    }
    let calls = match scenario.rate() {
        Some(rate) => {
            let before = scenario.fault_span().map_or(scenario.end(), |(start, _)| start);
            rate * ttl.min(before.since_zero()).as_nanos_f64() / 1e9
        }
        None => scenario.clients.arrivals.callers().map_or(0.0, f64::from),
    };
    let guards = Guards::new(policy, 1, 0);
    guards.deposit(0, (calls / f64::from(instances)) as u64, Time::ZERO);
    if guards.balance(Time::ZERO).unwrap_or(u64::MAX) < LEAST_TOKENS {
        return Err(NotCountable(
            "an instance has fewer than 10000 tokens in the window of its budget, and each runs dry by itself",
        ));
    }
    Ok(())
}
