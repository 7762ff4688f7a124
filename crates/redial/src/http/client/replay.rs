//! A body that streams can be read once, and a retry needs it twice.
//!
//! Chunks are kept as they pass, by reference count and not by copy, up to a bound. Nothing waits for the
//! whole body: the first byte leaves as if nobody kept it. A body beyond the bound goes on streaming and is
//! no longer kept; then the request cannot be repeated, which is all that happens to it.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::BoxError;

/// The body of a request as the service below sees it.
#[derive(Debug)]
pub struct Replay<B>(Source<B>);

#[derive(Debug)]
enum Source<B> {
    /// All there is, in one chunk; an empty one when there is no more.
    Whole(Bytes),
    /// It goes by, and nothing is kept.
    Once(B),
    /// It failed before it began.
    Failed(Option<BoxError>),
    /// It is kept as it goes by.
    Taped { tape: Arc<Mutex<Tape<B>>>, turn: u32, next: usize },
}

/// What is kept for another attempt.
#[derive(Debug)]
pub(super) enum Kept<B> {
    /// All there is, in one chunk.
    Whole(Bytes),
    Taped(Arc<Mutex<Tape<B>>>),
}

#[derive(Debug)]
pub(super) struct Tape<B> {
    chunks: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    /// Bytes that may still be kept.
    room: usize,
    /// What has not been read yet; `None` at the end.
    rest: Option<B>,
    /// Whether something went by that was not kept.
    lost: bool,
    /// Which attempt reads. An earlier one that is still being sent gets an error: an end would tell the
    /// server that half a body is all of it.
    turn: u32,
    reader: Option<Waker>,
}

impl<B> Replay<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    /// A body that is sent once.
    pub(super) fn once(body: B) -> Self {
        Self(Source::Once(body))
    }

    /// A body that is kept up to `most` bytes. What is at hand in one chunk needs no tape.
    #[inline]
    pub(super) fn keep(mut body: B, most: usize) -> (Self, Option<Kept<B>>) {
        if body.is_end_stream() {
            return Self::whole(Bytes::new());
        }
        let size = body.size_hint();
        if size.lower() > most as u64 {
            return (Self::once(body), None);
        }
        if size.exact().is_none() {
            return Self::taped(Tape::new(most), body);
        }
        let mut nobody = Context::from_waker(Waker::noop());
        match Pin::new(&mut body).poll_frame(&mut nobody) {
            Poll::Ready(None) => Self::whole(Bytes::new()),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data().map(whole_chunk) {
                Ok(chunk) if body.is_end_stream() => Self::whole(chunk),
                Ok(chunk) => Self::taped(Tape::new(most).with(chunk), body),
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    Self::taped(Tape { trailers, ..Tape::new(most) }, body)
                }
            },
            Poll::Ready(Some(Err(error))) => (Self(Source::Failed(Some(error.into()))), None),
            Poll::Pending => Self::taped(Tape::new(most), body),
        }
    }

    #[cold]
    fn taped(mut tape: Tape<B>, rest: B) -> (Self, Option<Kept<B>>) {
        tape.rest = Some(rest);
        let tape = Arc::new(Mutex::new(tape));
        let source = Source::Taped { tape: Arc::clone(&tape), turn: 0, next: 0 };
        (Self(source), Some(Kept::Taped(tape)))
    }

    fn whole(chunk: Bytes) -> (Self, Option<Kept<B>>) {
        (Self(Source::Whole(chunk.clone())), Some(Kept::Whole(chunk)))
    }
}

#[cfg(feature = "reqwest")]
impl<B> Replay<B> {
    /// The whole body, if it is at hand and has not been read.
    pub(crate) fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Source::Whole(chunk) => Ok(chunk),
            source => Err(Self(source)),
        }
    }
}

impl<B> Kept<B> {
    /// Takes the body away from an earlier attempt, which sends no more of it.
    pub(super) fn rewind(&self) {
        if let Self::Taped(tape) = self {
            let mut tape = lock(tape);
            tape.turn += 1;
            if let Some(reader) = tape.reader.take() {
                reader.wake();
            }
        }
    }

    /// The same body from its beginning, after [`rewind`](Self::rewind).
    pub(super) fn again(&self) -> Replay<B> {
        Replay(match self {
            Self::Whole(chunk) => Source::Whole(chunk.clone()),
            Self::Taped(tape) => {
                let turn = lock(tape).turn;
                Source::Taped { tape: Arc::clone(tape), turn, next: 0 }
            }
        })
    }

    /// Whether something went by that was not kept.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Taped(tape) => lock(tape).lost,
        }
    }

    /// Whether all of it has been read, so that no part of the request is still on its way.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Taped(tape) => lock(tape).rest.is_none(),
        }
    }
}

impl<B> Tape<B> {
    fn new(room: usize) -> Self {
        let (chunks, trailers, rest, reader) = (Vec::new(), None, None, None);
        Self { chunks, trailers, room, rest, lost: false, turn: 0, reader }
    }

    /// With a chunk that has been read and not yet been sent.
    fn with(mut self, chunk: Bytes) -> Self {
        self.lost = chunk.len() > self.room;
        self.room = self.room.saturating_sub(chunk.len());
        self.chunks.push(chunk);
        self
    }

    fn keep(&mut self, chunk: &Bytes) {
        match self.room.checked_sub(chunk.len()) {
            Some(room) if !self.lost => {
                self.room = room;
                self.chunks.push(chunk.clone());
            }
            _ => {
                self.lost = true;
                self.chunks = Vec::new();
            }
        }
    }
}

impl<B> Tape<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    fn poll(
        &mut self,
        next: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(chunk) = self.chunks.get(*next) {
            *next += 1;
            return Poll::Ready(Some(Ok(Frame::data(chunk.clone()))));
        }
        let Some(rest) = &mut self.rest else {
            let trailers = self.trailers.clone().filter(|_| *next == self.chunks.len());
            *next = self.chunks.len() + 1;
            return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
        };
        if !self.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            self.reader = Some(cx.waker().clone());
        }
        match ready!(Pin::new(rest).poll_frame(cx)) {
            None => {
                self.rest = None;
                self.poll(next, cx)
            }
            Some(Err(error)) => {
                self.lost = true;
                Poll::Ready(Some(Err(error.into())))
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let chunk = whole_chunk(data);
                    self.keep(&chunk);
                    *next = self.chunks.len();
                    Poll::Ready(Some(Ok(Frame::data(chunk))))
                }
                Err(frame) => {
                    self.trailers = frame.into_trailers().ok();
                    self.rest = None;
                    self.poll(next, cx)
                }
            },
        }
    }
}

impl<B> Body for Replay<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Source::Whole(chunk) => {
                let chunk = Some(mem::take(chunk)).filter(|chunk| !chunk.is_empty());
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
            Source::Once(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                let whole = |frame: Frame<B::Data>| frame.map_data(whole_chunk);
                Poll::Ready(frame.map(|frame| frame.map(whole).map_err(Into::into)))
            }
            Source::Failed(error) => Poll::Ready(error.take().map(Err)),
            Source::Taped { tape, turn, next } => {
                let mut tape = lock(tape);
                if tape.turn != *turn {
                    return Poll::Ready(Some(Err("the request is being sent again".into())));
                }
                tape.poll(next, cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Whole(chunk) => chunk.is_empty(),
            Source::Once(body) => body.is_end_stream(),
            Source::Failed(error) => error.is_none(),
            Source::Taped { tape, turn, next } => {
                let tape = lock(tape);
                let read = *next + usize::from(tape.trailers.is_none()) > tape.chunks.len();
                tape.turn == *turn && tape.rest.is_none() && read
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(chunk) => SizeHint::with_exact(chunk.len() as u64),
            Source::Once(body) => body.size_hint(),
            Source::Failed(_) => SizeHint::new(),
            Source::Taped { tape, next, .. } => {
                let tape = lock(tape);
                let kept = tape.chunks.iter().skip(*next).map(|chunk| chunk.len() as u64).sum();
                let rest = tape.rest.as_ref().map_or(SizeHint::with_exact(0), B::size_hint);
                let mut size = SizeHint::new();
                size.set_lower(rest.lower().saturating_add(kept));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(kept)) {
                    size.set_upper(upper);
                }
                size
            }
        }
    }
}

/// Without a copy when it is `Bytes`.
fn whole_chunk(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

fn lock<B>(tape: &Mutex<Tape<B>>) -> MutexGuard<'_, Tape<B>> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}
