//! When callers begin their calls, and what they do when one is over.

use std::ops::Range;

use redial_core::schedule::Backoff;
use redial_core::{Span, Time};

use super::{Callers, Next};
use crate::Wheel;
use crate::exact::event::Event;
use crate::scenario::{Arrivals, Requeue};

/// How many callers begin in one event, where all of them begin at once: a stopped run ends soon.
const BATCH: u32 = 1 << 16;

impl Callers<'_> {
    pub(in crate::exact) fn set_up(&mut self, wheel: &mut Wheel) {
        match &self.clients.arrivals {
            Arrivals::Synchronised { at, .. } => {
                wheel.push(*at, Event::AllCall.pack());
            }
            Arrivals::Closed { callers, think } => {
                for caller in 0..*callers {
                    let first = think.residual(&mut self.thinking);
                    self.begin_at(caller, Time::at(first), wheel);
                }
            }
            Arrivals::Constant(_) | Arrivals::Poisson(_) | Arrivals::Ramp { .. } => {
                let first = self.open_loop.next(Time::ZERO);
                wheel.push(first, Event::NextCall.pack());
            }
        }
    }

    /// Schedules the caller's next call.
    fn begin_at(&mut self, caller: u32, at: Time, wheel: &mut Wheel) {
        if at < self.end {
            self.set_next(caller, Next::Begin(at));
            wheel.push(at, Event::Begin(caller).pack());
        }
    }

    /// It begins its call later, because it is switched off.
    pub(in crate::exact) fn postpone(&mut self, caller: u32, until: Time, wheel: &mut Wheel) {
        let pause = self.think();
        self.begin_at(caller, until + pause, wheel);
    }

    /// The instance whose call of an open loop begins now, if there is one, and schedules the call after it.
    pub(in crate::exact) fn next_instance(&mut self, now: Time, wheel: &mut Wheel) -> Option<u32> {
        if now >= self.end {
            return None;
        }
        let instance = self.open_loop.instance();
        let next = self.open_loop.next(now);
        wheel.push(next, Event::NextCall.pack());
        Some(instance)
    }

    /// The callers that begin now, where all of them begin at once. The others follow.
    pub(in crate::exact) fn next_batch(&mut self, now: Time, wheel: &mut Wheel) -> Range<u32> {
        let batch = self.begun..self.len().min(self.begun + BATCH);
        batch.clone().for_each(|caller| self.set_next(caller, Next::Begin(now)));
        self.begun = batch.end;
        if self.begun < self.len() {
            wheel.push(now, Event::AllCall.pack());
        }
        batch
    }

    /// How many callers have begun, where all of them begin at once.
    pub(in crate::exact) fn begun(&self) -> u32 {
        self.begun
    }

    /// Whether its failed call is made again: then that is scheduled.
    pub(in crate::exact) fn requeue(
        &mut self,
        caller: u32,
        backoff: &Backoff,
        now: Time,
        wheel: &mut Wheel,
    ) -> bool {
        let wait = match self.clients.requeue {
            None => return false,
            Some(Requeue::After(time)) => time.draw(&mut self.thinking),
            Some(Requeue::Rest) => backoff.rest(self.thinking.bits()),
        };
        let next = now + wait;
        let is_in_time = next < self.end;
        if is_in_time {
            self.set_requeued(caller, true);
            self.begin_at(caller, next, wheel);
        }
        is_in_time
    }

    /// Its call is over, and not made again. In a closed loop it thinks, and makes another one.
    pub(in crate::exact) fn finish(&mut self, caller: u32, now: Time, wheel: &mut Wheel) {
        self.set_requeued(caller, false);
        if self.release(caller) && self.is_closed() {
            self.postpone(caller, now, wheel);
        }
    }

    /// Its instance has restarted, and its call is over. In a closed loop it makes another one.
    pub(in crate::exact) fn restart(&mut self, caller: u32, now: Time, wheel: &mut Wheel) {
        if self.is_closed() {
            self.begin_at(caller, now, wheel);
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.clients.arrivals, Arrivals::Closed { .. })
    }

    fn think(&mut self) -> Span {
        match &self.clients.arrivals {
            Arrivals::Closed { think, .. } => think.draw(&mut self.thinking),
            _ => Span::ZERO,
        }
    }
}
