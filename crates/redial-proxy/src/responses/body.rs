//! The body of a response on its way to the caller.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use redial::http::{Answer, BoxError};

use crate::upstream::pool::ResponseBody;

/// The body of a response to a caller.
#[derive(Default)]
pub(crate) enum Outbound {
    Streamed(Answer<ResponseBody>),
    Text(Bytes),
    /// Of the layers for servers.
    Layered(Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>),
    #[default]
    Empty,
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
            Self::Layered(body) => body.as_mut().poll_frame(cx),
            Self::Text(text) => {
                let text = mem::take(text);
                Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))))
            }
            Self::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Streamed(body) => body.is_end_stream(),
            Self::Layered(body) => body.is_end_stream(),
            Self::Text(text) => text.is_empty(),
            Self::Empty => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streamed(body) => body.size_hint(),
            Self::Layered(body) => body.size_hint(),
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Empty => SizeHint::with_exact(0),
        }
    }
}
