//! Calls under a policy that hedges.

use std::future::Future;

use redial_core::decide::Classifier;

use crate::attempt::Attempt;
use crate::clock::Tokio;
use crate::error::Error;
use crate::race::{Next, Race};
use crate::retry::Retry;
use crate::run::{inside, sleep};
use crate::session::{Judged, Session, Step, judge};

impl<C> Retry<C> {
    /// A call whose first attempt was admitted.
    pub(crate) async fn race<T, E, Fut>(
        &self,
        session: Session<&Self, C, Tokio>,
        first: Attempt,
        mut start: impl FnMut(Attempt) -> Fut,
    ) -> Result<T, Error<E>>
    where
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let mut race = Race::new(session);
        let mut cause = None;
        race.start(inside(race.session.current(), || start(first)));
        loop {
            let result = match race.next().await {
                Next::Ended(result) => result,
                Next::HedgeDue => {
                    if let Some(attempt) = race.hedge() {
                        race.start(inside(race.session.current(), || start(attempt)));
                    }
                    continue;
                }
            };
            let judged = judge(self, result);
            if matches!(judged, Judged::Value(_)) {
                race.record();
            }
            match race.session.settle(judged, &mut cause) {
                Step::Return(result) => return result,
                Step::InFlight => race.stop_hedging(),
                Step::WaitUntil(until) => {
                    sleep(until).await;
                    let attempt = race.session.next(&mut cause)?;
                    race.allow_hedging();
                    race.start(inside(race.session.current(), || start(attempt)));
                }
            }
        }
    }
}
