use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redial_core::decide::Classifier;
use redial_core::schedule::Latency;
use redial_core::{NEVER, Nanos, Permit, nanos};

use crate::attempt::Attempt;
use crate::clock::{Clock, Tokio};
use crate::error::Error;
use crate::retry::Retry;
use crate::run::{inside, sleep, within};
use crate::session::{Brought, Session, Step, judge};

/// When to send a second attempt beside a slow first one.
///
/// Clones share what they have learned about latency. Defaults: one hedge at a time.
#[derive(Clone, Debug)]
pub struct Hedge {
    delay: Delay,
    beside: usize,
}

#[derive(Clone, Debug)]
enum Delay {
    Fixed(Nanos),
    Learned(Arc<Latency>),
}

impl Hedge {
    /// After a fixed delay.
    pub fn after(delay: Duration) -> Self {
        Self { delay: Delay::Fixed(nanos(delay)), beside: 1 }
    }

    /// When the attempt has taken longer than this share of the successful ones before it: 0.95 hedges
    /// the slowest twentieth. Nothing is hedged until 32 attempts have shown what is usual. A ratio
    /// outside of 0 to 1 never hedges.
    pub fn quantile(ratio: f64) -> Self {
        Self { delay: Delay::Learned(Arc::new(Latency::new(ratio))), beside: 1 }
    }

    /// Up to so many hedges beside the oldest attempt, each after another delay.
    pub fn at_most(self, hedges: usize) -> Self {
        Self { beside: hedges, ..self }
    }

    #[cfg(feature = "http")]
    pub(crate) fn beside(&self) -> usize {
        self.beside
    }

    pub(crate) fn delay(&self) -> Nanos {
        match &self.delay {
            Delay::Fixed(delay) => *delay,
            Delay::Learned(latency) => latency.quantile(),
        }
    }

    pub(crate) fn learn(&self, taken: Nanos) {
        if let Delay::Learned(latency) = &self.delay {
            latency.record(taken);
        }
    }
}

impl<C> Retry<C> {
    /// Runs an operation, and runs it again beside itself when it is slow: the first success wins, the
    /// loser is dropped. Hedges are attempts, paid from the same budget as retries, and are only sent
    /// when repeating is safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// use std::time::Duration;
    /// use redial::{Hedge, Policy, Retry};
    ///
    /// let retry = Retry::new(Policy::standard()).retry_if(|_: &()| true);
    /// let hedge = Hedge::after(Duration::from_millis(50));
    /// let winner = retry
    ///     .hedged(&hedge, |attempt| async move {
    ///         if attempt.number() == 1 {
    ///             tokio::time::sleep(Duration::from_secs(5)).await;
    ///         }
    ///         Ok(attempt.number())
    ///     })
    ///     .await;
    /// assert_eq!(winner, Ok(2));
    /// # }
    /// ```
    pub async fn hedged<T, E, F, Fut>(&self, hedge: &Hedge, op: F) -> Result<T, Error<E>>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let mut session = Session::start(self, Tokio::now());
        let (attempt, mut cause) = (session.first()?, None);
        let mut race = Race { session, runners: Vec::new(), hedging: true };
        race.start(inside(race.session.current(), || op(attempt)));
        loop {
            let Some(result) = race.next(hedge).await else {
                match race.session.hedge() {
                    Some(attempt) => {
                        race.start(inside(race.session.current(), || op(attempt)));
                    }
                    None => race.hedging = false,
                }
                continue;
            };
            let brought = judge(self, result);
            if matches!(brought, Brought::Value(_)) {
                race.learn(hedge);
            }
            match race.session.settle(brought, &mut cause) {
                Step::Return(result) => return result,
                Step::InFlight => race.hedging = false,
                Step::WaitUntil(until) => {
                    sleep(until).await;
                    let attempt = race.session.next(&mut cause)?;
                    race.start(inside(race.session.current(), || op(attempt)));
                }
            }
        }
    }
}

/// The attempts of one call that are on their way, oldest first.
struct Race<'a, C, Fut> {
    session: Session<&'a Retry<C>, C, Tokio>,
    runners: Vec<(Permit, Pin<Box<Fut>>)>,
    /// Whether a hedge may still be asked for. Not after a refusal, so that a dry budget is asked once,
    /// and not after a failure: that is answered with a wait. The next race hedges again.
    hedging: bool,
}

impl<C, Fut: Future> Race<'_, C, Fut> {
    fn start(&mut self, op: Fut) {
        self.hedging |= self.runners.is_empty();
        if let Some(permit) = self.session.permit.take() {
            self.runners.push((permit, Box::pin(op)));
        }
    }

    /// The next attempt to end, with `None` as its result if it was cut off; `None` when it is time for
    /// a hedge. The session gets the permit back.
    async fn next(&mut self, hedge: &Hedge) -> Option<Option<Fut::Output>> {
        let hedge_at = self.hedge_at(hedge);
        let expires = self.runners.iter().map(|(permit, _)| permit.expires).min().unwrap_or(NEVER);
        let landed = within(poll_fn(|cx| self.poll_runners(cx)), hedge_at.min(expires)).await;
        let (place, output) = match landed {
            Some((place, output)) => (place, Some(output)),
            None if hedge_at < expires => return None,
            None => (self.runners.iter().position(|(permit, _)| permit.expires == expires)?, None),
        };
        self.session.permit = Some(self.runners.remove(place).0);
        Some(output)
    }

    /// How long the winner's race took. When a hedge won, its own time says nothing of the slow attempt that
    /// it was sent beside.
    fn learn(&self, hedge: &Hedge) {
        let runners = self.runners.iter().map(|(permit, _)| permit);
        if let Some(oldest) = runners.chain(&self.session.permit).map(|permit| permit.started).min()
        {
            hedge.learn(Tokio::now().saturating_sub(oldest));
        }
    }

    fn poll_runners(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Fut::Output)> {
        for (place, (_, op)) in self.runners.iter_mut().enumerate() {
            if let Poll::Ready(output) = op.as_mut().poll(cx) {
                return Poll::Ready((place, output));
            }
        }
        Poll::Pending
    }

    fn hedge_at(&self, hedge: &Hedge) -> Nanos {
        match self.runners.last() {
            Some((newest, _)) if self.hedging && self.runners.len() <= hedge.beside => {
                newest.started.saturating_add(hedge.delay())
            }
            _ => NEVER,
        }
    }
}

impl<C, Fut> Drop for Race<'_, C, Fut> {
    fn drop(&mut self) {
        for (permit, _) in self.runners.drain(..) {
            self.session.abandon(permit);
        }
    }
}
