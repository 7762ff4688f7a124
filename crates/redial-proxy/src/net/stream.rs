//! A connection of any kind: TCP or a Unix socket, plain or with TLS.

use std::cell::RefCell;
use std::io::{self, ErrorKind as Io, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use super::activity::Activity;
use super::timer::Timer;
use crate::limits;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// A connection that fails when its peer accepts nothing for [`limits::STALLED_WRITE`].
#[derive(Debug)]
pub(crate) struct Stream {
    transport: Transport,
    stalled: Timer,
    /// Told of bytes that arrive.
    activity: Option<Arc<Activity>>,
    /// See [`Stream::read_after_hang_up`].
    reads_after_hang_up: bool,
}

impl Stream {
    pub(crate) fn plain(socket: Socket) -> Self {
        Self::new(Transport::Plain(socket))
    }

    pub(crate) fn tls(stream: impl Into<TlsStream<Socket>>) -> Self {
        Self::new(Transport::Tls(Box::new(stream.into())))
    }

    fn new(transport: Transport) -> Self {
        Self { transport, stalled: Timer::default(), activity: None, reads_after_hang_up: false }
    }

    pub(crate) fn watch(&mut self, activity: Arc<Activity>) {
        self.activity = Some(activity);
    }

    /// Whether writes succeed, without effect, when the peer has closed the connection. What the peer sent before, as a
    /// server that refuses a large request does, can still be read, and hyper would not read it after an error.
    pub(crate) fn read_after_hang_up(&mut self, reads: bool) {
        self.reads_after_hang_up = reads;
    }

    fn is_ignored(&self, error: &io::Error) -> bool {
        let is_hang_up = matches!(error.kind(), Io::BrokenPipe | Io::ConnectionReset);
        self.reads_after_hang_up && is_hang_up
    }

    fn write(
        &mut self,
        length: usize,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Transport, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(&mut self.transport, cx);
        if written.is_ready() {
            self.stalled.stop();
        } else if self.stalled.poll(limits::STALLED_WRITE, cx).is_ready() {
            let late = "the peer accepted no data for 30 s";
            return Poll::Ready(Err(io::Error::new(Io::TimedOut, late)));
        }
        match written {
            Poll::Ready(Err(error)) if self.is_ignored(&error) => Poll::Ready(Ok(length)),
            written => written,
        }
    }
}

/// Calls a method of the stream that is inside.
macro_rules! each {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Plain(Socket::Tcp($stream)) => $call,
            Transport::Plain(Socket::Unix($stream)) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

/// Messages up to this size are copied into one buffer: for small ones that is cheaper than `writev`.
const SMALL: usize = 16 << 10;

thread_local!(static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = each!(&mut self.transport, stream => Pin::new(stream).poll_read(cx, buffer));
        if let Some(activity) = &self.activity
            && buffer.filled().len() > before
        {
            activity.read();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(
            bytes.len(),
            cx,
            |transport, cx| each!(transport, it => Pin::new(it).poll_write(cx, bytes)),
        )
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        if length > SMALL {
            return self.write(
                length,
                cx,
                |transport, cx| each!(transport, it => Pin::new(it).poll_write_vectored(cx, parts)),
            );
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            parts.iter().for_each(|part| scratch.extend_from_slice(part));
            self.poll_write(cx, scratch)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match each!(&mut self.transport, stream => Pin::new(stream).poll_flush(cx)) {
            Poll::Ready(Err(error)) if self.is_ignored(&error) => Poll::Ready(Ok(())),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.transport, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
