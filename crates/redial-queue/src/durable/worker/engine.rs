//! What the engine says about a job: whether it may be tried now, and what follows from an attempt.
//!
//! A refusal by the world (the budget is dry, the breaker is open) is not the job's fault: no attempt was made, so it is
//! given back and the job waits. A refusal by the policy (no attempts left, no time left) is the end.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::{Guards, Scopes};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::{Backoff, Jitter, wait};
use redial_core::{
    Call, Context, Event, MS, NEVER, Nanos, Observer, Permit, Policy, Progress, Request, Stop,
    Verdict as Next, draw,
};

use super::super::{Job, Verdict};
use super::turns::{Turns, gap};
use crate::told::{Told, seen};

/// What the history says of an attempt that was only to ask again: no store keeps it elsewhere.
pub(super) const NOT_YET: &str = "not yet: it is under way";

/// The time between two jobs that could not be tried and come back.
const NOT_TRIED_GAP: Nanos = 5 * MS;

/// Destinations with guards of their own, of each policy.
const MOST_DESTINATIONS: usize = 10_000;

/// The policies, and the guards of each destination.
pub(super) struct Engine {
    own: Rules,
    named: BTreeMap<String, Rules>,
    /// When the next job that could not be tried comes back, by destination.
    not_tried: Turns,
    observer: Option<Arc<dyn Observer>>,
    /// Hashes the keys of jobs for the cool-down, and names the random streams.
    state: RandomState,
    seed: u64,
    drawn: u64,
}

struct Rules {
    policy: Arc<Policy>,
    scopes: Scopes<Option<String>>,
    turns: Turns,
}

impl Rules {
    fn new(policy: &Policy) -> Self {
        let scopes = Scopes::new(MOST_DESTINATIONS, policy.memory());
        Self { policy: Arc::new(policy.clone()), scopes, turns: Turns::new() }
    }
}

/// A job that may be tried.
pub(super) struct Tried<'a> {
    pub(super) job: &'a Job,
    /// How long ago it was first claimed, and since when that is so.
    pub(super) age: Duration,
    pub(super) claimed: Nanos,
    pub(super) destination: Option<String>,
    pub(super) safety: Safety,
}

/// An attempt that was admitted.
pub(super) struct Attempt {
    policy: Arc<Policy>,
    guards: Arc<Guards>,
    request: Request,
    told: Option<Told>,
    call: Call,
    permit: Permit,
}

/// What becomes of a job, and why.
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    /// In a line, for the history.
    pub(super) outcome: String,
    pub(super) stop: Option<Stop>,
}

impl Engine {
    pub(super) fn new(
        own: &Policy,
        named: &BTreeMap<String, Policy>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let named = named.iter().map(|(name, policy)| (name.clone(), Rules::new(policy)));
        let state = RandomState::new();
        let seed = state.hash_one(0);
        let own = Rules::new(own);
        let (named, not_tried) = (named.collect(), Turns::new());
        Self { own, named, not_tried, observer, state, seed, drawn: 0 }
    }

    /// A number that names a random stream of its own.
    pub(super) fn next_seed(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, self.drawn)
    }

    /// May it be tried now?
    pub(super) fn admit(&mut self, tried: Tried<'_>, now: Nanos) -> Result<Attempt, Decision> {
        let seed = self.next_seed();
        let Tried { job, age, claimed, destination, safety } = tried;
        let key = job.key.as_ref().map_or(0, |key| self.state.hash_one(key));
        let rules = match &job.policy {
            None => &mut self.own,
            Some(name) if self.named.contains_key(name) => {
                self.named.get_mut(name).unwrap_or(&mut self.own)
            }
            Some(name) => return Err(self.unknown(name)),
        };
        let policy = Arc::clone(&rules.policy);
        let place = self.state.hash_one(&destination);
        let guards = rules.scopes.get(destination, now, || Guards::new(&policy, 1, seed));
        let request = Request { safety, key, ..Request::default() };
        let told = self.observer.as_ref().map(|observer| {
            let key = if key == 0 { self.state.hash_one(job.id) } else { key };
            Told { observer: Arc::clone(observer), key, goes_on: passes }
        });
        let observer = seen(told.as_ref());
        let cx = Context { policy: &policy, guards: &guards, observer, request };
        let deadline = match policy.deadline() {
            NEVER => NEVER,
            whole => claimed.saturating_add(whole.saturating_sub(redial_core::nanos(age))),
        };
        // The store has charged this attempt already; the engine counts it when it admits it.
        let attempts = job.progress.attempts.saturating_sub(1);
        let progress = Progress { attempts, ..job.progress };
        let polls = job.history.last().is_some_and(|last| last.outcome == NOT_YET);
        let revived = Call::revive(progress, !polls, &cx, deadline, now);
        if let (Err(reason), Some(told)) = (&revived, &told) {
            told.call_event(request.info(), &Event::Stopped { reason: *reason, attempts });
        }
        let admitted =
            revived.and_then(|mut call| call.admit(&cx, now).map(|permit| (call, permit)));
        match admitted {
            Ok((call, permit)) => Ok(Attempt { policy, guards, request, told, call, permit }),
            Err(stop) if passes(stop) => {
                let gap = gap(&policy, stop);
                let wait = rules.turns.next(place, gap, now) + pause(&policy, job.progress, seed);
                Err(refused(job, stop, Verdict::Postpone { wait }))
            }
            Err(stop) => Err(refused(job, stop, dead(stop))),
        }
    }

    /// An attempt was admitted and could not be made. It is given back, and the job waits.
    pub(super) fn not_tried(
        &mut self,
        attempt: Attempt,
        destination: Option<&str>,
        now: Nanos,
    ) -> Verdict {
        let seed = self.next_seed();
        let turn = self.not_tried.next(self.state.hash_one(destination), NOT_TRIED_GAP, now);
        Verdict::Postpone { wait: turn + attempt.give_back(now, seed) }
    }

    /// All places of a destination are taken, and it does not answer.
    pub(super) fn stuck(&mut self, job: &Job, destination: &str, now: Nanos) -> Decision {
        let seed = self.next_seed();
        let place = self.state.hash_one(Some(destination));
        let rules = match &job.policy {
            Some(name) => self.named.get_mut(name).unwrap_or(&mut self.own),
            None => &mut self.own,
        };
        let wait = rules.turns.next(place, NOT_TRIED_GAP, now);
        let wait = wait + pause(&rules.policy, job.progress, seed);
        let outcome = format!("{destination} does not answer, and has all of its places");
        let (verdict, stop) = (Verdict::Postpone { wait }, Some(Stop::Concurrency));
        Decision { verdict, outcome, stop }
    }

    fn unknown(&self, name: &str) -> Decision {
        let known: Vec<String> = self.named.keys().map(|name| format!("{name:?}")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Decision {
            verdict: Verdict::Dead { reason: "unknown-policy".to_owned() },
            outcome: format!("no policy is called {name:?}; this worker knows {known}"),
            stop: None,
        }
    }
}

/// The attempt is not made.
fn refused(job: &Job, stop: Stop, verdict: Verdict) -> Decision {
    let last = job.history.last().map(|tried| tried.outcome.as_str());
    let outcome = last.map_or_else(|| stop.to_string(), |last| format!("{stop}; before: {last}"));
    Decision { verdict, outcome, stop: Some(stop) }
}

fn dead(stop: Stop) -> Verdict {
    Verdict::Dead { reason: stop.name().to_owned() }
}

/// Whether a refusal says nothing about the job: later it may be another.
fn passes(stop: Stop) -> bool {
    matches!(
        stop,
        Stop::Budget
            | Stop::BreakerOpen
            | Stop::Throttled
            | Stop::RateLimit
            | Stop::Concurrency
            | Stop::CoolDown
            | Stop::Cancelled
    )
}

/// How long a job waits that was not tried: as long as for its next retry, but never at once and never at the same time as
/// the others that were refused with it, whatever jitter the policy has.
fn pause(policy: &Policy, progress: Progress, seed: u64) -> Duration {
    let backoff = Backoff { jitter: Jitter::Equal, ..*policy.backoff() };
    let delay = backoff.delay(progress.step.saturating_add(1), progress.drawn, seed);
    Duration::from_nanos(delay.max(MS))
}

impl Attempt {
    /// When it has to be cut off.
    pub(super) fn expires(&self) -> Nanos {
        self.permit.expires
    }

    /// What follows from it.
    pub(super) fn settle(
        self,
        outcome: &Outcome,
        now: Nanos,
        seed: u64,
    ) -> (Verdict, Option<Stop>) {
        let Self { policy, guards, request, told, mut call, permit } = self;
        let observer = seen(told.as_ref());
        let cx = Context { policy: &policy, guards: &guards, observer, request };
        let before = call.progress();
        match call.settle(&cx, permit, outcome, now, || seed) {
            Next::Done => (Verdict::Done, None),
            Next::Wait(until) => {
                let progress = call.progress();
                // The process that sends the retry pays for it.
                call.cancel(&cx, now);
                let wait = Duration::from_nanos(until.saturating_sub(now));
                (Verdict::Retry { wait, progress }, None)
            }
            Next::Stop(stop) if passes(stop) => match again(&policy, before, outcome, seed) {
                Ok((verdict, delay)) => {
                    if let Some(told) = &told {
                        let failure =
                            if let Outcome::Failure(why) = outcome { Some(*why) } else { None };
                        let attempt = before.attempts.saturating_add(1);
                        let delay = Duration::from_nanos(delay);
                        let event = Event::RetryScheduled { attempt, delay, failure };
                        told.call_event(request.info(), &event);
                    }
                    (verdict, Some(stop))
                }
                Err(stop) => (dead(stop), Some(stop)),
            },
            Next::Stop(stop) => (dead(stop), Some(stop)),
            Next::InFlight => {
                (Verdict::Retry { wait: pause(&policy, before, seed), progress: before }, None)
            }
        }
    }

    /// It was cut off half-way, for no fault of its own: it is tried again.
    pub(super) fn abandon(self, now: Nanos, seed: u64) -> Verdict {
        let progress = self.call.progress();
        Verdict::Retry { wait: self.give_back(now, seed), progress }
    }

    /// It is over without an outcome. Returns how long the job waits.
    fn give_back(self, now: Nanos, seed: u64) -> Duration {
        let Self { policy, guards, request, told, mut call, permit } = self;
        let observer = seen(told.as_ref());
        let cx = Context { policy: &policy, guards: &guards, observer, request };
        let progress = call.progress();
        call.abandon(&cx, permit, now);
        call.cancel(&cx, now);
        pause(&policy, progress, seed)
    }
}

/// An attempt failed, and a retry would be refused now: whoever claims the job next asks again.
fn again(
    policy: &Policy,
    from: Progress,
    outcome: &Outcome,
    seed: u64,
) -> Result<(Verdict, Nanos), Stop> {
    let step = from.step.saturating_add(1);
    let drawn = wait(policy, step, from.drawn, outcome.hint(), seed)?;
    let progress = Progress { step, drawn: drawn.drawn, ..from };
    let delay = drawn.delay.max(MS);
    Ok((Verdict::Retry { wait: Duration::from_nanos(delay), progress }, delay))
}

/// The failure of a handler that did not say what it was.
pub(super) fn failure(class: Class) -> Outcome {
    Failure::new(class).into()
}
