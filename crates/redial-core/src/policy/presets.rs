//! Named policies for common kinds of calls.

use core::time::Duration;

use super::{Draft, Policy};
use crate::admit::budget::{Budget, TokenBudget, WindowBudget};
use crate::admit::{BreakerRule, CoolDownRule};
use crate::decide::{Class, RetryOn};
use crate::schedule::Backoff;
use crate::units::Rate;

/// A named policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// For most calls: 4 attempts, full jitter from 100 ms to 2 s, 10 s in all; a budget that
    /// [retries earn](crate::admit::budget::TokenBudget::earned), hedges beside attempts that a later one has overtaken, and
    /// [fewer calls](crate::admit::StallRule) to a destination that answers nothing.
    Standard,
    /// The default before it, for comparison: as [`Standard`](Self::Standard), with a budget of a tenth of the
    /// calls, and neither hedges nor a stall rule.
    Standard01,
    /// The configuration of a published text: 4 attempts of at most 150 ms, 100 ms to 2 s, 2 s in all. It fails every call
    /// that takes longer than 150 ms.
    FraudScore,
    /// Payments: 4 attempts, 500 ms to 20 s, a minute in all, and a circuit breaker. Needs an idempotency key. Of the
    /// statuses, only 429, 500 and 503 are repeated; a 402 is final.
    PaymentProcessor,
    /// A public web API: 4 attempts, 500 ms to 30 s.
    Web,
    /// Controllers: 4 attempts, 200 ms to 10 s.
    ControlPlane,
    /// One of millions of video players: 2 attempts, and one retry of the same segment in 30 s.
    Player,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Standard,
        Self::Standard01,
        Self::FraudScore,
        Self::PaymentProcessor,
        Self::Web,
        Self::ControlPlane,
        Self::Player,
    ];

    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Standard01 => "standard-0.1",
            Self::FraudScore => "fraud-score",
            Self::PaymentProcessor => "payment-processor",
            Self::Web => "web",
            Self::ControlPlane => "control-plane",
            Self::Player => "player",
        }
    }

    /// What it is for, in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Standard => "for most calls; the default",
            Self::Standard01 => {
                "the default before it, with a budget of a tenth of the calls; for comparison"
            }
            Self::FraudScore => {
                "the configuration of a published text; every call that takes longer than 150 ms fails"
            }
            Self::PaymentProcessor => {
                "payments: needs an idempotency key, and has a circuit breaker"
            }
            Self::Web => "a public web API: longer waits, a minute in all",
            Self::ControlPlane => "controllers: half a minute in all",
            Self::Player => "one of millions of video players: one retry in 30 s",
        }
    }

    /// The preset with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its settings.
    pub fn draft(self) -> Draft {
        let backoff = |base, cap| Backoff::exponential(ms(base), ms(cap));
        let tenth = Draft::default()
            .budget(Budget::default())
            .without_hedge()
            .without_stall()
            .without_park();
        let floor = |rate| Budget::Window(WindowBudget::default().floor(rate));
        let draft = Draft::default();
        match self {
            Self::Standard => draft,
            Self::Standard01 => tenth,
            Self::FraudScore => tenth
                .attempt_timeout(ms(150))
                .deadline(ms(2_000))
                .budget(floor(Rate::per_second(10)))
                .retry_on(wire().code(408).code(429).code(502).code(503).code(504)),
            // A lost reply to a payment is a timeout, and the breaker bounds what retries after timeouts do to a backend.
            Self::PaymentProcessor => draft
                .without_hedge()
                .budget(cheap_timeouts())
                .backoff(backoff(500, 20_000))
                .deadline(ms(60_000))
                .require_key()
                .breaker(BreakerRule::default())
                .retry_on(wire().code(429).code(500).code(503)),
            Self::Web => draft.backoff(backoff(500, 30_000)).deadline(ms(60_000)),
            Self::ControlPlane => draft.backoff(backoff(200, 10_000)).deadline(ms(30_000)),
            // One of millions makes few calls, so the opening balance is nearly all that it has.
            Self::Player => draft
                .attempts(2)
                .budget(cheap_timeouts())
                .backoff(backoff(1_000, 4_000))
                .cooldown(CoolDownRule::every(ms(30_000))),
        }
    }
}

impl From<Preset> for Policy {
    fn from(preset: Preset) -> Self {
        // The presets are constants, and a test validates each of them.
        Self(preset.draft())
    }
}

impl Policy {
    /// The default: [`Preset::Standard`].
    pub fn standard() -> Self {
        Preset::Standard.into()
    }
}

/// The default budget, with retries after timeouts at the price of others.
fn cheap_timeouts() -> Budget {
    Budget::Tokens(TokenBudget::earned().timeout_cost(20))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Failures without a response.
fn wire() -> RetryOn {
    let classes = [Class::Connect, Class::Refused, Class::Reset, Class::Timeout];
    classes.into_iter().fold(RetryOn::nothing(), RetryOn::class)
}
