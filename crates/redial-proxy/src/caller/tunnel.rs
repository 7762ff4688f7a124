//! A connection that has become a WebSocket: bytes both ways.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy_bidirectional};
use tokio::time::timeout;

use crate::limits;
use crate::shared::Admitted;
use crate::upstream::wire::Upgraded;

/// Copies until both sides have ended, one of them fails, or no byte was copied for once to twice the limit.
pub(crate) async fn run(caller: OnUpgrade, endpoint: Upgraded, admitted: Arc<Admitted>) {
    // Without the caller's side the connection has ended, which it knows itself.
    let Ok(caller) = caller.await else { return };
    let mut caller = TokioIo::new(caller);
    let Upgraded { stream, received, lease } = endpoint;
    if caller.write_all(&received).await.is_err() || caller.flush().await.is_err() {
        return;
    }
    let copied = AtomicU64::new(0);
    let mut caller = Counted { stream: caller, copied: &copied };
    let mut endpoint = Counted { stream, copied: &copied };
    let mut copy = std::pin::pin!(copy_bidirectional(&mut caller, &mut endpoint));
    let mut before = 0;
    while timeout(limits::TUNNEL, copy.as_mut()).await.is_err() {
        let now = copied.load(Ordering::Relaxed);
        if now == before {
            break;
        }
        before = now;
    }
    drop((admitted, lease));
}

/// A stream that counts what is read from it.
struct Counted<'a, S> {
    stream: S,
    copied: &'a AtomicU64,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let more = buffer.filled().len() - before;
        self.copied.fetch_add(more as u64, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
