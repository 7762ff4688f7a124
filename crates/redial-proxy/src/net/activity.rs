//! What a connection of a caller is doing, and for how long it may.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::clock;
use crate::limits;

/// What a connection of a caller is doing. Shared by its stream, its requests and its watch.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    phase: AtomicU8,
    /// How many requests have begun.
    requests: AtomicU32,
    /// Whether the body of the latest request has not been read to its end.
    is_arriving: AtomicBool,
    /// Whether the connection was dropped at the limit of the drain.
    is_cut_off: AtomicBool,
}

/// Dropped before the connection that it belongs to. Unless the connection has ended by itself, that is the limit of the drain.
pub(crate) struct EndOfDrain(Option<Arc<Activity>>);

impl EndOfDrain {
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        Self(Some(Arc::clone(activity)))
    }

    /// The connection has ended by itself.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOfDrain {
    fn drop(&mut self) {
        if let Some(activity) = &self.0 {
            activity.is_cut_off.store(true, Ordering::Relaxed);
        }
    }
}

/// Waiting for the first head, or in the middle of any head.
const HEAD: u8 = 0;
const BUSY: u8 = 1;
/// Between two requests.
const IDLE: u8 = 2;

impl Activity {
    /// Bytes have arrived.
    pub(crate) fn read(&self) {
        if self.phase.load(Ordering::Relaxed) == IDLE {
            self.phase.store(HEAD, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == BUSY
    }

    pub(crate) fn set_arriving(&self, is_arriving: bool) {
        self.is_arriving.store(is_arriving, Ordering::Relaxed);
    }

    pub(crate) fn is_arriving(&self) -> bool {
        self.is_arriving.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.phase.store(BUSY, Ordering::Relaxed);
        let requests = self.requests.load(Ordering::Relaxed).wrapping_add(1);
        self.requests.store(requests, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.phase.store(IDLE, Ordering::Relaxed);
    }
}

pin_project! {
    /// Ends a connection whose head does not arrive, or that is idle for too long. Its timer is set when a head is late and
    /// when it expires, but not for each request.
    pub(crate) struct Watch {
        #[pin]
        sleep: Sleep,
        // Whether the timer runs for a head.
        for_head: bool,
        // How many requests had begun when the timer was set.
        requests: u32,
    }
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { sleep: sleep(limits::HEAD), for_head: false, requests: 0 }
    }

    pub(crate) fn poll(
        self: Pin<&mut Self>,
        activity: &Activity,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut this = self.project();
        let phase = activity.phase.load(Ordering::Relaxed);
        let is_late_head = phase == HEAD && !*this.for_head;
        if !is_late_head && !this.sleep.is_elapsed() {
            *this.for_head &= phase == HEAD;
            return Poll::Pending;
        }
        let requests = activity.requests.load(Ordering::Relaxed);
        let is_idle = phase == IDLE && requests == *this.requests;
        if !is_late_head && (is_idle || *this.for_head) {
            return Poll::Ready(());
        }
        let limit = if is_late_head { limits::HEAD } else { limits::IDLE_CALLER };
        *this.for_head = is_late_head;
        *this.requests = requests;
        this.sleep.as_mut().reset(clock::now() + limit);
        this.sleep.poll(cx)
    }
}
