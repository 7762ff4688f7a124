//! When is the next attempt?
//!
//! Callers that fail together and wait equally long retry together: a thundering herd. The wait has four
//! parts, each a file here. The [`Backoff`] gives the k-th retry a ceiling; the [`Jitter`] turns the
//! ceiling into a range to draw from; the server's [`Hint`] is a lower bound; and the deadline is an upper
//! bound. A [`HedgeRule`] sends an attempt without waiting for the end of the one before.

mod backoff;
pub(crate) mod deadline;
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

use crate::policy::Policy;
use crate::random;
use crate::stop::Stop;
use crate::units::{Nanos, nanos, share};

/// How long to wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The wait itself.
    pub delay: Nanos,
    /// What the backoff drew, before any hint. The next decorrelated range builds on it.
    pub drawn: Nanos,
    /// Whether a hint was honoured. The wait may be longer than the hint, which is a floor.
    pub hinted: bool,
}

/// The wait before retry `k` (from 1), a pure function. `left` is the time until the deadline of the call.
pub fn wait(
    policy: &Policy,
    k: u32,
    previous: Nanos,
    hint: Option<Hint>,
    left: Nanos,
    seed: u64,
) -> Result<Wait, Stop> {
    let backoff = policy.backoff();
    let drawn = backoff.delay(k, previous, seed);
    let plain = Wait { delay: drawn, drawn, hinted: false };
    let rule = policy.hint_rule();
    let HintRule::Honour { cap, too_long, .. } = rule else { return Ok(plain) };
    let Some(hint) = hint else { return Ok(plain) };

    let after = capped(hint, *cap, *too_long)?;
    let delay = if hint.is_exact() {
        after
    } else {
        let latest = latest(policy, after, left);
        drawn.max(random::uniform(after, latest, random::draw(!seed, u64::from(k))))
    };
    Ok(Wait { delay, drawn, hinted: true })
}

/// The bulk form of [`wait`], for many equal callers: the range on which the wait before retry `k` is
/// uniform. `None` if it is not uniform, because the jitter is normal, it depends on earlier waits, draws are clipped, or a
/// hint falls inside the backoff's range.
pub fn range(
    policy: &Policy,
    k: u32,
    hint: Option<Hint>,
    left: Nanos,
) -> Result<Option<Range>, Stop> {
    let backoff = policy.backoff();
    let drawn = backoff.range(k, 0);
    let is_uniform = backoff.is_uniform() && !backoff.remembers() && drawn.hi <= backoff.cap;
    let plain = is_uniform.then_some(drawn);
    let HintRule::Honour { cap, too_long, .. } = policy.hint_rule() else { return Ok(plain) };
    let Some(hint) = hint else { return Ok(plain) };

    let lo = capped(hint, *cap, *too_long)?;
    let hi = if hint.is_exact() { lo } else { latest(policy, lo, left) };
    Ok(if hint.is_exact() || drawn.hi.min(backoff.cap) <= lo {
        Some(Range { lo, hi })
    } else {
        plain.filter(|drawn| drawn.lo >= hi)
    })
}

/// The wait that a hint asks for, within its cap.
fn capped(hint: Hint, cap: Nanos, too_long: TooLong) -> Result<Nanos, Stop> {
    let after = nanos(hint.after());
    match (after > cap, too_long) {
        (false, _) => Ok(after),
        (true, TooLong::Clip) => Ok(cap),
        (true, TooLong::Stop) => Err(Stop::HintTooLong),
    }
}

/// The end of the range over which callers with this hint are spread. It leaves the attempt its timeout, or a quarter of
/// the time between the hint and the deadline if that is less.
fn latest(policy: &Policy, after: Nanos, left: Nanos) -> Nanos {
    let spread = policy.hint_rule().spread(policy.backoff().jitter);
    let room = left.saturating_sub(after);
    let attempt = policy.attempt_timeout_nanos().min(room / 4);
    after.saturating_add(share(spread, after).min(room - attempt))
}
