use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;
use redial_core::decide::{Class, Failure, Outcome, Reach, Typed};
use redial_core::{Deadline, Stop};

use super::EndpointRefused;
use crate::clock::Tokio;
use crate::fast::FastAttempt;
use crate::http::client::BoxError;
use crate::http::{reach, status};
use crate::session::Session;
use crate::{Retry, Stripe, thread_state};

pin_project! {
    /// The future of a request sent through an [`EndpointService`](super::EndpointService).
    pub struct EndpointFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Sent { #[pin] call: F, attempt: GuardedAttempt, grpc: bool },
        Refused { reason: Stop },
    }
}

impl<F> EndpointFuture<F> {
    pub(super) fn sent(call: F, attempt: GuardedAttempt, grpc: bool) -> Self {
        Self { state: State::Sent { call, attempt, grpc } }
    }

    #[cold]
    pub(super) fn refused(reason: Stop) -> Self {
        Self { state: State::Refused { reason } }
    }
}

impl<F, R, E> Future for EndpointFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<R>, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Refused { reason } => Poll::Ready(Err(EndpointRefused::new(*reason).into())),
            StateProj::Sent { call, attempt, grpc } => match ready!(call.poll(cx)) {
                Ok(response) => {
                    let (status, headers) = (response.status(), response.headers());
                    attempt.end(&status::read(status, headers, *grpc, Reach::Unknown));
                    Poll::Ready(Ok(response))
                }
                Err(error) => {
                    let error = error.into();
                    attempt.end(&reach::failure(&*error).into());
                    Poll::Ready(Err(error))
                }
            },
        }
    }
}

/// An attempt that the guards of its endpoint have admitted. Dropped before its end, it timed out if it is being cut
/// off, and else says nothing about the endpoint.
pub(super) struct GuardedAttempt(Stage);

#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for every attempt")]
enum Stage {
    Fast { attempt: FastAttempt<Arc<Stripe>, Tokio>, retry: Arc<Retry> },
    Session(Session<Arc<Retry>, Typed, Tokio>),
    Over,
}

impl GuardedAttempt {
    #[inline(always)]
    pub(super) fn admit(retry: &Arc<Retry>) -> Result<Self, Stop> {
        let now = retry.now::<Tokio>();
        if let Some(attempt) = FastAttempt::admit(retry, now, Deadline::NONE) {
            let (attempt, retry) = (attempt.into_owned(), Arc::clone(retry));
            return Ok(Self(Stage::Fast { attempt, retry }));
        }
        let mut session = Session::start(Arc::clone(retry), now, Deadline::NONE);
        session.admit_once()?;
        Ok(Self(Stage::Session(session)))
    }

    #[inline(always)]
    fn end(&mut self, outcome: &Outcome) {
        match mem::replace(&mut self.0, Stage::Over) {
            Stage::Fast { mut attempt, retry } if *outcome == Outcome::Success => {
                attempt.succeed(&retry);
            }
            Stage::Fast { mut attempt, retry } => attempt.hand_over(retry).settle_once(outcome),
            Stage::Session(mut session) => session.settle_once(outcome),
            Stage::Over => {}
        }
    }
}

impl Drop for GuardedAttempt {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.0, Stage::Over) && thread_state::is_cutting_off() {
            self.end(&Failure::new(Class::Timeout).into());
        }
    }
}
