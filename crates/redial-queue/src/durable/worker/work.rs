//! One attempt: admitted, run as a task of its own, and judged.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redial_core::decide::{Class, Outcome};
use redial_core::{Nanos, Stop};
use tokio::task::{Id, JoinError};
use tokio::time::timeout_at;

use super::super::{Handled, Handler, Lease, Verdict};
use super::Happening;
use super::engine::{Decision, NOT_YET, Tried, failure};
use super::run::{Shift, Stage};

/// The reason of a job that nobody can make sense of.
const UNREADABLE: &str = "unreadable";

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
        let asked = catch_unwind(AssertUnwindSafe(|| {
            (self.handler.destination(&job), self.handler.safety(&job))
        }));
        let (destination, safety) = match asked {
            Ok(asked) => asked,
            Err(panic) => {
                let why = format!("the handler panicked on a look at it: {}", message(&*panic));
                let verdict = Verdict::Dead { reason: UNREADABLE.to_owned() };
                return self.post(lease, verdict, why, Duration::ZERO);
            }
        };
        let (age, claimed) = (held.age, held.claimed);
        let tried = Tried { job: &job, age, claimed, destination, safety };
        let attempt = match self.engine.admit(tried, now) {
            Ok(attempt) => attempt,
            Err(Decision { verdict, outcome, stop }) => {
                self.post(lease, verdict, outcome, Duration::ZERO);
                return self.explain(stop, None);
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
        self.with.gauge.tally().began.remove(&(began, lease.id.0));
        let took = Duration::from_nanos(now.saturating_sub(began));
        self.fetch.slow &= took >= self.with.lease / 3;
        let seed = self.engine.next_seed();
        let (outcome, text, unreadable) = judged(ended, took);
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
            self.with.gauge.tally().began.remove(&(began, lease.id.0));
            let took = Duration::from_nanos(now.saturating_sub(began));
            let seed = self.engine.next_seed();
            let verdict = attempt.abandon(now, seed);
            self.post(lease, verdict, "the worker stopped before it was done".to_owned(), took);
        }
    }
}

/// What came of a task, for the engine and for people; and whether nobody can make sense of the job.
fn judged(ended: Result<Ended, JoinError>, took: Duration) -> (Outcome, String, bool) {
    match ended {
        Ok(Ended::Handled(Handled::Done)) => (Outcome::Success, String::new(), false),
        Ok(Ended::Handled(Handled::NotYet(hint))) => {
            (Outcome::NotYet(hint), NOT_YET.to_owned(), false)
        }
        Ok(Ended::Handled(Handled::Failed { failure, cause })) => (failure.into(), cause, false),
        Ok(Ended::Handled(Handled::Unreadable(why))) => (failure(Class::Permanent), why, true),
        Ok(Ended::CutOff) => {
            let took = Duration::from_millis(took.as_millis().try_into().unwrap_or(u64::MAX));
            (failure(Class::Timeout), format!("cut off after {took:?}"), false)
        }
        Err(error) => {
            let text = error.try_into_panic().map_or_else(
                |_| "the handler was aborted".to_owned(),
                |panic| format!("the handler panicked: {}", message(&*panic)),
            );
            (failure(Class::Transient), text, false)
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
