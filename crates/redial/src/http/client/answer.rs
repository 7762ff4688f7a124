use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response, passed through as it comes. It is empty when the response was given up for
    /// another attempt that was then not made: nothing is held during a wait.
    #[derive(Debug)]
    pub struct Answer<R: Body> {
        // A frame that was looked at before the response was handed on.
        first: Option<Box<Frame<R::Data>>>,
        #[pin]
        rest: Option<R>,
    }
}

impl<R: Body> Answer<R> {
    pub(super) fn new(rest: R) -> Self {
        Self { first: None, rest: Some(rest) }
    }

    pub(super) fn with_first(self, frame: Frame<R::Data>) -> Self {
        Self { first: Some(Box::new(frame)), ..self }
    }

    /// Drops what holds a connection; trailers that were looked at hold none.
    pub(super) fn let_go(&mut self) {
        self.rest = None;
        self.first = self.first.take().filter(|frame| frame.is_trailers());
    }

    /// The body itself, if it is still there and nothing of it was looked at.
    ///
    /// # Errors
    ///
    /// Otherwise this body again.
    pub fn into_inner(self) -> Result<R, Self> {
        match self {
            Self { first: None, rest: Some(rest) } => Ok(rest),
            other => Err(other),
        }
    }
}

impl<R: Body> Body for Answer<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let this = self.project();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(*first)));
        }
        match this.rest.as_pin_mut() {
            Some(rest) => rest.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(R::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.first, &self.rest) {
            (None, Some(rest)) => rest.size_hint(),
            (None, None) => SizeHint::with_exact(0),
            (Some(_), _) => SizeHint::new(),
        }
    }
}
