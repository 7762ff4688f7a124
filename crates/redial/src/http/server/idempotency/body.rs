//! A body can be read only once. To hash or store it, it is read here within a bound and passed on unchanged.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A body that is passed through, was read before, or comes from a store.
    pub struct Body<B>
    where
        B: http_body::Body,
    {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<B>
    where
        B: http_body::Body,
    {
        Passed { #[pin] body: B },
        Whole { whole: Whole },
        Long { start: Bytes, rest: Pin<Box<B>> },
        Broken { start: Bytes, error: Option<B::Error> },
    }
}

/// An empty body, for an outer layer that responds instead of this one.
impl<B: http_body::Body> Default for Body<B> {
    fn default() -> Self {
        Self::whole(Whole::default())
    }
}

/// A complete body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Whole {
    pub(super) data: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl Whole {
    /// HTTP/1.1 cannot send trailers after a body of known length.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        match &self.trailers {
            None => hint.set_exact(self.data.len() as u64),
            Some(_) => hint.set_lower(self.data.len() as u64),
        }
        hint
    }
}

impl From<String> for Whole {
    fn from(text: String) -> Self {
        Self { data: text.into(), trailers: None }
    }
}

/// The result of reading a body.
pub(super) enum Read<B: http_body::Body> {
    Whole(Whole),
    /// Longer than the bound, or there was no room for it.
    Long {
        start: Bytes,
        rest: Pin<Box<B>>,
    },
    /// Reading failed after `start`.
    Broken {
        start: Bytes,
        error: B::Error,
    },
}

impl<B: http_body::Body<Data = Bytes>> Read<B> {
    /// Reads to the end, or until there are more than `most` bytes or `has_room` returns false.
    pub(super) async fn all(body: B, most: usize, mut has_room: impl FnMut(usize) -> bool) -> Self {
        let mut body = Box::pin(body);
        let mut data = BytesMut::new();
        let mut trailers = None;
        if body.size_hint().lower() > most as u64 {
            return Self::Long { start: Bytes::new(), rest: body };
        }
        loop {
            match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                None => return Self::Whole(Whole { data: data.freeze(), trailers }),
                Some(Err(error)) => return Self::Broken { start: data.freeze(), error },
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(more) => data.extend_from_slice(&more),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
            if data.len() > most || !has_room(data.len()) {
                return Self::Long { start: data.freeze(), rest: body };
            }
        }
    }

    /// The body as it was before reading.
    pub(super) fn into_body(self) -> Body<B> {
        let state = match self {
            Self::Whole(whole) => State::Whole { whole },
            Self::Long { start, rest } => State::Long { start, rest },
            Self::Broken { start, error } => State::Broken { start, error: Some(error) },
        };
        Body { state }
    }
}

impl<B: http_body::Body> Body<B> {
    pub(super) fn passed(body: B) -> Self {
        Self { state: State::Passed { body } }
    }

    pub(super) fn whole(whole: Whole) -> Self {
        Self { state: State::Whole { whole } }
    }
}

impl<B: http_body::Body> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let taken = |data: &mut Bytes| {
            let data = mem::take(data);
            (!data.is_empty()).then(|| Ok(Frame::data(data)))
        };
        match self.project().state.project() {
            StateProj::Passed { body } => body.poll_frame(cx),
            StateProj::Whole { whole } => {
                Poll::Ready(taken(&mut whole.data).or_else(|| {
                    whole.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))
                }))
            }
            StateProj::Long { start, rest } => match taken(start) {
                Some(frame) => Poll::Ready(Some(frame)),
                None => Poll::Ready(ready!(rest.as_mut().poll_frame(cx))),
            },
            StateProj::Broken { start, error } => {
                Poll::Ready(taken(start).or_else(|| error.take().map(Err)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Passed { body } => body.is_end_stream(),
            State::Whole { whole } => whole.data.is_empty() && whole.trailers.is_none(),
            State::Long { start, rest } => start.is_empty() && rest.is_end_stream(),
            State::Broken { start, error } => start.is_empty() && error.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Passed { body } => body.size_hint(),
            State::Whole { whole } => whole.size_hint(),
            State::Long { start, rest } => {
                let (start, rest) = (start.len() as u64, rest.size_hint());
                let mut hint = SizeHint::new();
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper.saturating_add(start));
                }
                hint.set_lower(rest.lower().saturating_add(start));
                hint
            }
            State::Broken { .. } => SizeHint::new(),
        }
    }
}
