use std::num::NonZeroU16;
use std::time::Duration;

use redial_core::admit::BreakerState;
use redial_core::decide::Failure;
#[cfg(feature = "metrics")]
use redial_core::storm::Level;

/// The subject of a line.
#[derive(Clone, Copy)]
pub(super) enum About {
    FirstFailure,
    BackoffGrowing,
    RepeatedFailure,
    Recovered,
    BudgetDry,
    Parked,
    Released,
    NotParked,
    BreakerMoved(BreakerState),
    #[cfg(feature = "metrics")]
    StormLevel {
        to: Level,
        rose: bool,
    },
}

impl About {
    /// The index among the transitions of a key.
    pub(super) fn of_key(self) -> usize {
        match self {
            Self::FirstFailure => 0,
            Self::BackoffGrowing => 1,
            Self::RepeatedFailure => 2,
            _ => 3,
        }
    }

    /// The index among the changes of an upstream.
    pub(super) fn kind(self) -> usize {
        match self {
            Self::BreakerMoved(BreakerState::Closed) => 1,
            Self::BreakerMoved(BreakerState::Open) => 2,
            Self::BreakerMoved(BreakerState::HalfOpen) => 3,
            #[cfg(feature = "metrics")]
            Self::StormLevel { to, .. } => 4 + to as usize,
            Self::Parked => 8,
            Self::Released => 9,
            Self::NotParked => 10,
            _ => 0,
        }
    }

    /// What it is a state of: the breaker or the storm.
    pub(super) fn subject(self) -> Option<usize> {
        match self {
            Self::BreakerMoved(_) => Some(0),
            #[cfg(feature = "metrics")]
            Self::StormLevel { .. } => Some(1),
            _ => None,
        }
    }

    /// Its name and its message.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::FirstFailure => ("first-failure", "first failed attempt of a key"),
            Self::BackoffGrowing => ("backoff-growing", "the backoff of a key grows"),
            Self::RepeatedFailure => ("repeated-failure", "consecutive calls of a key give up"),
            Self::Recovered => ("recovered", "a key has recovered"),
            Self::BudgetDry => (
                "budget-dry",
                "the retry budget is empty, a retry was refused; successes earn more",
            ),
            Self::Parked => ("parked", "a call waits until the destination is back"),
            Self::Released => ("released", "a parked call goes on"),
            Self::NotParked => ("not-parked", "a call fails at once, because it must not wait"),
            Self::BreakerMoved(_) => ("breaker-moved", "the circuit breaker changed its state"),
            #[cfg(feature = "metrics")]
            Self::StormLevel { .. } => ("storm-level", "the storm level changed"),
        }
    }

    fn is_bad(self) -> bool {
        match self {
            Self::RepeatedFailure | Self::BudgetDry => true,
            Self::BreakerMoved(to) => to == BreakerState::Open,
            #[cfg(feature = "metrics")]
            Self::StormLevel { rose, .. } => rose,
            Self::FirstFailure | Self::BackoffGrowing | Self::Recovered => false,
            Self::Parked | Self::Released | Self::NotParked => false,
        }
    }
}

/// The fields of a line, where known.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) key: Option<u64>,
    pub(super) attempt: Option<u32>,
    pub(super) delay: Option<Duration>,
    pub(super) parked: Option<Duration>,
    pub(super) class: Option<&'static str>,
    pub(super) code: Option<u16>,
    pub(super) stop: Option<&'static str>,
    pub(super) reason: Option<&'static str>,
    pub(super) failures: Option<u64>,
    pub(super) state: Option<&'static str>,
    pub(super) level: Option<&'static str>,
    pub(super) multiplier: Option<f64>,
    pub(super) suppressed: u64,
}

impl Line {
    pub(super) fn of(failure: &Failure) -> Self {
        let code = failure.code.map(NonZeroU16::get);
        Self { class: Some(failure.class.name()), code, ..Self::default() }
    }

    pub(super) fn write(self, about: About, upstream: &str, others_suppressed: u64) {
        let (transition, message) = about.words();
        let Self { attempt, class, code, stop, failures, state, level, .. } = self;
        let Self { reason, multiplier, suppressed, .. } = self;
        let key = self.key.map(|key| format!("{key:016x}"));
        let ms = |duration: Option<Duration>| duration.map(|it| it.as_millis() as u64);
        let (key, delay_ms, parked_ms) = (key.as_deref(), ms(self.delay), ms(self.parked));
        macro_rules! write {
            ($write:ident) => {
                tracing::$write!(
                    target: "redial", transition, upstream, key, attempt, delay_ms, parked_ms, class, code, stop,
                    reason, failures, state, level, multiplier, suppressed, others_suppressed, "{message}"
                )
            };
        }
        if about.is_bad() { write!(warn) } else { write!(info) }
    }
}
