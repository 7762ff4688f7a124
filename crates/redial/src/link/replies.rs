//! The library reads a reply into memory whole, however long it is. A Redis that is broken or hostile, or
//! another server on its port, could fill the memory with one. So replies are measured as they pass, and a
//! connection that brings one that is too long is given up before it is read.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A reply of ours has a dozen values, and each takes more memory than bytes on the wire.
const MOST_VALUES: usize = 1024;

/// A length is at most this many characters on the wire.
const LENGTH_CHARS: usize = 32;

/// How many bytes a reply may have. Clones are the same limit.
#[derive(Clone)]
pub(crate) struct Most(Arc<AtomicUsize>);

impl Most {
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

/// A reply is longer than it may be.
#[derive(Debug)]
pub(crate) struct TooLong {
    what: &'static str,
    most: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, most } = self;
        write!(f, "Redis sent a reply of more than {most} {what}, which is the limit")
    }
}

impl std::error::Error for TooLong {}

/// A connection whose replies are measured.
pub(super) struct Measured<S> {
    stream: S,
    replies: Replies,
}

impl<S> Measured<S> {
    pub(super) fn new(stream: S, most: Most) -> Self {
        let replies = Replies { most, bytes: 0, values: 1, part: Part::Kind };
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

/// Follows the replies of a Redis (RESP 2 and 3) closely enough to know where each ends. What is not a reply
/// is left to the library, which refuses it at its first byte.
struct Replies {
    most: Most,
    /// Of the current reply so far.
    bytes: usize,
    /// Of the current reply, nested ones included, that have not ended.
    values: usize,
    part: Part,
}

enum Part {
    /// The byte that says what kind of value follows.
    Kind,
    /// A line, which is the value itself.
    Line { after_return: bool },
    /// A line with the length of what follows.
    Length { kind: u8, line: [u8; LENGTH_CHARS], filled: usize },
    /// So many bytes to skip.
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

    /// Whether so many more may come.
    fn check_bytes(&self, more: usize) -> Result<(), TooLong> {
        let most = self.most.get();
        if self.bytes.saturating_add(more) > most {
            return Err(TooLong { what: "bytes", most });
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
                let Some(place) = line.get_mut(*filled) else {
                    return Err(TooLong { what: "characters in a length", most: LENGTH_CHARS });
                };
                *place = byte;
                *filled += 1;
            }
            Part::Bytes(0) => self.end_value(),
            Part::Bytes(_) => {}
        }
        Ok(())
    }

    /// What a length announces. One that cannot be read is left to the library, which refuses it.
    fn follow(&mut self, kind: u8, line: &[u8]) -> Result<(), TooLong> {
        let text = std::str::from_utf8(line).unwrap_or_default().trim();
        let length = text.parse::<i64>().unwrap_or(0);
        let (is_negative, length) = (length < 0, usize::try_from(length).unwrap_or(0));
        let values = match kind {
            b'$' if is_negative => 0,
            b'$' | b'!' | b'=' => {
                // The library takes a negative length for an enormous one, except for that of a string.
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
            return Err(TooLong { what: "values", most: MOST_VALUES });
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
