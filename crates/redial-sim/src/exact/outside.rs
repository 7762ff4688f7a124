//! What happens to instances from outside: they restart, and are switched off. Faults of services are theirs.

use redial_core::Time;

use super::event::Event;
use crate::scenario::{Restart, SwitchedOff};
use crate::{Scenario, Wheel};

#[derive(Clone, Copy, Debug)]
pub(super) struct Outside<'a> {
    restarts: &'a [Restart],
    switched_off: &'a [SwitchedOff],
    instances: u32,
}

/// The instances with numbers below this restart, and each makes so many calls at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restarted {
    pub(super) below: u32,
    pub(super) burst: u16,
}

impl<'a> Outside<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Self {
        Self {
            restarts: &scenario.restart,
            switched_off: &scenario.switched_off,
            instances: scenario.clients.instances,
        }
    }

    pub(super) fn schedule(&self, wheel: &mut Wheel) {
        for (restart, number) in self.restarts.iter().zip(0..) {
            wheel.push(restart.start, Event::Restart(number).pack());
        }
    }

    pub(super) fn restart(&self, number: u32) -> Restarted {
        let Restart { share, burst, .. } = self.restarts[number as usize];
        Restarted { below: self.share(share), burst }
    }

    /// When the instance is switched on again, if it is switched off.
    #[inline]
    pub(super) fn off_until(&self, instance: u32, now: Time) -> Option<Time> {
        let is_off =
            |it: &&SwitchedOff| it.period().contains(now) && instance < self.share(it.share);
        self.switched_off.iter().find(is_off).map(|it| it.period().end)
    }

    /// This share of the instances are those with numbers below the result.
    fn share(&self, share: f64) -> u32 {
        (f64::from(self.instances) * share).round() as u32
    }
}
