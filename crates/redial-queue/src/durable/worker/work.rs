//! One attempt: admitted, run as a task of its own, and judged.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redial_core::decide::{Class, Outcome, Safety};
use redial_core::{Nanos, Stop};
use tokio::task::{Id, JoinError};
use tokio::time::timeout_at;

use super::super::{Handled, Handler, Job, Lease, Verdict};
use super::engine::{Decision, Tried, failure};
use super::run::{Shift, Stage};
use super::{Happening, WorkerError};

/// The reason of a job that nobody can make sense of.
const UNREADABLE: &str = "unreadable";

/// What the history says of an attempt that was answered with "not yet".
const NOT_YET: &str = "not yet: it is under way";

/// What a handler says about a job before it is tried.
#[derive(Clone)]
pub(super) enum Look {
    Known {
        destination: Option<String>,
        safety: Safety,
    },
    /// The handler panicked.
    Unreadable(String),
}

impl Look {
    fn destination(&self) -> Option<&str> {
        match self {
            Self::Known { destination, .. } => destination.as_deref(),
            Self::Unreadable(_) => None,
        }
    }

    pub(super) fn at<H: Handler>(handler: &H, job: &Job) -> Self {
        let look = || (handler.destination(job), handler.safety(job));
        match catch_unwind(AssertUnwindSafe(look)) {
            Ok((destination, safety)) => Self::Known { destination, safety },
            Err(panic) => {
                let why = message(&*panic);
                Self::Unreadable(format!("the handler panicked on a look at it: {why}"))
            }
        }
    }
}

/// What came of a task.
pub(super) enum Ended {
    Handled(Handled),
    CutOff,
}

impl<H: Handler> Shift<H> {
    /// Puts free workers to work.
    pub(super) fn start(&mut self, now: Nanos) {
        while self.by_task.len() < self.with.workers {
            let Some(lease) = self.ready.pop_front() else { return };
            self.start_one(lease, now);
        }
    }

    fn start_one(&mut self, lease: Lease, now: Nanos) {
        let Some(held) = self.held.get_mut(&lease) else { return };
        let job = Arc::clone(&held.job);
        let (destination, safety) = match &held.look {
            Look::Known { destination, safety } => (destination.clone(), *safety),
            Look::Unreadable(why) => {
                let verdict = Verdict::Dead { reason: UNREADABLE.to_owned() };
                let why = why.clone();
                return self.post(lease, verdict, why, Duration::ZERO);
            }
        };
        if let Some(destination) = &destination
            && !self.lanes.enter(destination, lease, now)
        {
            return;
        }
        let (age, claimed) = (held.age, held.claimed);
        let tried = Tried { job: &job, age, claimed, destination, safety };
        let attempt = match self.engine.admit(tried, now) {
            Ok(attempt) => attempt,
            Err(decision) => {
                let look = held.look.clone();
                self.refuse(lease, decision);
                return self.free_place(&look, true, now);
            }
        };
        let (handler, expires) = (Arc::clone(&self.handler), self.clock.at(attempt.expires()));
        let task = self.tasks.spawn({
            let job = Arc::clone(&job);
            async move {
                match timeout_at(expires, handler.handle(job)).await {
                    Ok(handled) => Ended::Handled(handled),
                    Err(_) => Ended::CutOff,
                }
            }
        });
        self.by_task.insert(task.id(), lease);
        self.with.gauge.tally().began.insert((now, lease.id.0));
        held.stage = Stage::Running { attempt: Box::new(attempt), task, began: now };
        self.tell(&Happening::Started(&job));
    }

    /// A task is over. One that was aborted is nobody's any more.
    pub(super) fn ended(&mut self, ended: Result<(Id, Ended), JoinError>, now: Nanos) {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, Ok(ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(lease) = self.by_task.remove(&id) else { return };
        let Some(held) = self.held.get_mut(&lease) else { return };
        let Stage::Running { attempt, began, .. } =
            std::mem::replace(&mut held.stage, Stage::Settling)
        else {
            return;
        };
        let look = held.look.clone();
        self.freed(lease, &look, began, matches!(ended, Ok(Ended::Handled(_))), now);
        let took = Duration::from_nanos(now.saturating_sub(began));
        self.fetch.slow &= took >= self.with.lease / 3;
        let seed = self.engine.next_seed();
        let (outcome, text, unreadable) = match judged(ended, took) {
            Judged::Tried(outcome, text) => (outcome, text, false),
            Judged::Unreadable(text) => (failure(Class::Permanent), text, true),
            Judged::NotTried(why, fatal) => {
                let verdict = self.engine.not_tried(*attempt, look.destination(), now);
                // What stops the worker is told when it has stopped.
                let why = if fatal.is_some() { String::new() } else { why };
                self.post(lease, verdict, why, took);
                return fatal.into_iter().for_each(|error| self.fail(error, now));
            }
        };
        let (verdict, stop) = attempt.settle(&outcome, now, seed);
        let verdict =
            if unreadable { Verdict::Dead { reason: UNREADABLE.to_owned() } } else { verdict };
        let class = match outcome {
            Outcome::Failure(failure) => failure.class.name(),
            Outcome::Success | Outcome::NotYet(_) => "not-yet",
        };
        self.post(lease, verdict, text, took);
        self.explain(stop.filter(|_| !unreadable), Some(class));
    }

    /// An attempt does not run any more: its place at the destination is for the next job, which goes first.
    pub(super) fn freed(
        &mut self,
        lease: Lease,
        look: &Look,
        began: Nanos,
        answered: bool,
        now: Nanos,
    ) {
        self.with.gauge.tally().began.remove(&(began, lease.id.0));
        self.free_place(look, answered, now);
    }

    fn free_place(&mut self, look: &Look, answered: bool, now: Nanos) {
        if let Some(destination) = look.destination()
            && let Some(next) = self.lanes.leave(destination, answered, now)
        {
            self.ready.push_front(next);
        }
    }

    /// Jobs that wait for a place at a destination that does not answer make room for others, if they are in their way.
    pub(super) fn leave_stuck(&mut self, now: Nanos) {
        if !self.is_crowded() {
            return;
        }
        for lease in self.lanes.take_stuck(now) {
            let Some(held) = self.held.get(&lease) else { continue };
            let Some(destination) = held.look.destination() else { continue };
            let decision = self.engine.stuck(&held.job, destination, now);
            self.refuse(lease, decision);
        }
    }

    fn refuse(&mut self, lease: Lease, decision: Decision) {
        let Decision { verdict, outcome, stop } = decision;
        self.post(lease, verdict, outcome, Duration::ZERO);
        self.explain(stop, None);
    }

    /// Adds to what was just posted why it was decided so.
    fn explain(&mut self, stop: Option<Stop>, class: Option<&'static str>) {
        if let Some(last) = self.outbox.last_mut() {
            (last.stop, last.class) = (stop, class);
        }
    }

    /// Ends what still runs when a worker that stops has waited long enough.
    pub(super) fn cut_off(&mut self, now: Nanos) {
        if self.by_task.is_empty() || self.cut_off.is_none_or(|time| now < time) {
            return;
        }
        for (_, lease) in std::mem::take(&mut self.by_task) {
            let Some(held) = self.held.get_mut(&lease) else { continue };
            let Stage::Running { attempt, task, began } =
                std::mem::replace(&mut held.stage, Stage::Settling)
            else {
                continue;
            };
            task.abort();
            let look = held.look.clone();
            self.freed(lease, &look, began, false, now);
            let took = Duration::from_nanos(now.saturating_sub(began));
            let seed = self.engine.next_seed();
            let verdict = attempt.abandon(now, seed);
            self.post(lease, verdict, "the worker stopped before it was done".to_owned(), took);
        }
    }
}

/// What came of a task, for the engine and for people.
enum Judged {
    Tried(Outcome, String),
    Unreadable(String),
    /// And the error that the worker stops with, if it does.
    NotTried(String, Option<WorkerError>),
}

fn judged(ended: Result<Ended, JoinError>, took: Duration) -> Judged {
    let handled = match ended {
        Ok(Ended::Handled(handled)) => handled,
        Ok(Ended::CutOff) => {
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
        Handled::NotTried(why) => Judged::NotTried(why, None),
        Handled::WorkerFailed(why) => {
            Judged::NotTried(why.clone(), Some(WorkerError::Handler(why)))
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
