//! The gate that all requests of a layer share, and the permits and queue entries that hold a place in it.

use std::sync::Arc;
use std::{fmt, mem};

use http::{HeaderMap, HeaderValue, Request, Response, header};
use redial_core::{Deadline, Span, Stop, Time};
use tokio::sync::oneshot::{self, Receiver, Sender};

use super::gate::{Arrival, Booking, Decision, Dequeued, Gate, Pass, Ticket};
use super::layer::Rule;
use super::shared_gate::SharedGate;
use super::shared_permit::Reacquire;
use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::server::refuse::{self, Status, TOO_LATE};
use crate::http::travel::Propagated;
use crate::http::{names, travel};

/// Never wakes a request while the gate is locked.
pub(super) struct Limiter {
    gate: SharedGate<Sender<Notice>>,
    status: &'static Status,
}

/// The right to be served. Dropping it releases it, whether the request was answered, panicked or was cancelled.
pub(super) struct Permit {
    limiter: Arc<Limiter>,
    pass: Pass,
}

/// An entry in the queue. Dropping it leaves the queue.
pub(super) struct Queued {
    limiter: Arc<Limiter>,
    ticket: Ticket,
    pub(super) notice: Receiver<Notice>,
}

/// What a queued request is notified of.
pub(super) enum Notice {
    Start(Permit),
    Rejected(Rejection),
}

/// Why a request was not started.
#[derive(Clone, Copy)]
pub(in crate::http::server) enum Rejection {
    Shed(Booking, &'static Status),
    Late,
}

/// The result for a request that did not take the fast path, with its deadline.
pub(super) enum Admission {
    Entered(Permit, Deadline),
    Queued(Queued, Deadline),
    Rejected(Rejection),
}

impl Limiter {
    pub(super) fn new(rule: &Rule) -> Self {
        Self { gate: SharedGate::new(Gate::new(rule)), status: rule.status }
    }

    /// The fast path.
    #[inline]
    pub(super) fn enter(self: &Arc<Self>, headers: &HeaderMap) -> Option<Permit> {
        let pass = self.gate.enter(|| (Tokio::now(), travel::attempt(headers) > 1))?;
        Some(self.permit(pass))
    }

    #[cold]
    pub(super) fn arrive<B>(self: &Arc<Self>, request: &Request<B>) -> Admission {
        let now = Tokio::now();
        let read = Propagated::read(request.headers(), &names::TIMEOUT_MS);
        let retry = read.attempt() > 1;
        // From the request's own headers, or from an outer deadline layer.
        let own = Deadline::from(read.timeout().map(|left| now + left));
        let deadline = own.min(Inbound::of(request.extensions()).deadline);
        self.admit(Arrival { retry, deadline }, false, now)
    }

    /// For a request that released its permit.
    #[cold]
    pub(super) fn arrive_again(self: &Arc<Self>, reacquire: &Reacquire) -> Admission {
        let Reacquire { retry, deadline, .. } = *reacquire;
        self.admit(Arrival { retry, deadline }, true, Tokio::now())
    }

    fn admit(self: &Arc<Self>, arrival: Arrival, again: bool, now: Time) -> Admission {
        let deadline = arrival.deadline;
        let mut notice = None;
        let waiter = || {
            let (sender, receiver) = oneshot::channel();
            notice = Some(receiver);
            sender
        };
        let decision = if again {
            self.gate.lock().arrive_again(arrival, now, waiter)
        } else {
            self.gate.lock().arrive(arrival, now, waiter)
        };
        match (decision, notice) {
            (Decision::Enter(pass), _) => Admission::Entered(self.permit(pass), deadline),
            (Decision::Wait(ticket, displaced), Some(notice)) => {
                if let Some((waiter, booking)) = displaced {
                    notify(waiter, Notice::Rejected(Rejection::Shed(booking, self.status)));
                }
                Admission::Queued(Queued { limiter: self.clone(), ticket, notice }, deadline)
            }
            (Decision::Reject(booking), _) => {
                Admission::Rejected(Rejection::Shed(booking, self.status))
            }
            (Decision::Late | Decision::Wait(..), _) => Admission::Rejected(Rejection::Late),
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.gate.lock().in_flight()
    }

    pub(super) fn waiting(&self) -> usize {
        self.gate.lock().waiting()
    }

    #[inline]
    fn permit(self: &Arc<Self>, pass: Pass) -> Permit {
        Permit { limiter: self.clone(), pass }
    }

    #[cold]
    fn finish(self: &Arc<Self>, pass: Pass) {
        let now = Tokio::now();
        self.gate.lock().finish(pass, || now);
        loop {
            let next = self.gate.lock().next(now);
            match next {
                None => return,
                Some(Dequeued::Start(waiter, pass)) => {
                    notify(waiter, Notice::Start(self.permit(pass)));
                }
                Some(Dequeued::Late(waiter)) => notify(waiter, Notice::Rejected(Rejection::Late)),
            }
        }
    }
}

/// If the request has just been cancelled, the notice is dropped, and with it the permit that it may carry.
fn notify(waiter: Sender<Notice>, notice: Notice) {
    drop(waiter.send(notice));
}

impl Permit {
    pub(super) fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// Releases the permit of a request that has done no work yet. How long it was held does not count as a measure of
    /// the capacity.
    pub(super) fn release_unused(mut self) {
        self.pass = Pass::UNMEASURED;
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let pass = mem::replace(&mut self.pass, Pass::UNMEASURED);
        if let Err(pass) = self.limiter.gate.leave(pass) {
            self.limiter.finish(pass);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let removed = self.limiter.gate.lock().leave(self.ticket);
        drop(removed);
    }
}

impl Rejection {
    #[cold]
    pub(in crate::http::server) fn response<B: Default>(self, grpc: bool) -> Response<B> {
        let (booking, status) = match self {
            Self::Shed(booking, status) => (booking, status),
            Self::Late => return refuse::with(&TOO_LATE, grpc),
        };
        let mut response = refuse::with(status, grpc);
        let (Booking::Slot(after) | Booking::Full(after)) = booking;
        let seconds = after.round_up(Span::SECOND).as_secs();
        let millis = after.round_up(Span::MILLISECOND).as_millis();
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        headers.insert(names::RETRY_AFTER_MS, HeaderValue::from(millis));
        let pushback = match booking {
            Booking::Slot(_) => {
                headers.insert(names::SLOT, HeaderValue::from(1));
                HeaderValue::from(millis)
            }
            Booking::Full(_) => {
                headers.insert(names::STOP, HeaderValue::from_static(Stop::HintTooLong.name()));
                HeaderValue::from(-1)
            }
        };
        if grpc {
            headers.insert(names::GRPC_RETRY_PUSHBACK_MS, pushback);
        }
        response
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_flight, waiting) = (self.in_flight(), self.waiting());
        f.debug_struct("Limiter").field("in_flight", &in_flight).field("waiting", &waiting).finish()
    }
}
