use core::time::Duration;

use super::jitter::{Jitter, Range};
use crate::random;
use crate::time::Span;

/// How the ceiling grows from retry to retry.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Growth {
    /// base, base·factor, base·factor² …
    Exponential(f64),
    /// base, 2·base, 3·base …
    Linear,
    /// Always the base.
    Constant,
}

/// The waits between attempts: a ceiling that grows from `base` to `cap`, and the jitter below it.
///
/// Every constructor defaults to full jitter, and caps the range instead of the draw.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct Backoff {
    /// How the ceiling grows.
    pub growth: Growth,
    /// The first ceiling.
    pub base: Span,
    /// The longest wait.
    pub cap: Span,
    /// How a ceiling becomes a range.
    pub jitter: Jitter,
    /// Whether the draw is capped instead of the range.
    pub clip: bool,
}

impl Default for Backoff {
    /// Doubles from 100 ms to 2 s.
    fn default() -> Self {
        let growth = Growth::Exponential(2.0);
        Self {
            growth,
            base: Span::from_millis(100),
            cap: Span::from_secs(2),
            jitter: Jitter::Full,
            clip: false,
        }
    }
}

impl Backoff {
    /// Doubles from `base` up to `cap`.
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        Self { base: base.into(), cap: cap.into(), ..Self::default() }
    }

    /// Grows by `base` each time, up to `cap`.
    pub fn linear(base: Duration, cap: Duration) -> Self {
        Self { growth: Growth::Linear, ..Self::exponential(base, cap) }
    }

    /// The same ceiling every time.
    pub fn constant(base: Duration) -> Self {
        Self { growth: Growth::Constant, ..Self::exponential(base, base) }
    }

    /// Grows exponentially by this factor instead of 2.
    pub fn factor(self, factor: f64) -> Self {
        Self { growth: Growth::Exponential(factor), ..self }
    }

    /// Sets the jitter.
    pub fn jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// Caps the draw instead of the range, as AWS's decorrelated jitter does. Many callers then wait for
    /// exactly the cap; use it only to reproduce another system.
    pub fn clipped(self) -> Self {
        Self { clip: true, ..self }
    }

    /// The ceiling of retry `k` (from 1): base·factor^(k−1), base·k or base, never above the cap.
    #[inline]
    pub fn ceiling(&self, k: u32) -> Span {
        let steps = k.saturating_sub(1);
        match self.growth {
            Growth::Exponential(2.0) => {
                let (base, cap) = (self.base.as_nanos(), self.cap.as_nanos());
                let below_cap = steps < u64::BITS && cap >> steps >= base;
                if below_cap { Span::from_nanos(base << steps) } else { self.cap }
            }
            Growth::Exponential(factor) => self.power(factor, steps),
            Growth::Linear => (self.base * u64::from(k.max(1))).min(self.cap),
            Growth::Constant => self.base,
        }
    }

    fn power(&self, factor: f64, mut steps: u32) -> Span {
        let (mut grown, mut square) = (self.base.as_nanos_f64(), factor);
        while steps > 0 {
            if steps & 1 == 1 {
                grown *= square;
            }
            square *= square;
            steps >>= 1;
        }
        if grown < self.cap.as_nanos_f64() { Span::from_nanos_f64(grown + 0.5) } else { self.cap }
    }

    /// The range that the wait before retry `k` is drawn from. `previous` is the last drawn wait,
    /// zero before the first.
    #[inline]
    pub fn range(&self, k: u32, previous: Span) -> Range {
        let c = self.ceiling(k);
        let cap = if self.clip { Span::MAX } else { self.cap };
        let (lo, hi) = match self.jitter {
            Jitter::None => (c, c),
            Jitter::Full => (Span::ZERO, c),
            Jitter::Equal => (c / 2, c),
            Jitter::Decorrelated => (self.base, (previous.max(self.base) * 3).min(cap)),
            Jitter::Around(ratio) => {
                let off = c.share(ratio);
                (c - off, (c + off).min(cap))
            }
            Jitter::Added(most) => {
                let lo = c.min(cap - most);
                (lo, lo + most)
            }
            Jitter::Normal(sd) => {
                let off = c.share(sd * random::NORMAL_MOST);
                (c - off, (c + off).min(cap))
            }
        };
        Range { lo, hi: hi.max(lo) }
    }

    /// The longest wait before retry `k` after a wait of `previous`.
    pub fn longest(&self, k: u32, previous: Span) -> Span {
        self.range(k, previous).hi.min(self.cap)
    }

    /// Whether the draw from a range is uniform, apart from [clipping](Self::clipped).
    pub fn is_uniform(&self) -> bool {
        !matches!(self.jitter, Jitter::Normal(_))
    }

    /// Whether each range depends on the previous wait.
    pub fn remembers(&self) -> bool {
        self.jitter == Jitter::Decorrelated
    }

    /// The longest wait before any retry.
    pub fn cap(&self) -> Span {
        self.cap
    }

    /// The wait before retry `k`, drawn from [`Backoff::range`] with the `k`-th number of the stream
    /// that `seed` names.
    #[inline]
    pub fn delay(&self, k: u32, previous: Span, seed: u64) -> Span {
        let bits = random::draw(seed, u64::from(k));
        match self.jitter {
            // The usual range starts at 0 and is never clipped.
            Jitter::Full => random::uniform(Span::ZERO, self.ceiling(k), bits),
            _ => self.partial(k, previous, bits),
        }
    }

    /// How long a key or a job rests whose call has stopped: half of the cap, or up to all of it. Those that stop together
    /// do not start together. Then it makes [a single attempt](crate::Request::RESTED).
    pub fn rest(&self, seed: u64) -> Span {
        random::uniform(self.cap / 2, self.cap, random::draw(seed, 1))
    }

    #[inline(never)]
    fn partial(&self, k: u32, previous: Span, bits: u64) -> Span {
        let Range { lo, hi } = self.range(k, previous);
        if let Jitter::Normal(sd) = self.jitter {
            let wait = self.ceiling(k).as_nanos_f64() * (1.0 + sd * random::normal(bits));
            return Span::from_nanos_f64(wait).clamp(lo, hi).min(self.cap);
        }
        random::uniform(lo, hi, bits).min(self.cap)
    }
}
