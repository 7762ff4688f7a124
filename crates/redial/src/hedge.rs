use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redial_core::decide::Classifier;
use redial_core::schedule::Latency;
use redial_core::{Nanos, nanos};

use crate::attempt::Attempt;
use crate::clock::{Clock as _, Tokio};
use crate::error::Error;
use crate::race::{Next, Race};
use crate::retry::Retry;
use crate::run::{inside, sleep};
use crate::session::{Judged, Session, Step, judge};

/// When to send a second attempt beside a slow first one.
///
/// Clones share the latencies that they have recorded. Defaults: one hedge at a time.
#[derive(Clone, Debug)]
pub struct Hedge {
    delay: Delay,
    most: usize,
}

#[derive(Clone, Debug)]
enum Delay {
    Fixed(Nanos),
    Learned(Arc<Latency>),
}

impl Hedge {
    /// After a fixed delay.
    pub fn after(delay: Duration) -> Self {
        Self { delay: Delay::Fixed(nanos(delay)), most: 1 }
    }

    /// When the attempt has taken longer than this share of the successful ones before it: 0.95 hedges
    /// the slowest twentieth. Nothing is hedged until 32 attempts have shown what is usual. A ratio
    /// outside of 0 to 1 never hedges.
    pub fn quantile(ratio: f64) -> Self {
        Self { delay: Delay::Learned(Arc::new(Latency::new(ratio))), most: 1 }
    }

    /// Allows up to `hedges` hedges beside the oldest attempt, each after another delay.
    pub fn at_most(self, hedges: usize) -> Self {
        Self { most: hedges, ..self }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn delay(&self) -> Nanos {
        match &self.delay {
            Delay::Fixed(delay) => *delay,
            Delay::Learned(latency) => latency.quantile(),
        }
    }

    pub(crate) fn record(&self, taken: Nanos) {
        if let Delay::Learned(latency) = &self.delay {
            latency.record(taken);
        }
    }
}

impl<C> Retry<C> {
    /// Runs an operation, and runs it again beside itself when it is slow: the first success wins, the
    /// others are dropped. Hedges are attempts, paid from the same budget as retries, and are only sent
    /// when repeating is safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// use std::time::Duration;
    /// use redial::{Hedge, Policy, Retry};
    ///
    /// let retry = Retry::new(Policy::standard()).retry_if(|_: &&str| true);
    /// let hedge = Hedge::after(Duration::from_millis(50));
    /// let winner = retry
    ///     .hedged(&hedge, |attempt| async move {
    ///         if attempt.number() == 1 {
    ///             tokio::time::sleep(Duration::from_secs(5)).await;
    ///         }
    ///         Ok::<_, &str>(attempt.number())
    ///     })
    ///     .await;
    /// assert_eq!(winner, Ok(2));
    /// # }
    /// ```
    pub async fn hedged<T, E, F, Fut>(&self, hedge: &Hedge, op: F) -> Result<T, Error<C::Cause>>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        self.race(hedge, op).await.map_err(Error::adapt::<T, C>)
    }

    async fn race<T, E, F, Fut>(&self, hedge: &Hedge, op: F) -> Result<T, Error<E>>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let mut race = Race::new(Session::start(self, Tokio::now(), self.latest()));
        let mut cause = None;
        let attempt = race.session.first()?;
        race.start(inside(race.session.current(), || op(attempt)));
        loop {
            let result = match race.next(hedge).await {
                Next::Ended(result) => result,
                Next::HedgeDue => {
                    match race.session.hedge() {
                        Some(attempt) => {
                            race.start(inside(race.session.current(), || op(attempt)));
                        }
                        None => race.stop_hedging(),
                    }
                    continue;
                }
            };
            let judged = judge(self, result);
            if matches!(judged, Judged::Value(_)) {
                race.record(hedge);
            }
            match race.session.settle(judged, &mut cause) {
                Step::Return(result) => return result,
                Step::InFlight => race.stop_hedging(),
                Step::WaitUntil(until) => {
                    sleep(until).await;
                    let attempt = race.session.next(&mut cause)?;
                    race.allow_hedging();
                    race.start(inside(race.session.current(), || op(attempt)));
                }
            }
        }
    }
}
