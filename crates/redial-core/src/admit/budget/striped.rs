//! A single counter that every call increments would be contended by all threads.

use alloc::boxed::Box;

use crate::sync::{AtomicU64, Ordering};

/// Alone on its cache line, so that threads do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// A counter split into stripes.
#[derive(Debug)]
pub(super) struct Striped {
    /// Their number is a power of two.
    stripes: Box<[Stripe]>,
}

impl Striped {
    pub(super) fn new(stripes: usize) -> Self {
        let stripes = stripes.clamp(1, 1024).next_power_of_two();
        Self { stripes: (0..stripes).map(|_| Stripe(AtomicU64::new(0))).collect() }
    }

    #[inline(always)]
    pub(super) fn add(&self, stripe: usize, n: u64) {
        let stripe = &self.stripes[stripe & (self.stripes.len() - 1)];
        stripe.0.fetch_add(n, Ordering::AcqRel);
    }

    #[inline(always)]
    pub(super) fn total(&self) -> u64 {
        let load = |stripe: &Stripe| stripe.0.load(Ordering::Acquire);
        match &*self.stripes {
            [only] => load(only),
            stripes => stripes.iter().map(load).fold(0, u64::wrapping_add),
        }
    }

    pub(super) fn set(&mut self, total: u64) {
        for (index, stripe) in self.stripes.iter().enumerate() {
            stripe.0.store(if index == 0 { total } else { 0 }, Ordering::Release);
        }
    }
}
