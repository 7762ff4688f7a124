//! The spans that an operation creates belong below the span of its attempt.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::spans::Current;

/// Starts an attempt inside its span, and keeps it there.
#[inline(always)]
pub(crate) fn inside<F>(current: Option<Current>, start: impl FnOnce() -> F) -> Inside<F> {
    let op = during(current.as_ref(), start);
    Inside::new(op, current)
}

#[inline(always)]
pub(crate) fn during<T>(current: Option<&Current>, work: impl FnOnce() -> T) -> T {
    match current {
        Some(current) => current.during(work),
        None => work(),
    }
}

pin_project! {
    /// An attempt whose span is current in every poll, if it has one.
    pub(crate) struct Inside<F> {
        #[pin]
        op: F,
        current: Option<Current>,
    }
}

impl<F> Inside<F> {
    #[inline(always)]
    pub(crate) fn new(op: F, current: Option<Current>) -> Self {
        Self { op, current }
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        during(this.current.as_ref(), || this.op.poll(cx))
    }
}
