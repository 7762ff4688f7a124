use super::{FRESH, SLICES};
use crate::units::{Nanos, ONE};

/// What an instance has earned and neither spent nor deposited, in billionths of a token: never more than it earned in
/// the last ttl, or one token if that is less. Without the second limit, an instance that earns a token in twenty
/// seconds would never have one.
#[derive(Debug)]
pub(super) struct Earnings {
    slice: Nanos,
    level: u64,
    /// Earnings of each of the last slices.
    earned: [u64; SLICES],
    /// The newest slice.
    current: u64,
}

impl Earnings {
    pub(super) fn new(ttl: Nanos) -> Self {
        Self { slice: slice(ttl), level: 0, earned: [0; SLICES], current: 0 }
    }

    pub(super) fn set_ttl(&mut self, ttl: Nanos) {
        if self.slice != slice(ttl) {
            *self = Self::new(ttl);
        }
    }

    /// Adds what was earned since `from`, spread evenly: the last call may be a long time ago.
    pub(super) fn earn(&mut self, amount: u64, from: Nanos, now: Nanos) {
        let current = (now / self.slice).max(self.current);
        let oldest = current.saturating_sub(SLICES as u64 - 1);
        for gone in oldest.max(self.current + 1)..=current {
            self.earned[gone as usize % SLICES] = 0;
        }
        self.current = current;
        let from = from.min(now.saturating_sub(1));
        let span = u128::from((now - from).max(1));
        let until =
            |at: Nanos| (u128::from(amount) * u128::from(at.clamp(from, now) - from) / span) as u64;
        for slice in oldest.max(from / self.slice)..=current {
            let (begins, ends) = (slice * self.slice, (slice + 1).saturating_mul(self.slice));
            let part = until(ends) - until(begins);
            let earned = &mut self.earned[slice as usize % SLICES];
            *earned = earned.saturating_add(part);
            self.level = self.level.saturating_add(part);
        }
        self.level = self.level.min(self.over(SLICES).max(ONE));
    }

    /// Takes up to `n` whole tokens.
    pub(super) fn mint(&mut self, n: u64) -> u64 {
        let minted = n.min(self.level / ONE);
        self.level -= minted * ONE;
        minted
    }

    /// Takes everything, to be deposited. Earnings older than [`FRESH`] slices are lost, because a deposit would extend
    /// their life.
    pub(super) fn give(&mut self) -> u64 {
        core::mem::take(&mut self.level).min(self.over(FRESH))
    }

    /// Earnings over the last `slices` slices.
    fn over(&self, slices: usize) -> u64 {
        let newest = (0..slices as u64).map(|back| self.current.wrapping_sub(back));
        newest.map(|slice| self.earned[slice as usize % SLICES]).fold(0, u64::saturating_add)
    }
}

fn slice(ttl: Nanos) -> Nanos {
    (ttl / SLICES as u64).max(1)
}
