//! Hedges beside a slow attempt of a closure.

use std::future::Future;
use std::pin::Pin;

use redial_core::decide::Classifier;

use crate::attempt::Attempt;
use crate::clock::Tokio;
use crate::inside::inside;
use crate::race::{Next, Race, Racer};
use crate::retry::Retry;
use crate::session::{Session, Step, judge};

impl<C> Retry<C> {
    /// Continues an attempt that is still pending when a hedge beside it is due, until the call is over or has to wait.
    #[cold]
    pub(crate) async fn race<T, E, F, Fut>(
        &self,
        session: &mut Session<&Self, C, Tokio>,
        slow: Pin<&mut F>,
        mut start: impl FnMut(Attempt) -> Fut,
        cause: &mut Option<E>,
    ) -> Step<T, E>
    where
        F: Future<Output = Result<T, E>>,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let mut race = Race::new();
        race.start(session, Racer::Slow(slow));
        loop {
            match race.next(session).await {
                Next::Ended(result) => match session.settle(judge(self, result), cause) {
                    Step::InFlight => race.stop_hedging(),
                    step => return step,
                },
                Next::HedgeDue => {
                    if let Some(attempt) = race.hedge(session) {
                        let hedge = inside(session.current(), || start(attempt));
                        race.start(session, Racer::Hedge(Box::pin(hedge)));
                    }
                }
            }
        }
    }
}
