use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Response, header};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response, passed through unchanged. It is empty when the response was dropped for another
    /// attempt that was then not made: no response is held during a wait.
    #[derive(Debug)]
    pub struct Answer<R: Body> {
        // A frame that was read before the response was returned.
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

    /// Drops what holds a connection; trailers that were read already hold none.
    pub(super) fn drop_rest(&mut self) {
        self.rest = None;
        self.first = self.first.take().filter(|frame| frame.is_trailers());
    }

    /// The body itself, if it is still there and nothing of it was read.
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

/// Drops the body, which holds a connection, and the headers that describe it.
pub(super) fn drop_body<R: Body>(response: &mut Response<Answer<R>>) {
    response.body_mut().drop_rest();
    let headers = response.headers_mut();
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::TRAILER,
    ] {
        headers.remove(name);
    }
}
