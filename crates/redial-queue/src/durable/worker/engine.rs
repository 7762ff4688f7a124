//! What the engine decides about a job: whether it may be tried now, and what follows from an attempt.
//!
//! A refusal by a guard (the budget is dry, the breaker is open) says nothing about the job: no attempt was made, so none is
//! charged, and the job waits. A refusal by the policy (no attempts left, no time left) is the end.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::{Guards, Scopes};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{
    Call, Context, Deadline, Event, Observer, Permit, Policy, Progress, Request, Span, Stop,
    Suspended, Time, draw,
};

use super::super::{Job, JobVerdict};
use super::pacer::{Pacer, gap};
use crate::observer::KeyedObserver;
use crate::watch::Trend;

/// The time between two jobs that could not be tried and are due again.
const NOT_TRIED_GAP: Span = Span::from_millis(5);

/// The longest wait of a job only because its destination is silent.
const MOST_SILENT: Duration = Duration::from_secs(3600);

/// Destinations with guards of their own, of each policy.
const MOST_DESTINATIONS: usize = 10_000;

/// The policies, and the guards of each destination.
pub(super) struct Engine {
    own: Rules,
    named: BTreeMap<String, Rules>,
    /// Spaces out jobs that could not be tried.
    not_tried: Pacer,
    observer: Option<Arc<dyn Observer>>,
    /// Hashes the keys of jobs for the cool-down, and names the random streams.
    state: RandomState,
    seed: u64,
    drawn: u64,
}

struct Rules {
    policy: Arc<Policy>,
    scopes: Scopes<Option<String>>,
    refused: Pacer,
}

impl Rules {
    fn new(policy: &Policy) -> Self {
        let scopes = Scopes::new(MOST_DESTINATIONS, policy.memory_span());
        Self { policy: Arc::new(policy.clone()), scopes, refused: Pacer::new() }
    }
}

/// A job that asks for an attempt.
pub(super) struct Candidate<'a> {
    pub(super) job: &'a Job,
    /// When it was claimed, and how long ago it had been claimed first by then.
    pub(super) claimed: Time,
    pub(super) age: Duration,
    pub(super) destination: Option<String>,
    pub(super) safety: Safety,
}

/// An attempt that was admitted.
pub(super) struct Attempt {
    policy: Arc<Policy>,
    guards: Arc<Guards>,
    request: Request,
    observer: Option<KeyedObserver>,
    call: Call,
    permit: Permit,
}

/// What becomes of a job, and why.
pub(super) struct Decision {
    pub(super) verdict: JobVerdict,
    /// In a line, for the history.
    pub(super) outcome: String,
    pub(super) stop: Option<Stop>,
    /// How the attempt failed, and how that compares with the failures before it.
    pub(super) failure: Option<Failure>,
    pub(super) trend: Trend,
}

impl Decision {
    pub(super) fn new(verdict: JobVerdict, outcome: String) -> Self {
        Self { verdict, outcome, stop: None, failure: None, trend: Trend::default() }
    }

    pub(super) fn dead(reason: &str, outcome: String) -> Self {
        Self::new(JobVerdict::Dead { reason: reason.to_owned() }, outcome)
    }

    /// The attempt is not made.
    fn refused(job: &Job, stop: Stop, verdict: JobVerdict) -> Self {
        let last = job.history.last().map(|tried| tried.outcome.as_str());
        let outcome =
            last.map_or_else(|| stop.to_string(), |last| format!("{stop}; before: {last}"));
        Self { stop: Some(stop), ..Self::new(verdict, outcome) }
    }
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
        let (named, not_tried) = (named.collect(), Pacer::new());
        Self { own, named, not_tried, observer, state, seed, drawn: 0 }
    }

    /// A number that names a random stream of its own.
    pub(super) fn next_seed(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, self.drawn)
    }

    /// May it be tried now?
    pub(super) fn admit(
        &mut self,
        candidate: Candidate<'_>,
        now: Time,
    ) -> Result<Attempt, Decision> {
        let seed = self.next_seed();
        let Candidate { job, age, claimed, destination, safety } = candidate;
        let key = job.key.as_ref().and_then(|key| NonZeroU64::new(self.state.hash_one(key)));
        let rules = match &job.policy {
            None => &mut self.own,
            Some(name) if self.named.contains_key(name) => {
                self.named.get_mut(name).unwrap_or(&mut self.own)
            }
            Some(name) => return Err(self.unknown_policy(name)),
        };
        let policy = Arc::clone(&rules.policy);
        let slot = self.state.hash_one(&destination);
        let guards = rules.scopes.get(destination, now, || Guards::new(&policy, 1, seed));
        let request = Request { safety, key, ..Request::default() };
        let observer = self.observer.as_ref().map(|observer| {
            let key = key.map_or_else(|| self.state.hash_one(job.id), NonZeroU64::get);
            KeyedObserver { observer: Arc::clone(observer), key, continues }
        });
        let cx = context(&policy, &guards, observer.as_ref(), request);
        let deadline = policy.deadline_limit().span().map(|whole| claimed + (whole - age.into()));
        // The store has charged this attempt already; the engine counts it when it admits it.
        let attempts = job.progress.attempts.saturating_sub(1);
        let progress = Progress { attempts, ..job.progress };
        let revived = Call::revive(progress, &cx, deadline.into(), now);
        if let (Err(reason), Some(observer)) = (&revived, &observer) {
            observer.call_event(request.info(), &Event::Stopped { reason: *reason, attempts });
        }
        let admitted =
            revived.and_then(|mut call| call.admit(&cx, now).map(|permit| (call, permit)));
        match admitted {
            Ok((call, permit)) => Ok(Attempt { policy, guards, request, observer, call, permit }),
            Err(stop) if stop.is_guard() => {
                let gap = gap(&policy, stop);
                let wait = rules.refused.next(slot, gap, now) + pause(&policy, job.progress, seed);
                Err(Decision::refused(job, stop, JobVerdict::Postpone { wait }))
            }
            Err(stop) => Err(Decision::refused(job, stop, dead(stop))),
        }
    }

    /// An attempt was admitted and could not be made. It is not charged, and the job waits.
    pub(super) fn not_tried(
        &mut self,
        attempt: Attempt,
        destination: Option<&str>,
        why: String,
        now: Time,
    ) -> Decision {
        let seed = self.next_seed();
        let wait = self.not_tried.next(self.state.hash_one(destination), NOT_TRIED_GAP, now);
        Decision::new(JobVerdict::Postpone { wait: wait + attempt.give_back(now, seed) }, why)
    }

    /// All places of a destination are taken, and it has not answered for a while. The job waits for at least as long again:
    /// jobs that were due sooner would be claimed and given back over and over.
    pub(super) fn stuck(
        &mut self,
        job: &Job,
        destination: &str,
        silent_for: Duration,
        now: Time,
    ) -> Decision {
        let seed = self.next_seed();
        let slot = self.state.hash_one(Some(destination));
        let rules = match &job.policy {
            Some(name) => self.named.get_mut(name).unwrap_or(&mut self.own),
            None => &mut self.own,
        };
        let wait = rules.refused.next(slot, NOT_TRIED_GAP, now);
        let wait = wait + pause(&rules.policy, job.progress, seed).max(silent_for.min(MOST_SILENT));
        let outcome = format!("{destination} does not answer, and has all of its places");
        let stop = Some(Stop::Concurrency);
        Decision { stop, ..Decision::new(JobVerdict::Postpone { wait }, outcome) }
    }

    fn unknown_policy(&self, name: &str) -> Decision {
        let known: Vec<String> = self.named.keys().map(|name| format!("{name:?}")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let outcome = format!("no policy is called {name:?}; this worker knows {known}");
        Decision::dead("unknown-policy", outcome)
    }
}

fn dead(stop: Stop) -> JobVerdict {
    JobVerdict::Dead { reason: stop.name().to_owned() }
}

fn context<'a>(
    policy: &'a Policy,
    guards: &'a Guards,
    observer: Option<&'a KeyedObserver>,
    request: Request,
) -> Context<'a> {
    Context { policy, guards, observer: KeyedObserver::of(observer), request }
}

/// Whether a job is tried again after its call has stopped in this process: a guard refused an attempt, or it was abandoned.
fn continues(stop: Stop) -> bool {
    stop.is_guard() || stop == Stop::Cancelled
}

/// A cancellation that a handler reports is that of the other side: the job itself was not cancelled, so it is transient.
fn uncancelled(outcome: &Outcome) -> Outcome {
    match *outcome {
        Outcome::Failure(failure) if failure.class == Class::Cancelled => {
            Failure { class: Class::Transient, ..failure }.into()
        }
        outcome => outcome,
    }
}

/// How long a job that was not tried waits: about as long as for its next retry. Whatever jitter the policy has, it is not
/// due at once, nor together with the other jobs that were refused with it.
fn pause(policy: &Policy, progress: Progress, seed: u64) -> Duration {
    let backoff = Backoff { jitter: Jitter::Equal, ..*policy.backoff() };
    let delay = backoff.delay(progress.step.saturating_add(1), progress.drawn, seed);
    delay.max(Span::MILLISECOND).into()
}

impl Attempt {
    /// When it has to be cut off.
    pub(super) fn expires(&self) -> Deadline {
        self.permit.expires
    }

    /// What follows from it. Another process may make the next attempt, so this one pays for none.
    pub(super) fn settle(self, outcome: &Outcome, text: String, now: Time, seed: u64) -> Decision {
        let Self { policy, guards, request, observer, call, permit } = self;
        let cx = context(&policy, &guards, observer.as_ref(), request);
        let trend = Trend::of(permit.number, policy.backoff());
        let (verdict, stop) = match call.suspend(&cx, permit, &uncancelled(outcome), now, || seed) {
            Suspended::Done => (JobVerdict::Done, None),
            Suspended::Wait { until, progress } => {
                let wait = (until - now).into();
                (JobVerdict::Retry { wait, progress }, None)
            }
            Suspended::Stop(stop) => (dead(stop), Some(stop)),
        };
        let failure = if let Outcome::Failure(failure) = outcome { Some(*failure) } else { None };
        Decision { stop, failure, trend, ..Decision::new(verdict, text) }
    }

    /// The worker stopped before it was over: the job is tried again.
    pub(super) fn abandon(self, now: Time, seed: u64) -> Decision {
        let progress = self.call.progress();
        let verdict = JobVerdict::Retry { wait: self.give_back(now, seed), progress };
        Decision::new(verdict, "the worker stopped before it was done".to_owned())
    }

    /// It is over without an outcome. Returns how long the job waits.
    fn give_back(self, now: Time, seed: u64) -> Duration {
        let Self { policy, guards, request, observer, mut call, permit } = self;
        let cx = context(&policy, &guards, observer.as_ref(), request);
        let progress = call.progress();
        call.abandon(&cx, permit, now);
        call.cancel(&cx, now);
        pause(&policy, progress, seed)
    }
}
