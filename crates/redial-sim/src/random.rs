use core::convert::Infallible;

use rand_core::TryRng;
use redial_core::{Span, draw};

/// A stream of random numbers, for the distributions of `rand_distr`. It uses the generator of the engine, so that
/// one seed determines a run on any machine.
#[derive(Clone, Debug)]
pub struct Stream {
    seed: u64,
    drawn: u64,
}

impl Stream {
    /// The stream with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// An independent stream, with this number.
    #[must_use]
    pub fn of(&self, number: u64) -> Self {
        Self::new(draw(self.seed ^ 0x5eed_0f5e_ed0f_5eed, number))
    }

    /// The next 64 bits: the seed of a call, for example.
    pub fn bits(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, self.drawn)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// A number from 0 to 1, without 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// A random integer from `low` to `high`, both included. The range must not be that of all integers.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + below(self.bits(), high - low + 1)
    }

    /// A random length of time from `low` to `high`, both included.
    #[inline]
    pub fn span_between(&mut self, low: Span, high: Span) -> Span {
        Span::from_nanos(self.between(low.as_nanos(), high.as_nanos()))
    }
}

/// A number from 0 to 1, without 1, from 64 random bits.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A uniform number below `count`, from 64 random bits.
#[inline]
pub(crate) fn below(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
