use super::{FRESH, SLICES};
use crate::time::{Span, Time};
use crate::units::ONE;

/// What an instance has earned and neither spent nor deposited, in billionths of a token: never more than it earned in
/// the last ttl, or one token if that is less. Without the second limit, an instance that earns a token in twenty
/// seconds would never have one.
#[derive(Debug)]
pub(super) struct Earnings {
    slice: Span,
    level: u64,
    /// Earnings of each of the last slices.
    earned: [u64; SLICES],
    /// The newest slice.
    current: u64,
}

impl Earnings {
    pub(super) fn new(ttl: Span) -> Self {
        Self { slice: slice(ttl), level: 0, earned: [0; SLICES], current: 0 }
    }

    pub(super) fn set_ttl(&mut self, ttl: Span) {
        if self.slice != slice(ttl) {
            *self = Self::new(ttl);
        }
    }

    /// Adds what was earned since `from`, spread evenly: the last call may be a long time ago.
    pub(super) fn earn(&mut self, amount: u64, from: Time, now: Time) {
        let current = (now.since_zero() / self.slice).max(self.current);
        let oldest = current.saturating_sub(SLICES as u64 - 1);
        for gone in oldest.max(self.current + 1)..=current {
            self.earned[gone as usize % SLICES] = 0;
        }
        self.current = current;
        let from = from.min(now - Span::from_nanos(1));
        let nanos = |span: Span| u128::from(span.as_nanos());
        let all = nanos(now - from).max(1);
        let until =
            |at: Time| (u128::from(amount) * nanos(at.clamp(from, now) - from) / all) as u64;
        for slice in oldest.max(from.since_zero() / self.slice)..=current {
            let begins = Time::at(self.slice * slice);
            let part = until(begins + self.slice) - until(begins);
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

fn slice(ttl: Span) -> Span {
    (ttl / SLICES as u64).max(Span::from_nanos(1))
}
