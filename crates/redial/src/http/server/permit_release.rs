//! While the body of a request is still arriving, the request has no work to do, and a few slow uploads must not use up
//! the permits of a server. So a request releases its permit until its body is complete.
//!
//! The layer that reads the body is further in than the shed layer, with other layers' futures in between. The two
//! communicate through a thread-local: before each poll a shed layer sets whether it holds a permit, and during the poll
//! the request signals what it needs. The shed layer remains the only owner of its permits, and a request that never
//! waits for its body costs neither an allocation nor a lock.
//!
//! ```text
//! shed: Held ──poll──> request: Release ──> shed releases the permit
//! shed: Released ──poll──> request: Reacquire ──> shed admits it (Held), queues it or rejects it
//! ```
//!
//! If another layer polls the request in a separate task, no shed layer is known there and the permit is held throughout.
//! Layers in between have to poll the request whenever they are polled, as usual ones do: a request that has been given a
//! permit is not woken separately.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::HeaderMap;
use redial_core::{NEVER, Nanos};

use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::names;
use crate::http::travel::Propagated;

/// What a shed layer needs to admit a request whose headers have been passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reacquire {
    pub(super) retry: bool,
    pub(super) deadline: Nanos,
    pub(super) grpc: bool,
}

/// What a request signalled during a poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// Its body is still arriving.
    Release,
    /// Its body is complete.
    Reacquire(Reacquire),
}

/// One byte, because it is written in every poll. The data of a reacquire is stored separately.
#[derive(Clone, Copy)]
enum State {
    NoLayer,
    Held,
    Released,
    ReleaseSignalled,
    ReacquireSignalled,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::NoLayer) };
    /// Set while the state is [`State::ReacquireSignalled`].
    static REACQUIRE: Cell<Option<Reacquire>> = const { Cell::new(None) };
}

/// One poll of a request by a shed layer.
pub(super) struct PollScope {
    outer: State,
}

impl PollScope {
    /// `held` is whether this layer holds a permit for the request. An outer layer may have released its own.
    #[inline(always)]
    pub(super) fn enter(held: bool) -> Self {
        let outer = STATE.get();
        let held = held && !matches!(outer, State::Released);
        STATE.set(if held { State::Held } else { State::Released });
        Self { outer }
    }

    #[inline(always)]
    pub(super) fn exit(self) -> Option<Signal> {
        match STATE.get() {
            State::NoLayer | State::Held | State::Released => None,
            State::ReleaseSignalled => Some(Signal::Release),
            State::ReacquireSignalled => REACQUIRE.take().map(Signal::Reacquire),
        }
    }
}

/// Also when the poll panics: the next request on this thread may have no shed layer.
impl Drop for PollScope {
    #[inline(always)]
    fn drop(&mut self) {
        STATE.set(self.outer);
    }
}

/// Whether every shed layer around this poll holds a permit. True if there is none.
pub(super) fn is_held() -> bool {
    matches!(STATE.get(), State::NoLayer | State::Held)
}

/// Signals the shed layers around this poll, if there are any.
pub(super) fn send(signal: Signal) {
    if matches!(STATE.get(), State::NoLayer) {
        return;
    }
    STATE.set(match signal {
        Signal::Release => State::ReleaseSignalled,
        Signal::Reacquire(reacquire) => {
            REACQUIRE.set(Some(reacquire));
            State::ReacquireSignalled
        }
    });
}

/// Waits for the body of a request without a permit.
pub(super) async fn without_permit<F: Future>(body: F) -> F::Output {
    let mut body = pin!(body);
    poll_fn(|cx| {
        let polled = body.as_mut().poll(cx);
        if polled.is_pending() {
            send(Signal::Release);
        }
        polled
    })
    .await
}

impl Reacquire {
    /// Reads what a shed layer needs while the request still has its headers.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let read = Propagated::read(headers, &names::TIMEOUT_MS);
        let own = read.timeout().map_or(NEVER, |left| Tokio::now().saturating_add(left));
        let deadline = own.min(Inbound::current().deadline);
        Self { retry: read.attempt() > 1, deadline, grpc: read.is_grpc() }
    }

    /// Waits until the request has a permit again. If it is rejected, its shed layer drops it.
    pub(super) async fn permit(self) {
        poll_fn(|_| {
            if is_held() {
                return Poll::Ready(());
            }
            send(Signal::Reacquire(self));
            Poll::Pending
        })
        .await;
    }
}
