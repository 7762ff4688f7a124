//! The cool-down: one retry per key in a given time. For example, a video player may request a segment again
//! once in 30 s.
//!
//! A map of all keys would grow without bound. Instead, a key's hash selects one of a fixed number of
//! places, and each place remembers its last retry. Two keys that share a place share its retry: a
//! collision can refuse a retry that should be allowed, but never allow one that should be refused.

use alloc::boxed::Box;
use core::num::NonZeroU64;
use core::time::Duration;

use crate::cell::Atomic;
use crate::random;
use crate::sync::Ordering;
use crate::time::{Span, Time};

/// One retry per key and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CoolDownRule {
    /// One retry of a key in this time.
    pub every: Span,
    /// The number of places for keys.
    #[cfg_attr(feature = "serde", serde(default = "default_places"))]
    pub places: u32,
}

const fn default_places() -> u32 {
    1024
}

impl CoolDownRule {
    /// One retry per key in `every`, with 1024 places (8 KiB).
    pub fn every(every: Duration) -> Self {
        Self { every: every.into(), places: default_places() }
    }

    /// Sets the number of places. If n keys are retried in a period, about n in `places` find their place taken.
    pub fn places(self, places: u32) -> Self {
        Self { places, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct CoolDown {
    every: Span,
    /// When a place may be used again.
    free_at: Box<[Atomic<Time>]>,
}

impl CoolDown {
    pub(crate) fn new(rule: &CoolDownRule) -> Self {
        let free_at = (0..rule.places).map(|_| Atomic::default()).collect();
        Self { every: rule.every, free_at }
    }

    pub(crate) fn acquire(&self, key: Option<NonZeroU64>, now: Time) -> bool {
        let Some(key) = key else { return true };
        let until = now + self.every;
        self.place(key).update(|free_at| (now >= free_at).then_some(until)).is_ok()
    }

    /// Whether a retry at `at` would be refused, as far as is known now.
    pub(crate) fn refuses(&self, key: Option<NonZeroU64>, at: Time) -> bool {
        key.is_some_and(|key| at < self.place(key).load(Ordering::Acquire))
    }

    fn place(&self, key: NonZeroU64) -> &Atomic<Time> {
        let place = random::up_to(self.free_at.len() as u64 - 1, random::draw(key.get(), 0));
        &self.free_at[place as usize]
    }
}
