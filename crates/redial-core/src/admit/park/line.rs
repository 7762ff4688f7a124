//! The order of release: by the evidence that a call needs. If the first in line has none, no other has, so it alone has a
//! timer, and each call that leaves wakes the next.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::task::Waker;

use super::Waiting;
use crate::time::Time;

/// The place of a parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u32);

/// Allocates when the first call parks.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Calls that wait for evidence. The others wait for their backoff.
    order: BTreeSet<(Time, u32)>,
}

#[derive(Debug)]
struct Place {
    waiting: Waiting,
    waker: Option<Waker>,
}

impl Line {
    pub(super) fn take_place(&mut self, waiting: Waiting) -> Ticket {
        let place = Place { waiting, waker: None };
        Ticket(match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        })
    }

    /// A call whose backoff is over joins the line. Returns also whether it is the first.
    pub(super) fn join(&mut self, Ticket(number): Ticket, waker: &Waker) -> (Waiting, bool) {
        let place = &mut self.places[number as usize];
        if !place.waker.as_ref().is_some_and(|it| it.will_wake(waker)) {
            place.waker = Some(waker.clone());
        }
        let key = (place.waiting.since, number);
        let waiting = place.waiting;
        self.order.insert(key);
        (waiting, self.order.first() == Some(&key))
    }

    pub(super) fn leave(&mut self, Ticket(number): Ticket) {
        let place = &mut self.places[number as usize];
        place.waker = None;
        self.order.remove(&(place.waiting.since, number));
        self.free.push(number);
    }

    /// How to wake the first in line. The caller drops the lock first: a waker may run code that parks.
    pub(super) fn first_waker(&self) -> Option<Waker> {
        let (_, number) = self.order.first()?;
        self.places[*number as usize].waker.clone()
    }
}
