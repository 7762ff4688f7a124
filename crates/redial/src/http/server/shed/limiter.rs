//! The gate that requests share, behind its lock, and what holds a place in it.

use std::sync::Arc;
use std::{fmt, mem};

use http::{HeaderMap, HeaderValue, Response, header};
use redial_core::{NEVER, Nanos, Stop};
use tokio::sync::oneshot::{self, Receiver, Sender};

use super::entrance::Entrance;
use super::gate::{Answer, Arrival, Gate, Pass, Refusal, Ticket, Turn};
use super::layer::Rule;
use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::server::refuse::{self, Status, TOO_LATE};
use crate::http::server::vacancy::Return;
use crate::http::travel::Said;
use crate::http::{names, travel};

/// The lock is never held while anybody is woken.
pub(super) struct Places {
    entrance: Entrance<Sender<News>>,
    status: &'static Status,
}

/// A place inside. Dropping it frees the place, whether the request was answered, panicked or was given up.
pub(super) struct Permit {
    places: Arc<Places>,
    pass: Pass,
}

/// A place in the queue. Dropping it leaves the queue.
pub(super) struct Queued {
    places: Arc<Places>,
    ticket: Ticket,
    pub(super) news: Receiver<News>,
}

/// What somebody who waits is told.
pub(super) enum News {
    Start(Permit),
    Refused(Refused),
}

/// Why a request was not started.
#[derive(Clone, Copy)]
pub(super) enum Refused {
    Shed(Refusal, &'static Status),
    Late,
}

/// What becomes of a request that does not enter at once, and when its caller stops waiting.
pub(super) enum Arrived {
    Entered(Permit, Nanos),
    Queued(Queued, Nanos),
    Refused(Refused),
}

/// Whether a request has not been counted as an arrival yet.
enum IsNew {
    Yes,
    No,
}

impl Places {
    pub(super) fn new(rule: &Rule) -> Self {
        Self { entrance: Entrance::new(Gate::new(rule)), status: rule.status }
    }

    /// What most requests do.
    #[inline]
    pub(super) fn enter(self: &Arc<Self>, headers: &HeaderMap) -> Option<Permit> {
        let pass = self.entrance.enter(|| (Tokio::now(), travel::attempt(headers) > 1))?;
        Some(self.permit(pass))
    }

    #[cold]
    pub(super) fn arrive(self: &Arc<Self>, headers: &HeaderMap) -> Arrived {
        let now = Tokio::now();
        let said = Said::by(headers, &names::TIMEOUT_MS);
        let retry = said.attempt() > 1;
        // By its own headers, or by those that a layer above has read.
        let own = said.timeout().map_or(NEVER, |left| now.saturating_add(left));
        let deadline = own.min(Inbound::current().deadline);
        self.admit(Arrival { retry, deadline }, now, IsNew::Yes)
    }

    /// For a request that gave its place back.
    #[cold]
    pub(super) fn arrive_again(self: &Arc<Self>, again: &Return) -> Arrived {
        let Return { retry, deadline, .. } = *again;
        self.admit(Arrival { retry, deadline }, Tokio::now(), IsNew::No)
    }

    fn admit(self: &Arc<Self>, arrival: Arrival, now: Nanos, is_new: IsNew) -> Arrived {
        let deadline = arrival.deadline;
        let mut news = None;
        let waiter = || {
            let (sender, receiver) = oneshot::channel();
            news = Some(receiver);
            sender
        };
        let answer = match is_new {
            IsNew::Yes => self.entrance.lock().arrive(arrival, now, waiter),
            IsNew::No => self.entrance.lock().arrive_again(arrival, now, waiter),
        };
        match (answer, news) {
            (Answer::Enter(pass), _) => Arrived::Entered(self.permit(pass), deadline),
            (Answer::Wait(ticket, displaced), Some(news)) => {
                if let Some((waiter, refusal)) = displaced {
                    tell(waiter, News::Refused(Refused::Shed(refusal, self.status)));
                }
                Arrived::Queued(Queued { places: self.clone(), ticket, news }, deadline)
            }
            (Answer::Refuse(refusal), _) => Arrived::Refused(Refused::Shed(refusal, self.status)),
            (Answer::Late | Answer::Wait(..), _) => Arrived::Refused(Refused::Late),
        }
    }

    pub(super) fn inside(&self) -> u32 {
        self.entrance.lock().inside()
    }

    pub(super) fn waiting(&self) -> usize {
        self.entrance.lock().waiting()
    }

    #[inline]
    fn permit(self: &Arc<Self>, pass: Pass) -> Permit {
        Permit { places: self.clone(), pass }
    }

    #[cold]
    fn finish(self: &Arc<Self>, pass: Pass) {
        let now = Tokio::now();
        self.entrance.lock().finish(pass, || now);
        loop {
            let turn = self.entrance.lock().next(now);
            match turn {
                None => return,
                Some(Turn::Start(waiter, pass)) => tell(waiter, News::Start(self.permit(pass))),
                Some(Turn::Late(waiter)) => tell(waiter, News::Refused(Refused::Late)),
            }
        }
    }
}

/// A caller that went away just now drops what it is told, and with it the place that it was given.
fn tell(waiter: Sender<News>, news: News) {
    drop(waiter.send(news));
}

impl Permit {
    /// Frees the place of a request that nothing has been done for yet. How long it was held says nothing
    /// about the capacity.
    pub(super) fn give_back(mut self) -> Arc<Places> {
        self.pass = Pass::UNMEASURED;
        self.places.clone()
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let pass = mem::replace(&mut self.pass, Pass::UNMEASURED);
        if let Err(pass) = self.places.entrance.leave(pass) {
            self.places.finish(pass);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let gone = self.places.entrance.lock().leave(self.ticket);
        drop(gone);
    }
}

impl Refused {
    #[cold]
    pub(super) fn response<B: Default>(self, grpc: bool) -> Response<B> {
        let (refusal, status) = match self {
            Self::Shed(refusal, status) => (refusal, status),
            Self::Late => return refuse::with(&TOO_LATE, grpc),
        };
        let mut response = refuse::with(status, grpc);
        let (Refusal::Slot(after) | Refusal::Full(after)) = refusal;
        let (seconds, millis) = (after.div_ceil(1_000_000_000), after.div_ceil(1_000_000));
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        headers.insert(names::RETRY_AFTER_MS, HeaderValue::from(millis));
        let pushback = match refusal {
            Refusal::Slot(_) => {
                headers.insert(names::SLOT, HeaderValue::from(1));
                HeaderValue::from(millis)
            }
            Refusal::Full(_) => {
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

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inside, waiting) = (self.inside(), self.waiting());
        f.debug_struct("Places").field("inside", &inside).field("waiting", &waiting).finish()
    }
}
