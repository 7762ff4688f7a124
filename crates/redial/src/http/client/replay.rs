//! A request can only be sent again if its body still exists. The replay buffer keeps the chunks of a body by
//! reference as they are sent, up to a limit. Nothing waits for the whole body: the first byte is sent as soon
//! as it is there. A body beyond the limit is streamed and not kept: its request can be sent again only as long as nothing
//! of the body was read, as when the connection was refused.

use std::mem::{self, size_of};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::BoxError;
use super::replay_memory::{Held, ReplayMemory};

/// The body of a request as the service below sees it.
#[derive(Debug)]
pub struct Replay<B>(Source<B>);

#[derive(Debug)]
enum Source<B> {
    /// The whole body in one chunk; empty when it was sent.
    Whole(Bytes),
    /// Streamed without being kept.
    Once { body: B, upload: Upload },
    /// The body failed before it was sent.
    Failed(Option<BoxError>),
    /// Kept while it is sent.
    Buffered { buffer: Arc<Mutex<ReplayBuffer<B>>>, turn: u32, next: usize },
}

/// Whether a body that is streamed waits for its sender: the caller, and not the server, is slow then.
#[derive(Clone, Debug, Default)]
pub(super) struct Upload(Option<Arc<AtomicBool>>);

impl Upload {
    /// That of a body; without one there is nothing to wait for.
    #[inline]
    pub(super) fn of<B: Body>(body: &B) -> Self {
        Self((!body.is_end_stream()).then(Arc::default))
    }

    fn set_waiting(&self, is_waiting: bool) {
        if let Some(upload) = &self.0 {
            upload.store(is_waiting, Ordering::Relaxed);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.0.as_ref().is_some_and(|upload| upload.load(Ordering::Relaxed))
    }
}

/// What is kept for another attempt.
#[derive(Debug)]
pub(super) enum Kept<B> {
    /// The whole body in one chunk, and the memory that it takes.
    Whole {
        chunk: Bytes,
        _held: Held,
    },
    Buffered(Keeper<B>),
}

/// The call's own hold on a buffer. Bodies that are being sent have others, and may outlive the call.
#[derive(Debug)]
pub(super) struct Keeper<B>(Arc<Mutex<ReplayBuffer<B>>>);

impl<B> Drop for Keeper<B> {
    fn drop(&mut self) {
        lock(&self.0).finish();
    }
}

#[derive(Debug)]
pub(super) struct ReplayBuffer<B> {
    chunks: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    /// Bytes that may still be kept.
    room: usize,
    /// What is kept, in bytes of memory.
    kept: usize,
    /// At least that much of the process's replay memory.
    held: Held,
    /// The part that has not been read yet; `None` at the end.
    rest: Option<B>,
    /// Whether the reader waits for a part of it.
    is_waiting: bool,
    /// Whether a chunk was sent that was not kept. Nothing more is kept then.
    lost: bool,
    /// The attempt that reads. An earlier one that is still being sent gets an error: an end of the body would
    /// make the server take half of it for the whole.
    turn: u32,
    /// That attempt, once it has read all chunks and waits for the rest.
    reader: Option<Waker>,
}

impl<B> Replay<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    /// A body that is sent once.
    pub(super) fn once(body: B, upload: Upload) -> Self {
        Self(Source::Once { body, upload })
    }

    /// A body that is kept up to `most` bytes, if `memory` has room for it. A body in one chunk needs no buffer.
    #[inline]
    pub(super) fn keep(
        mut body: B,
        most: usize,
        memory: Option<&ReplayMemory>,
    ) -> (Self, Option<Kept<B>>) {
        if body.is_end_stream() {
            return Self::whole(Bytes::new(), Held::default());
        }
        let (size, mut held) = (body.size_hint(), ReplayMemory::held(memory));
        if size.lower() > most as u64 || !held.grow_to(size.lower() as usize) {
            return Self::buffered(ReplayBuffer::new(0, Held::default()), body);
        }
        if size.exact().is_none() {
            return Self::buffered(ReplayBuffer::new(most, held), body);
        }
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Ready(None) => Self::whole(Bytes::new(), Held::default()),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data().map(whole_chunk) {
                Ok(chunk) if body.is_end_stream() => Self::whole(chunk, held),
                Ok(chunk) => Self::buffered(ReplayBuffer::new(most, held).with(chunk), body),
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    Self::buffered(ReplayBuffer { trailers, ..ReplayBuffer::new(most, held) }, body)
                }
            },
            Poll::Ready(Some(Err(error))) => (Self(Source::Failed(Some(error.into()))), None),
            Poll::Pending => Self::buffered(ReplayBuffer::new(most, held), body),
        }
    }

    #[cold]
    fn buffered(mut buffer: ReplayBuffer<B>, rest: B) -> (Self, Option<Kept<B>>) {
        buffer.rest = Some(rest);
        let buffer = Arc::new(Mutex::new(buffer));
        let source = Source::Buffered { buffer: Arc::clone(&buffer), turn: 0, next: 0 };
        (Self(source), Some(Kept::Buffered(Keeper(buffer))))
    }

    fn whole(chunk: Bytes, held: Held) -> (Self, Option<Kept<B>>) {
        (Self(Source::Whole(chunk.clone())), Some(Kept::Whole { chunk, _held: held }))
    }
}

#[cfg(feature = "reqwest")]
impl<B> Replay<B> {
    /// The whole body, if it is in one chunk and has not been read.
    pub(crate) fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Source::Whole(chunk) => Ok(chunk),
            source => Err(Self(source)),
        }
    }
}

impl<B> Kept<B> {
    /// Stops an earlier attempt from sending more of the body.
    pub(super) fn rewind(&self) {
        if let Self::Buffered(Keeper(buffer)) = self {
            let mut buffer = lock(buffer);
            buffer.turn += 1;
            if let Some(reader) = buffer.reader.take() {
                reader.wake();
            }
        }
    }

    /// The same body from its beginning, after [`rewind`](Self::rewind).
    pub(super) fn again(&self) -> Replay<B> {
        Replay(match self {
            Self::Whole { chunk, .. } => Source::Whole(chunk.clone()),
            Self::Buffered(Keeper(buffer)) => {
                let turn = lock(buffer).turn;
                Source::Buffered { buffer: Arc::clone(buffer), turn, next: 0 }
            }
        })
    }

    /// Whether a chunk was sent that was not kept.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Whole { .. } => false,
            Self::Buffered(Keeper(buffer)) => lock(buffer).lost,
        }
    }

    /// Whether the attempt waits for a part of the body that the caller has not sent yet.
    pub(super) fn is_waiting(&self) -> bool {
        match self {
            Self::Whole { .. } => false,
            Self::Buffered(Keeper(buffer)) => lock(buffer).is_waiting,
        }
    }

    /// Whether the body has been read completely.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Whole { .. } => true,
            Self::Buffered(Keeper(buffer)) => lock(buffer).rest.is_none(),
        }
    }
}

impl<B> ReplayBuffer<B> {
    fn new(room: usize, held: Held) -> Self {
        let (chunks, trailers, rest, reader) = (Vec::new(), None, None, None);
        let (is_waiting, lost) = (false, false);
        Self { chunks, trailers, room, kept: 0, held, rest, is_waiting, lost, turn: 0, reader }
    }

    /// Adds a chunk that has been read and not yet been sent.
    fn with(mut self, chunk: Bytes) -> Self {
        self.lost = !self.has_room(chunk.len());
        self.chunks.push(chunk);
        self
    }

    fn keep(&mut self, chunk: &Bytes) {
        if chunk.is_empty() {
            return;
        }
        if !self.lost && self.has_room(chunk.len()) {
            self.chunks.push(chunk.clone());
        } else {
            self.forget();
        }
    }

    /// Takes the room for a chunk. Its place in the list counts too: a body of tiny chunks takes more memory than its length.
    fn has_room(&mut self, bytes: usize) -> bool {
        let Some(room) = self.room.checked_sub(bytes) else { return false };
        self.room = room;
        self.kept += bytes + size_of::<Bytes>();
        self.held.grow_to(self.kept)
    }

    /// Keeps nothing any more. The reader has read all chunks.
    fn forget(&mut self) {
        self.lost = true;
        self.chunks = Vec::new();
        self.held = Held::default();
    }

    /// The call is over, so nothing is kept for another attempt. An attempt that still reads chunks of the one before it
    /// needs them until it comes to the rest.
    fn finish(&mut self) {
        self.lost = true;
        if self.rest.is_some() && self.reader.is_some() {
            self.forget();
        }
    }
}

impl<B> ReplayBuffer<B>
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
        *next = self.chunks.len();
        if !self.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            self.reader = Some(cx.waker().clone());
        }
        let frame = Pin::new(rest).poll_frame(cx);
        self.is_waiting = frame.is_pending();
        match ready!(frame) {
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
            Source::Once { body, upload } => {
                let frame = Pin::new(body).poll_frame(cx);
                upload.set_waiting(frame.is_pending());
                let frame = ready!(frame);
                let whole = |frame: Frame<B::Data>| frame.map_data(whole_chunk);
                Poll::Ready(frame.map(|frame| frame.map(whole).map_err(Into::into)))
            }
            Source::Failed(error) => Poll::Ready(error.take().map(Err)),
            Source::Buffered { buffer, turn, next } => {
                let mut buffer = lock(buffer);
                if buffer.turn != *turn {
                    return Poll::Ready(Some(Err("the request is being sent again".into())));
                }
                buffer.poll(next, cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Whole(chunk) => chunk.is_empty(),
            Source::Once { body, .. } => body.is_end_stream(),
            Source::Failed(error) => error.is_none(),
            Source::Buffered { buffer, turn, next } => {
                let buffer = lock(buffer);
                let read = *next + usize::from(buffer.trailers.is_none()) > buffer.chunks.len();
                buffer.turn == *turn && buffer.rest.is_none() && read
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(chunk) => SizeHint::with_exact(chunk.len() as u64),
            Source::Once { body, .. } => body.size_hint(),
            Source::Failed(_) => SizeHint::new(),
            Source::Buffered { buffer, next, .. } => {
                let buffer = lock(buffer);
                let kept = buffer.chunks.iter().skip(*next).map(|chunk| chunk.len() as u64).sum();
                let rest = buffer.rest.as_ref().map_or(SizeHint::with_exact(0), B::size_hint);
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

fn lock<B>(buffer: &Mutex<ReplayBuffer<B>>) -> MutexGuard<'_, ReplayBuffer<B>> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}
