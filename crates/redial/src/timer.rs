//! Most attempts end before their timeout, so a timer is set when an attempt is first pending, and not before.

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use redial_core::{Deadline, Time};
use tokio::time::{Sleep, sleep_until};

use crate::clock::Tokio;

/// Tokio's own timer; `None` if there is no deadline, or one beyond what its clock can express.
#[inline(always)]
pub(crate) fn timer(at: Deadline) -> Option<Sleep> {
    at.time().and_then(Tokio::instant).map(sleep_until)
}

pub(crate) async fn sleep(until: Time) {
    within(pending::<()>(), until.into()).await;
}

/// `None` when time runs out first.
#[inline]
pub(crate) fn within<F: Future>(op: F, expires: Deadline) -> Within<F, impl Fn() -> Deadline> {
    Within::new(op, move || expires)
}

pin_project! {
    /// An attempt and its timeout. `expires` is called when the attempt is first pending, so that one that is ready
    /// at once never needs it.
    pub(crate) struct Within<F, X> {
        #[pin]
        op: F,
        expires: X,
        #[pin]
        timer: Option<Sleep>,
    }
}

impl<F: Future, X: Fn() -> Deadline> Within<F, X> {
    #[inline(always)]
    pub(crate) fn new(op: F, expires: X) -> Self {
        Self { op, expires, timer: None }
    }
}

impl<F: Future, X: Fn() -> Deadline> Future for Within<F, X> {
    type Output = Option<F::Output>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.op.poll(cx) {
            return Poll::Ready(Some(output));
        }
        if this.timer.is_none() {
            this.timer.set(timer((this.expires)()));
        }
        match this.timer.as_pin_mut() {
            Some(timer) => {
                ready!(timer.poll(cx));
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }
}
