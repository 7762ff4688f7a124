//! A place in a gate is for a request that is being worked on. While the body of a request is still arriving
//! there is nothing to work on yet, and a few slow uploads must not close the server for everyone else.
//!
//! The layer that waits for a body is further in than the gate, with futures of other layers in between. So
//! they talk through the thread: a gate says before each poll whether it holds the place, and the request
//! says during the poll what it needs. The gate stays the only owner of its places, and a request that never
//! waits for its body costs neither an allocation nor a lock.
//!
//! ```text
//! gate: Held ──poll──> request: leave ──> gate gives the place back
//! gate: Vacant ──poll──> request: return ──> gate admits it (Held), queues it or refuses it
//! ```
//!
//! Where another layer polls the request in a task of its own, no gate is known here and the place is held
//! throughout. Layers in between have to poll the request whenever they are polled, as all usual ones do: a
//! request that was given a place is not woken besides.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::HeaderMap;
use redial_core::{NEVER, Nanos};

use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::names;
use crate::http::travel::Said;

/// What a gate has to know to admit a request whose headers have been passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Return {
    pub(super) retry: bool,
    pub(super) deadline: Nanos,
    pub(super) grpc: bool,
}

/// What a request told the gate in a poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    /// Its body is still arriving.
    Leave,
    /// Its body has arrived.
    Return(Return),
}

/// A byte, because it is written in every poll; what a return needs is beside it.
#[derive(Clone, Copy)]
enum State {
    NoGate,
    Held,
    Vacant,
    WishesToLeave,
    WishesToReturn,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::NoGate) };
    /// Set while the state is [`State::WishesToReturn`].
    static RETURN: Cell<Option<Return>> = const { Cell::new(None) };
}

/// One poll of a request by its gate.
pub(super) struct Turn {
    outer: State,
}

impl Turn {
    /// `held` says whether this gate holds a place for the request. A gate further out may hold none.
    #[inline(always)]
    pub(super) fn begin(held: bool) -> Self {
        let outer = STATE.get();
        let held = held && !matches!(outer, State::Vacant);
        STATE.set(if held { State::Held } else { State::Vacant });
        Self { outer }
    }

    #[inline(always)]
    pub(super) fn end(self) -> Option<Wish> {
        match STATE.get() {
            State::NoGate | State::Held | State::Vacant => None,
            State::WishesToLeave => Some(Wish::Leave),
            State::WishesToReturn => RETURN.take().map(Wish::Return),
        }
    }
}

/// Also when the poll panics: the next request on this thread may have no gate.
impl Drop for Turn {
    #[inline(always)]
    fn drop(&mut self) {
        STATE.set(self.outer);
    }
}

/// Whether every gate around this poll holds a place, which is so if there is none.
pub(super) fn is_held() -> bool {
    matches!(STATE.get(), State::NoGate | State::Held)
}

/// Tells the gates around this poll, if there are any.
pub(super) fn tell(wish: Wish) {
    if matches!(STATE.get(), State::NoGate) {
        return;
    }
    STATE.set(match wish {
        Wish::Leave => State::WishesToLeave,
        Wish::Return(again) => {
            RETURN.set(Some(again));
            State::WishesToReturn
        }
    });
}

/// Waits for the body of a request without a place.
pub(super) async fn without_place<F: Future>(arrival: F) -> F::Output {
    let mut arrival = pin!(arrival);
    poll_fn(|cx| {
        let arrived = arrival.as_mut().poll(cx);
        if arrived.is_pending() {
            tell(Wish::Leave);
        }
        arrived
    })
    .await
}

impl Return {
    /// Reads what a gate needs while the request is still whole.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let said = Said::by(headers, &names::TIMEOUT_MS);
        let own = said.timeout().map_or(NEVER, |left| Tokio::now().saturating_add(left));
        let deadline = own.min(Inbound::current().deadline);
        Self { retry: said.attempt() > 1, deadline, grpc: said.is_grpc() }
    }

    /// Waits until the request has a place again. A request that is refused instead is dropped by its gate.
    pub(super) async fn place(self) {
        poll_fn(|_| {
            if is_held() {
                return Poll::Ready(());
            }
            tell(Wish::Return(self));
            Poll::Pending
        })
        .await;
    }
}
