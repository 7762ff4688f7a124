//! The policy: validated, immutable settings that all other modules read.
//!
//! A [`Draft`] holds unchecked settings, from code or from a file. [`Draft::build`] validates all of them once
//! and returns a [`Policy`]; no other code checks again.

mod fields;
mod limits;
mod parts;
mod presets;
mod validate;
mod worst;

pub use presets::Preset;
pub use worst::WorstCase;

use alloc::string::String;
use core::time::Duration;

use crate::admit::budget::{Budget, TokenBudget};
use crate::admit::{BreakerRule, CoolDownRule, ParkRule, RateRule, StallRule, ThrottleRule};
use crate::decide::RetryOn;
use crate::invalid::Invalid;
use crate::schedule::{Backoff, HedgeRule, HintRule};
use crate::time::{Span, TimeLimit};

/// A policy that has not been checked yet.
///
/// Defaults, the same as [`Policy::standard`]: 4 attempts in all; a deadline of 10 s, and no separate timeout for an
/// attempt or a connection; full jitter, doubling from 100 ms to 2 s; hints honoured up to a minute; up to three hedges,
/// each after a third of the time that is left, beside an attempt that a later one has overtaken; a budget that retries
/// [earn](TokenBudget::earned), and calls that park while it cannot pay; calls held back from a destination that
/// [answers nothing](StallRule); every transient failure retried; no breaker, throttle, limit or cool-down; no key required.
///
/// ```
/// # extern crate redial_core as redial;
/// use std::time::Duration;
///
/// use redial::Policy;
/// use redial::admit::BreakerRule;
///
/// # fn main() -> Result<(), redial::Invalid> {
/// let policy = Policy::draft()
///     .attempts(3)
///     .attempt_timeout(Duration::from_millis(300))
///     .breaker(BreakerRule::default())
///     .build()?;
/// assert_eq!(policy.attempts(), 3);
/// let error = policy.edit().attempts(0).build().unwrap_err();
/// assert_eq!(error.field(), "attempts");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct Draft {
    attempts: u32,
    attempt_timeout: TimeLimit,
    connect_timeout: TimeLimit,
    deadline: TimeLimit,
    backoff: Backoff,
    hint: HintRule,
    #[cfg_attr(feature = "serde", serde(with = "crate::text::switch"))]
    hedge: Option<HedgeRule>,
    budget: Budget,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    fleet: Option<String>,
    retry_on: RetryOn,
    require_key: bool,
    refuse_nested: bool,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    breaker: Option<BreakerRule>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    throttle: Option<ThrottleRule>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    rate: Option<RateRule>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    concurrency: Option<u32>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    cooldown: Option<CoolDownRule>,
    #[cfg_attr(feature = "serde", serde(with = "crate::text::switch"))]
    stall: Option<StallRule>,
    #[cfg_attr(feature = "serde", serde(with = "crate::text::switch"))]
    park: Option<ParkRule>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            attempts: 4,
            attempt_timeout: TimeLimit::NONE,
            connect_timeout: TimeLimit::NONE,
            deadline: Span::from_secs(10).into(),
            backoff: Backoff::default(),
            hint: HintRule::default(),
            hedge: Some(HedgeRule::share(1.0 / 3.0).at_most(3).if_overtaken()),
            budget: Budget::Tokens(TokenBudget::earned()),
            fleet: None,
            retry_on: RetryOn::transient(),
            require_key: false,
            refuse_nested: false,
            breaker: None,
            throttle: None,
            rate: None,
            concurrency: None,
            cooldown: None,
            stall: Some(StallRule::default()),
            park: Some(ParkRule::default()),
        }
    }
}

impl Draft {
    /// Only a number of attempts: no deadline, no budget, hints ignored. Many other systems default to this.
    pub fn bare(attempts: u32) -> Self {
        let bare = Self { budget: Budget::None, hint: HintRule::Ignore, ..Self::default() };
        bare.attempts(attempts).without_deadline().without_hedge().without_stall().without_park()
    }

    /// Attempts in all, the first one included.
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Times an attempt out after this long, or at the deadline if that comes first.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        Self { attempt_timeout: timeout.into(), ..self }
    }

    /// Lets an attempt run until the deadline.
    pub fn without_attempt_timeout(self) -> Self {
        Self { attempt_timeout: TimeLimit::NONE, ..self }
    }

    /// Times connecting out after this long, or with the attempt if that comes first. A request without a
    /// connection was not sent, so it can always be repeated.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout.into(), ..self }
    }

    /// Bounds the whole call, attempts and waits together.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Bounds the call only by its attempts.
    pub fn without_deadline(self) -> Self {
        Self { deadline: TimeLimit::NONE, ..self }
    }

    /// Sets the waits between attempts.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets how hints of the server are handled.
    pub fn hint(self, hint: HintRule) -> Self {
        Self { hint, ..self }
    }

    /// Sends another attempt beside a slow one. Hedges count as attempts, and draw on the same budget as retries.
    pub fn hedge(self, rule: HedgeRule) -> Self {
        Self { hedge: Some(rule), ..self }
    }

    /// Sends no attempt beside a slow one.
    pub fn without_hedge(self) -> Self {
        Self { hedge: None, ..self }
    }

    /// Sets the budget, which bounds the retries of all calls together.
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Makes the budget, which has to be a window, one for all instances of this fleet. The policy only carries the name:
    /// until its runner is given the fleet's ledger, the budget is that of one process.
    pub fn fleet(self, name: impl Into<String>) -> Self {
        Self { fleet: Some(name.into()), ..self }
    }

    /// Gives every instance a budget of its own.
    pub fn without_fleet(self) -> Self {
        Self { fleet: None, ..self }
    }

    /// Sets which failures are repeated.
    pub fn retry_on(self, retry_on: RetryOn) -> Self {
        Self { retry_on, ..self }
    }

    /// Repeats a request that may have been processed only if it carries an idempotency key or only reads; an
    /// idempotent method is not enough.
    pub fn require_key(self) -> Self {
        Self { require_key: true, ..self }
    }

    /// Does not retry on behalf of a request that is itself a retry: the layer above retries already.
    pub fn refuse_nested(self) -> Self {
        Self { refuse_nested: true, ..self }
    }

    /// Stops calling a destination that fails.
    pub fn breaker(self, rule: BreakerRule) -> Self {
        Self { breaker: Some(rule), ..self }
    }

    /// Refuses attempts locally while the server rejects most of them.
    pub fn throttle(self, rule: ThrottleRule) -> Self {
        Self { throttle: Some(rule), ..self }
    }

    /// Limits the rate of attempts.
    pub fn rate(self, rule: RateRule) -> Self {
        Self { rate: Some(rule), ..self }
    }

    /// Limits the number of attempts in flight.
    pub fn concurrency(self, attempts: u32) -> Self {
        Self { concurrency: Some(attempts), ..self }
    }

    /// Limits how often the same key is retried.
    pub fn cooldown(self, rule: CoolDownRule) -> Self {
        Self { cooldown: Some(rule), ..self }
    }

    /// Allows any number of retries for a key.
    pub fn without_cooldown(self) -> Self {
        Self { cooldown: None, ..self }
    }

    /// Holds calls back while a destination answers nothing.
    pub fn stall(self, rule: StallRule) -> Self {
        Self { stall: Some(rule), ..self }
    }

    /// Sends calls to a destination that answers nothing, too.
    pub fn without_stall(self) -> Self {
        Self { stall: None, ..self }
    }

    /// Lets a call whose retry cannot be paid for wait for evidence, instead of failing at once.
    pub fn park(self, rule: ParkRule) -> Self {
        Self { park: Some(rule), ..self }
    }

    /// Fails a call at once if its retry cannot be paid for.
    pub fn without_park(self) -> Self {
        Self { park: None, ..self }
    }

    /// Validates all fields.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, its value, and the range: durations are above
    /// zero and at most 366 days, ratios from 0 to 1, counts at least 1; `backoff.base` is at most
    /// `backoff.cap`, `attempt_timeout` at most `deadline`, and `connect_timeout` at most both; only a window budget
    /// has a `fleet`.
    pub fn build(self) -> Result<Policy, Invalid> {
        validate::check(&self)?;
        Ok(Policy(self))
    }
}

/// A validated policy: how many attempts, when, which of them are safe, and what they may cost.
///
/// ```
/// # extern crate redial_core as redial;
/// use std::time::Duration;
///
/// use redial::{Policy, Preset};
///
/// # fn main() -> Result<(), redial::Invalid> {
/// let standard = Policy::standard();
/// assert_eq!(standard.worst_case().elapsed, Some(Duration::from_secs(10)));
/// let web = Policy::from(Preset::Web).edit().deadline(Duration::from_secs(2)).build()?;
/// assert_eq!(web.deadline(), Some(Duration::from_secs(2)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Draft", into = "Draft"))]
pub struct Policy(Draft);

impl TryFrom<Draft> for Policy {
    type Error = Invalid;

    fn try_from(draft: Draft) -> Result<Self, Invalid> {
        draft.build()
    }
}

impl From<Policy> for Draft {
    fn from(policy: Policy) -> Self {
        policy.0
    }
}

impl Policy {
    /// Starts from the defaults of [`Draft`].
    pub fn draft() -> Draft {
        Draft::default()
    }

    /// Starts from this policy.
    pub fn edit(&self) -> Draft {
        self.0.clone()
    }
}
