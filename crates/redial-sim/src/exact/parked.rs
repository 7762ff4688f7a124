//! Parked calls: the engine decides which one goes next, and wakes it.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use redial_core::{Call, Deadline, Time, Turn, Verdict};

use super::flight::Origin;
use super::world::World;

/// Calls that the engine has woken, in that order.
pub(super) type Woken = Arc<Mutex<Vec<Origin>>>;

struct Parked {
    origin: Origin,
    woken: Woken,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.origin);
    }
}

/// When a parked call asks again. A call parks only before its deadline.
pub(super) fn ask_again(until: Deadline) -> Time {
    until.time().unwrap_or_else(|| unreachable!("a call without a deadline does not park"))
}

impl World<'_> {
    /// Asks whether a parked call may go; `None` if it may.
    pub(super) fn turn_of(
        &mut self,
        origin: Origin,
        call: &mut Call,
        now: Time,
    ) -> Option<Verdict> {
        let target = match origin {
            Origin::Caller(caller) => self.begun_target(caller),
            Origin::Inner(number) => self.inner_target(number),
        };
        let waker = Waker::from(Arc::new(Parked { origin, woken: Arc::clone(&self.woken) }));
        let cx = self.edges[target.edge as usize].context(&target);
        match call.unpark(&cx, &waker, now) {
            Turn::Go => None,
            Turn::Wait(until) => Some(Verdict::Wait(ask_again(until))),
            Turn::Stop(stop) => Some(Verdict::Stop(stop)),
        }
    }

    /// Lets the calls ask again that were woken.
    pub(super) fn wake_released(&mut self, now: Time) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if woken.is_empty() {
            return;
        }
        let all = std::mem::take(&mut *woken);
        drop(woken);
        for origin in all {
            // A restart may have ended it since.
            let is_over = matches!(origin, Origin::Caller(caller) if !self.callers.rests(caller));
            if !is_over {
                self.wake_at(origin, now);
            }
        }
    }
}
