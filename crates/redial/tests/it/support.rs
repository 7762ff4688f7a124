use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial::admit::StallRule;
use redial::admit::budget::Budget;
use redial::decide::{Class, Classify, Failure};
use redial::schedule::{Backoff, Jitter};
use redial::{Draft, Event, Observer, Policy, Retry};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault(pub(crate) Class, pub(crate) &'static str);

impl Classify for Fault {
    fn classify(&self) -> Failure {
        Failure::new(self.0)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.1)
    }
}

impl std::error::Error for Fault {}

pub(crate) const RESET: Fault = Fault(Class::Reset, "connection reset");

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 4 attempts with waits of exactly 100, 200 and 400 ms. No call is parked.
pub(crate) fn plain(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let backoff = Backoff::exponential(ms(100), ms(2_000)).jitter(Jitter::None);
    change(Policy::draft().backoff(backoff).without_park()).build().unwrap()
}

/// The same, and nothing refuses an attempt.
pub(crate) fn unbounded(change: impl FnOnce(Draft) -> Draft) -> Policy {
    plain(|p| change(p.budget(Budget::None).without_stall()))
}

/// Calls to a destination that has answered nothing: all are refused.
pub(crate) async fn stalled() -> Retry {
    let rule = StallRule::most(1.0).timeouts(5);
    let retry = Retry::new(plain(|p| p.attempts(1).attempt_timeout(ms(100)).stall(rule)));
    for _ in 0..5 {
        retry.run(|_| std::future::pending::<Result<(), Fault>>()).await.unwrap_err();
    }
    retry
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Event>>>);

impl Observer for Log {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(*event);
    }
}

impl Log {
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn delays(&self) -> Vec<Duration> {
        let delay = |event: &Event| match event {
            Event::RetryScheduled { delay, .. } => Some(*delay),
            _ => None,
        };
        self.take().iter().filter_map(delay).collect()
    }
}

/// Answers from a list, then with the last of it. Clones share the list.
#[derive(Clone)]
pub(crate) struct Script<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Script<T> {
    pub(crate) fn new(answers: &[T]) -> Self {
        Self(Arc::new(Mutex::new(answers.iter().rev().cloned().collect())))
    }

    pub(crate) fn next(&self) -> T {
        let mut left = self.0.lock().unwrap();
        if left.len() > 1 { left.pop().unwrap() } else { left[0].clone() }
    }
}
