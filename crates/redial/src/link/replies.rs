//! The library reads a reply into memory, however long it is. A broken or hostile server could fill the memory with one
//! reply. So replies are measured as they arrive, and a connection is closed before a reply exceeds the limit.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Our replies have about a dozen values, and each takes more memory than bytes on the wire.
const MOST_VALUES: usize = 1024;

/// A length is at most this many characters on the wire.
const LENGTH_CHARS: usize = 32;

/// The most bytes of a reply. Clones share the limit.
#[derive(Clone)]
pub(crate) struct ReplyLimit(Arc<AtomicUsize>);

impl ReplyLimit {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    #[cfg(feature = "redis")]
    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reply exceeds the limit.
#[derive(Debug)]
pub(crate) struct TooLong {
    what: &'static str,
    limit: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit } = self;
        write!(f, "Redis sent a reply of more than {limit} {what}, which is the limit")
    }
}

impl std::error::Error for TooLong {}

/// A connection whose replies are measured.
pub(super) struct Measured<S> {
    stream: S,
    replies: Replies,
}

impl<S> Measured<S> {
    pub(super) fn new(stream: S, limit: ReplyLimit) -> Self {
        let replies = Replies { limit, bytes: 0, values: 1, part: Part::Kind };
        Self { stream, replies }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Measured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let passed = self.replies.pass(&buf.filled()[before..]);
        if passed.is_err() {
            buf.set_filled(before);
        }
        Poll::Ready(passed.map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Measured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Parses replies of Redis (RESP 2 and 3) far enough to find their ends. Invalid data is left to the library, which
/// rejects it at the first byte.
struct Replies {
    limit: ReplyLimit,
    /// Bytes of the current reply so far.
    bytes: usize,
    /// Values of the current reply that have not ended, including nested ones.
    values: usize,
    part: Part,
}

enum Part {
    /// The type byte of the next value.
    Kind,
    /// A value of one line.
    Line { after_return: bool },
    /// A line with the length of what follows.
    Length { kind: u8, line: [u8; LENGTH_CHARS], filled: usize },
    /// Bytes to skip.
    Bytes(usize),
}

impl Replies {
    fn pass(&mut self, mut data: &[u8]) -> Result<(), TooLong> {
        while let Some(first) = data.first() {
            let taken = match &mut self.part {
                Part::Bytes(left) => {
                    let taken = data.len().min(*left);
                    *left -= taken;
                    taken
                }
                _ => 1,
            };
            data = &data[taken..];
            self.bytes = self.bytes.saturating_add(taken);
            self.check_bytes(0)?;
            self.step(*first)?;
        }
        Ok(())
    }

    /// Fails if this many more bytes would exceed the limit.
    fn check_bytes(&self, more: usize) -> Result<(), TooLong> {
        let limit = self.limit.get();
        if self.bytes.saturating_add(more) > limit {
            return Err(TooLong { what: "bytes", limit });
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), TooLong> {
        match &mut self.part {
            Part::Kind => {
                self.part = match byte {
                    b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                        Part::Length { kind: byte, line: [0; LENGTH_CHARS], filled: 0 }
                    }
                    _ => Part::Line { after_return: false },
                };
            }
            Part::Line { after_return } => {
                if *after_return && byte == b'\n' {
                    self.end_value();
                } else {
                    *after_return = byte == b'\r';
                }
            }
            Part::Length { kind, line, filled } => {
                if byte == b'\n' {
                    let (kind, line, filled) = (*kind, *line, *filled);
                    return self.follow(kind, &line[..filled]);
                }
                let Some(next) = line.get_mut(*filled) else {
                    return Err(TooLong { what: "characters in a length", limit: LENGTH_CHARS });
                };
                *next = byte;
                *filled += 1;
            }
            Part::Bytes(0) => self.end_value(),
            Part::Bytes(_) => {}
        }
        Ok(())
    }

    /// Starts the value that a length announces. An invalid length is left to the library, which rejects it.
    fn follow(&mut self, kind: u8, line: &[u8]) -> Result<(), TooLong> {
        let text = std::str::from_utf8(line).unwrap_or_default().trim();
        let length = text.parse::<i64>().unwrap_or(0);
        let (is_negative, length) = (length < 0, usize::try_from(length).unwrap_or(0));
        let values = match kind {
            b'$' if is_negative => 0,
            b'$' | b'!' | b'=' => {
                // The library treats a negative length as a huge one, except for strings.
                let bytes = if is_negative { usize::MAX } else { length.saturating_add(2) };
                self.part = Part::Bytes(bytes);
                return self.check_bytes(bytes);
            }
            b'%' => length.saturating_mul(2),
            b'|' => length.saturating_mul(2).saturating_add(1),
            _ => length,
        };
        self.values = self.values.saturating_add(values);
        if self.values > MOST_VALUES {
            return Err(TooLong { what: "values", limit: MOST_VALUES });
        }
        self.end_value();
        Ok(())
    }

    fn end_value(&mut self) {
        self.part = Part::Kind;
        self.values -= 1;
        if self.values == 0 {
            (self.values, self.bytes) = (1, 0);
        }
    }
}
