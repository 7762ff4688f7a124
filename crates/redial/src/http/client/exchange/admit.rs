//! When attempts are sent: at once, after a wait, or when it is a parked call's turn.

use http::{Request, Response};
use http_body::Body;
use redial_core::Stop;
use tower_service::Service;

use super::super::future::Answered;
use super::super::outgoing::{Outgoing, Times};
use super::super::{BoxError, Replay};
use super::{Exchange, Received, Slot};
use crate::attempt::Attempt;
use crate::session::Session;

impl<S, B, R> Exchange<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    /// A call whose first attempt does not take the fast path.
    pub(super) fn start(
        service: S,
        outgoing: Outgoing<B>,
        times: &Times,
        request: &Request<Replay<B>>,
    ) -> Self {
        let mut session = Session::start(outgoing.retry().unkeyed(), times.now, times.latest);
        session.trace_mut().request(request.method(), request.uri(), outgoing.grpc);
        Self::new(service, outgoing, session)
    }

    /// Sends the first attempt, when it is admitted.
    pub(super) async fn first(
        &mut self,
        slot: Slot<'_, S::Future>,
        mut request: Request<Replay<B>>,
    ) -> Result<Received<R>, Answered<R>> {
        let admitted = self.session.first::<BoxError>().map_err(|error| Err(error.into()))?;
        if admitted.is_none() {
            self.give_readiness_back();
            let attempt = self.next_attempt().await?;
            self.outgoing.delayed(&mut request, attempt.left());
        }
        Ok(self.send(slot, request).await)
    }

    /// Admits the next attempt, after a wait. Until its turn, a parked call holds the kept body, which counts towards the replay
    /// memory, but no response and no readiness of the client below.
    async fn next_attempt(&mut self) -> Result<Attempt, Answered<R>> {
        loop {
            let turn = self.session.turn(&mut self.last).await;
            turn.map_err(|error| self.give_up(error, false))?;
            // The engine checks the deadline, so a timeout here is ignored.
            let _is_ready = self.ready_by(self.session.deadline()).await?;
            self.update_session();
            match self.session.next(&mut self.last) {
                Ok(Some(attempt)) => return Ok(attempt),
                Ok(None) => self.give_readiness_back(),
                Err(error) => return Err(self.give_up(error, false)),
            }
        }
    }

    /// Readiness can be a permit that other calls wait for, and their success releases a parked call.
    fn give_readiness_back(&mut self) {
        self.service = self.service.clone();
    }

    /// The request of the next attempt, when it is admitted.
    pub(super) async fn next_request(&mut self) -> Result<Request<Replay<B>>, Answered<R>> {
        let attempt = self.next_attempt().await?;
        match self.outgoing.again(attempt.number(), attempt.left()) {
            Some(request) => Ok(request),
            None => {
                let error = self.session.end(Stop::Body, &mut self.last);
                Err(self.give_up(error, false))
            }
        }
    }
}
