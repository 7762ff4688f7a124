//! When is the next attempt?
//!
//! Callers that fail together and wait equally long retry together: a thundering herd. The wait has four
//! parts, each a file here. The [`Backoff`] gives the k-th retry a ceiling; the [`Jitter`] turns the
//! ceiling into a range to draw from; the server's [`Hint`] is a lower bound; and the deadline is an upper
//! bound. A [`HedgeRule`] sends an attempt without waiting for the end of the one before.

mod backoff;
mod hedge;
mod hint;
mod jitter;
mod latency;

pub use backoff::{Backoff, Growth};
pub use hedge::{HedgeDelay, HedgeRule};
pub use hint::{Hint, HintRule, TooLong};
pub use jitter::{Jitter, Range};
pub use latency::Latency;

pub(crate) use hedge::HedgeTimer;

use crate::random;
use crate::stop::Stop;
use crate::time::{Span, TimeLimit};

/// How long to wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The wait itself.
    pub delay: Span,
    /// What the backoff drew, before any hint. The next decorrelated range builds on it.
    pub drawn: Span,
    /// Whether a hint was honoured. The wait may be longer than the hint, which is a floor.
    pub hinted: bool,
}

/// What of a policy decides when the next attempt is.
#[derive(Clone, Copy, Debug)]
pub struct Schedule<'a> {
    pub(crate) backoff: &'a Backoff,
    pub(crate) hint_rule: &'a HintRule,
    pub(crate) attempt_timeout: TimeLimit,
}

impl Schedule<'_> {
    /// The wait before retry `k` (from 1), a pure function. `left` is the time until the deadline of the call.
    pub fn wait(
        self,
        k: u32,
        previous: Span,
        hint: Option<Hint>,
        left: TimeLimit,
        seed: u64,
    ) -> Result<Wait, Stop> {
        let drawn = self.backoff.delay(k, previous, seed);
        let plain = Wait { delay: drawn, drawn, hinted: false };
        let HintRule::Honour { cap, too_long, .. } = self.hint_rule else { return Ok(plain) };
        let Some(hint) = hint else { return Ok(plain) };

        let after = capped(hint, *cap, *too_long)?;
        let delay = if hint.is_exact() {
            after
        } else {
            let latest = self.latest(after, left);
            drawn.max(random::uniform(after, latest, random::draw(!seed, u64::from(k))))
        };
        Ok(Wait { delay, drawn, hinted: true })
    }

    /// The bulk form of [`wait`](Self::wait), for many equal callers: the range on which the wait before retry `k` is
    /// uniform. `None` if it is not uniform, because the jitter is normal, it depends on earlier waits, draws are clipped,
    /// or a hint falls inside the backoff's range.
    pub fn range(self, k: u32, hint: Option<Hint>, left: TimeLimit) -> Result<Option<Range>, Stop> {
        let backoff = self.backoff;
        let drawn = backoff.range(k, Span::ZERO);
        let is_uniform = backoff.is_uniform() && !backoff.remembers() && drawn.hi <= backoff.cap;
        let plain = is_uniform.then_some(drawn);
        let HintRule::Honour { cap, too_long, .. } = self.hint_rule else { return Ok(plain) };
        let Some(hint) = hint else { return Ok(plain) };

        let lo = capped(hint, *cap, *too_long)?;
        let hi = if hint.is_exact() { lo } else { self.latest(lo, left) };
        Ok(if hint.is_exact() || drawn.hi.min(backoff.cap) <= lo {
            Some(Range { lo, hi })
        } else {
            plain.filter(|drawn| drawn.lo >= hi)
        })
    }

    /// The end of the range over which callers with this hint are spread. It leaves the attempt its timeout, or a quarter
    /// of the time between the hint and the deadline if that is less.
    fn latest(self, after: Span, left: TimeLimit) -> Span {
        let spread = self.hint_rule.spread(self.backoff.jitter);
        let room = left.cap(Span::MAX) - after;
        let attempt = self.attempt_timeout.cap(room / 4);
        after + after.share(spread).min(room - attempt)
    }
}

/// The wait that a hint asks for, within its cap.
fn capped(hint: Hint, cap: Span, too_long: TooLong) -> Result<Span, Stop> {
    let after = Span::from(hint.after());
    match (after > cap, too_long) {
        (false, _) => Ok(after),
        (true, TooLong::Clip) => Ok(cap),
        (true, TooLong::Stop) => Err(Stop::HintTooLong),
    }
}
