//! Attempts beside one that is slow: the first to succeed wins, the others are cancelled.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tokio::time::Sleep;
use tower_service::Service;

use super::future::{Answered, ResponseFuture, State};
use super::{BoxError, Replay};
use crate::clock::{Clock as _, Tokio};
use crate::hedge::Hedge;
use crate::run::{Inside, inside, timer};

/// The attempts of a request beside the one that its future holds itself.
pub(super) struct Race<F> {
    /// Goes off when it is time for another one; `None` when there will be none.
    alarm: Alarm,
    rivals: Vec<Rival<F>>,
    /// The number of the attempt that the future holds, once it has a rival.
    main: Option<u32>,
}

type Alarm = Option<Pin<Box<Sleep>>>;

struct Rival<F> {
    number: u32,
    call: Pin<Box<Inside<F>>>,
    timer: Alarm,
}

impl<F> Race<F> {
    pub(super) fn new(hedge: &Hedge) -> Self {
        Self { alarm: after(hedge), rivals: Vec::new(), main: None }
    }

    /// Whether nobody else runs.
    pub(super) fn is_over(&self) -> bool {
        self.rivals.is_empty() && self.main.is_none()
    }

    /// After a failure nothing is hedged: that is answered with a wait.
    pub(super) fn stop_hedging(&mut self) {
        self.alarm = None;
    }
}

impl<F: Future> Race<F> {
    /// The number of a rival that has ended, and what it brought; `None` for one that was cut off.
    fn poll_rivals(&mut self, cx: &mut Context<'_>) -> Option<(u32, Option<F::Output>)> {
        for place in 0..self.rivals.len() {
            let rival = &mut self.rivals[place];
            let result = match rival.call.as_mut().poll(cx) {
                Poll::Ready(result) => Some(result),
                Poll::Pending if is_over(&mut rival.timer, cx) => None,
                Poll::Pending => continue,
            };
            return Some((self.rivals.remove(place).number, result));
        }
        None
    }
}

fn after(hedge: &Hedge) -> Alarm {
    if hedge.beside() == 0 {
        return None;
    }
    timer(Tokio::now().saturating_add(hedge.delay())).map(Box::pin)
}

fn is_over(alarm: &mut Alarm, cx: &mut Context<'_>) -> bool {
    alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_ready())
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    /// Whether a rival has ended or was sent; what follows from it, if that ends the call.
    #[cold]
    pub(super) fn poll_race(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Answered<R>>> {
        let this = self.as_mut().project();
        let Some(hedge) = &this.options.hedge else { return Poll::Pending };
        let race = this.race.get_or_insert_with(|| Box::new(Race::new(hedge)));
        if let Some((number, result)) = race.poll_rivals(cx) {
            if let Some(session) = this.lead.session(this.options) {
                session.recall(number);
            }
            return Poll::Ready(match result {
                Some(Ok(response)) => self.responded(response),
                Some(Err(error)) => self.failed(error.into()),
                None => self.cut_off(),
            });
        }
        if is_over(&mut race.alarm, cx) {
            race.alarm = None;
            self.send_rival(cx);
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// Sends another attempt, if the client below is ready and the engine allows it. A body that streams is
    /// not read by two.
    fn send_rival(mut self: Pin<&mut Self>, cx: &mut Context<'_>) {
        let this = self.as_mut().project();
        let (Some(hedge), Some(race)) = (&this.options.hedge, this.race) else { return };
        let Some(kept) = this.kept.as_ref().filter(|kept| kept.is_whole()) else { return };
        let Some(session) = this.lead.session(this.options) else { return };
        session.barred = kept.barred(session.retry());
        session.retry_mut().know(kept.safety());
        if !session.may_hedge() {
            return;
        }
        // Readiness that is not used is given back with its clone.
        let mut service = this.service.clone();
        if !matches!(service.poll_ready(cx), Poll::Ready(Ok(()))) {
            return;
        }
        if race.main.is_none() {
            race.main = session.set_aside();
        }
        let Some(attempt) = session.hedge() else { return };
        session.set_aside();
        let mut request = kept.again(this.options, attempt.number(), attempt.left(), *this.grpc);
        let current = session.current();
        if let Some(current) = &current {
            current.write(request.headers_mut());
        }
        race.rivals.push(Rival {
            number: attempt.number(),
            call: Box::pin(inside(current, || service.call(request))),
            timer: timer(attempt.expires).map(Box::pin),
        });
        if race.rivals.len() < hedge.beside() {
            race.alarm = after(hedge);
        }
    }

    /// The attempt that the future holds has ended; its rivals go on.
    pub(super) fn leave_race(mut self: Pin<&mut Self>) {
        let mut this = self.as_mut().project();
        let Some(race) = this.race else { return };
        this.state.set(State::Racing);
        if let (Some(number), Some(session)) = (race.main.take(), this.lead.session(this.options)) {
            session.recall(number);
        }
    }
}
