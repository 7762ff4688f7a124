//! One attempt: admitted, run as a task of its own, and judged.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Deadline, Time};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout_at;

use super::super::{Handled, Handler, Job, JobLease};
use super::WorkerError;
use super::destinations::Destinations;
use super::engine::{Attempt, Candidate, Decision, Engine};
use super::outbox::Outgoing;
use super::reporter::Reporter;
use crate::clock::Clock;
use crate::stats;

/// The reason of a job that the handler cannot read.
const UNREADABLE: &str = "unreadable";

/// The outcome of an attempt that was answered with "not yet", in the history.
const NOT_YET: &str = "not yet: it is under way";

/// The jobs that wait for a worker, and the attempts that run.
pub(super) struct Attempts<H> {
    handler: Arc<H>,
    engine: Engine,
    clock: Clock,
    workers: usize,
    /// Jobs that wait for a worker, oldest first.
    ready: VecDeque<Pending>,
    /// Jobs that wait for a place at their destination.
    destinations: Destinations<Pending>,
    tasks: JoinSet<Ended>,
    running: HashMap<Id, Running>,
}

/// A job that was not tried yet.
struct Pending {
    lease: JobLease,
    job: Arc<Job>,
    /// When it was claimed, and how long ago the job had been claimed first by then.
    claimed: Time,
    age: Duration,
    target: Result<Target, String>,
}

/// What the handler knows about a job before it is tried.
struct Target {
    destination: Option<String>,
    safety: Safety,
}

struct Running {
    lease: JobLease,
    destination: Option<String>,
    attempt: Attempt,
    task: AbortHandle,
    since: stats::Running,
}

/// How a task ended.
pub(super) enum Ended {
    Handled(Handled),
    TimedOut,
}

/// An attempt that is over.
pub(super) struct Finished {
    pub(super) out: Outgoing,
    /// The error that the worker stops with, if it does.
    pub(super) fatal: Option<WorkerError>,
}

impl<H: Handler> Attempts<H> {
    pub(super) fn new(
        handler: H,
        engine: Engine,
        clock: Clock,
        workers: usize,
        places: usize,
    ) -> Self {
        Self {
            handler: Arc::new(handler),
            engine,
            clock,
            workers,
            ready: VecDeque::new(),
            destinations: Destinations::new(places),
            tasks: JoinSet::new(),
            running: HashMap::new(),
        }
    }

    /// How many jobs wait for a worker, or for a place at a destination that answers.
    pub(super) fn waiting(&self, now: Time) -> usize {
        self.ready.len() + self.destinations.waiting(now)
    }

    /// How many jobs were claimed and not started.
    pub(super) fn not_started(&self) -> usize {
        self.ready.len() + self.destinations.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn next_stuck(&self, now: Time) -> Option<Time> {
        self.destinations.next_stuck(now)
    }

    pub(super) fn next_seed(&mut self) -> u64 {
        self.engine.next_seed()
    }

    pub(super) fn push(&mut self, lease: JobLease, job: Arc<Job>, claimed: Time, age: Duration) {
        let target = look(&*self.handler, &job);
        self.ready.push_back(Pending { lease, job, claimed, age, target });
    }

    /// Gives free workers something to do. Returns what was not admitted.
    pub(super) fn start(&mut self, reporter: &Reporter, now: Time) -> Vec<Outgoing> {
        let mut refused = Vec::new();
        while self.running.len() < self.workers {
            let Some(pending) = self.ready.pop_front() else { break };
            refused.extend(self.start_one(pending, reporter, now));
        }
        refused
    }

    fn start_one(&mut self, pending: Pending, reporter: &Reporter, now: Time) -> Option<Outgoing> {
        let refused = |lease, decision| Some(Outgoing::new(lease, decision, Duration::ZERO));
        let (destination, safety) = match &pending.target {
            Ok(Target { destination, safety }) => (destination.clone(), *safety),
            Err(why) => return refused(pending.lease, Decision::dead(UNREADABLE, why.clone())),
        };
        let Pending { lease, job, claimed, age, .. } = match &destination {
            Some(destination) => self.destinations.enter(destination, pending, now)?,
            None => pending,
        };
        let candidate =
            Candidate { job: &job, age, claimed, destination: destination.clone(), safety };
        let attempt = match self.engine.admit(candidate, now) {
            Ok(attempt) => attempt,
            Err(decision) => {
                self.leave(destination.as_deref(), true, now);
                return refused(lease, decision);
            }
        };
        let since = reporter.started(&job, now);
        let (handler, expires) = (Arc::clone(&self.handler), self.clock.at(attempt.expires()));
        let task = self.tasks.spawn(async move {
            match timeout_at(expires, handler.handle(job)).await {
                Ok(handled) => Ended::Handled(handled),
                Err(_) => Ended::TimedOut,
            }
        });
        self.running.insert(task.id(), Running { lease, destination, attempt, task, since });
        None
    }

    /// An attempt no longer has a place at its destination: the next job there goes first.
    fn leave(&mut self, destination: Option<&str>, answered: bool, now: Time) {
        let next = destination.and_then(|name| self.destinations.leave(name, answered, now));
        next.into_iter().for_each(|next| self.ready.push_front(next));
    }

    /// A task that has ended, if there is one.
    pub(super) fn poll_ended(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Option<Result<(Id, Ended), JoinError>> {
        match self.tasks.poll_join_next_with_id(cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => None,
        }
    }

    /// Judges a task that has ended. One that was aborted does not count any more.
    pub(super) fn ended(
        &mut self,
        ended: Result<(Id, Ended), JoinError>,
        reporter: &Reporter,
        now: Time,
    ) -> Option<Finished> {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, Ok(ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let Running { lease, destination, attempt, since, .. } = self.running.remove(&id)?;
        reporter.ended(since);
        let destination = destination.as_deref();
        self.leave(destination, matches!(ended, Ok(Ended::Handled(_))), now);
        let took = Duration::from(now - since.began);
        let (decision, fatal) = match judge(ended, took) {
            Judged::Tried(outcome, text) => {
                (attempt.settle(&outcome, text, now, self.next_seed()), None)
            }
            Judged::Unreadable(text) => {
                let seed = self.next_seed();
                attempt.settle(&failure(Class::Permanent), String::new(), now, seed);
                (Decision::dead(UNREADABLE, text), None)
            }
            Judged::NotTried(why) => (self.engine.not_tried(attempt, destination, why, now), None),
            // The text is reported when the worker has stopped.
            Judged::WorkerFailed(why) => {
                let decision = self.engine.not_tried(attempt, destination, String::new(), now);
                (decision, Some(WorkerError::Handler(why)))
            }
        };
        Some(Finished { out: Outgoing::new(lease, decision, took), fatal })
    }

    /// Removes jobs that were claimed by then and not started.
    pub(super) fn take_waiting(&mut self, by: Deadline) -> Vec<JobLease> {
        let is_old = |pending: &Pending| by >= pending.claimed.into();
        let (old, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ready).into_iter().partition(is_old);
        self.ready = kept;
        let old = old.into_iter().chain(self.destinations.remove(is_old));
        old.map(|pending| pending.lease).collect()
    }

    /// Removes jobs that wait for destinations that do not answer, all but `kept` of them.
    pub(super) fn take_stuck(&mut self, kept: usize, now: Time) -> Vec<Outgoing> {
        let stuck = self.destinations.take_stuck(kept, now);
        let out = |(Pending { lease, job, target, .. }, silent_for): (Pending, Duration)| {
            let destination = target.ok()?.destination?;
            let decision = self.engine.stuck(&job, &destination, silent_for, now);
            Some(Outgoing::new(lease, decision, Duration::ZERO))
        };
        stuck.into_iter().filter_map(out).collect()
    }

    /// Aborts every attempt: the worker stops, and has waited long enough.
    pub(super) fn cut_off(&mut self, reporter: &Reporter, now: Time) -> Vec<Outgoing> {
        let running: Vec<Running> = self.running.drain().map(|(_, running)| running).collect();
        running.into_iter().map(|running| self.abort(running, reporter, now)).collect()
    }

    /// Removes a job that this worker no longer has.
    pub(super) fn remove(&mut self, lease: JobLease, reporter: &Reporter, now: Time) {
        let found = self.running.iter().find(|(_, running)| running.lease == lease);
        let id = found.map(|(id, _)| *id);
        if let Some(running) = id.and_then(|id| self.running.remove(&id)) {
            self.abort(running, reporter, now);
            return;
        }
        self.ready.retain(|pending| pending.lease != lease);
        self.destinations.remove(|pending| pending.lease == lease);
        self.ready.extend(self.destinations.take_free());
    }

    fn abort(&mut self, running: Running, reporter: &Reporter, now: Time) -> Outgoing {
        let Running { lease, destination, attempt, task, since } = running;
        task.abort();
        reporter.ended(since);
        self.leave(destination.as_deref(), false, now);
        let took = Duration::from(now - since.began);
        Outgoing::new(lease, attempt.abandon(now, self.next_seed()), took)
    }
}

/// An error if the handler panics.
fn look<H: Handler>(handler: &H, job: &Job) -> Result<Target, String> {
    let look = || Target { destination: handler.destination(job), safety: handler.safety(job) };
    catch_unwind(AssertUnwindSafe(look))
        .map_err(|panic| format!("the handler panicked on a look at it: {}", message(&*panic)))
}

/// The result of a task.
enum Judged {
    /// For the engine, and in a line for people.
    Tried(Outcome, String),
    Unreadable(String),
    NotTried(String),
    WorkerFailed(String),
}

fn judge(ended: Result<Ended, JoinError>, took: Duration) -> Judged {
    let handled = match ended {
        Ok(Ended::Handled(handled)) => handled,
        Ok(Ended::TimedOut) => {
            let took = Duration::from_millis(took.as_millis().try_into().unwrap_or(u64::MAX));
            return Judged::Tried(failure(Class::Timeout), format!("cut off after {took:?}"));
        }
        Err(error) => {
            let text = error.try_into_panic().map_or_else(
                |_| "the handler was aborted".to_owned(),
                |panic| format!("the handler panicked: {}", message(&*panic)),
            );
            return Judged::Tried(failure(Class::Transient), text);
        }
    };
    match handled {
        Handled::Done => Judged::Tried(Outcome::Success, String::new()),
        Handled::NotYet(hint) => Judged::Tried(Outcome::NotYet(hint), NOT_YET.to_owned()),
        Handled::Failed { failure, cause } => Judged::Tried(failure.into(), cause),
        Handled::Unreadable(why) => Judged::Unreadable(why),
        Handled::NotTried(why) => Judged::NotTried(why),
        Handled::WorkerFailed(why) => Judged::WorkerFailed(why),
    }
}

/// The failure of a handler that did not report one.
fn failure(class: Class) -> Outcome {
    Failure::new(class).into()
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
