use core::fmt;

/// Why a call ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stop {
    /// The failure is permanent, or not one that the policy repeats.
    Permanent,
    /// The request may have been processed, and nothing says that doing it twice is safe.
    Unsafe,
    /// All attempts are used up.
    Attempts,
    /// The next wait, or the next attempt, does not fit before the deadline.
    Deadline,
    /// The server asks for a longer wait than the policy allows.
    HintTooLong,
    /// The retry budget is empty.
    Budget,
    /// The circuit breaker is open.
    BreakerOpen,
    /// The adaptive throttle refused the attempt.
    Throttled,
    /// Only timeouts come back, so some calls are not sent.
    Stalled,
    /// The rate limit refused the attempt.
    RateLimit,
    /// The concurrency limit refused the attempt.
    Concurrency,
    /// The same key was retried a moment ago.
    CoolDown,
    /// A layer below asked not to retry.
    ToldToStop,
    /// Retries are switched off.
    SwitchedOff,
    /// The request is itself a retry of a layer above, and the policy does not retry those.
    Nested,
    /// The body of the request was consumed, or is too large to be kept for another attempt.
    Body,
    /// The caller went away.
    Cancelled,
}

impl Stop {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Permanent,
        Self::Unsafe,
        Self::Attempts,
        Self::Deadline,
        Self::HintTooLong,
        Self::Budget,
        Self::BreakerOpen,
        Self::Throttled,
        Self::Stalled,
        Self::RateLimit,
        Self::Concurrency,
        Self::CoolDown,
        Self::ToldToStop,
        Self::SwitchedOff,
        Self::Nested,
        Self::Body,
        Self::Cancelled,
    ];

    const NAMES: [(&'static str, &'static str); 17] = [
        ("permanent", "the failure is not one that the policy repeats"),
        (
            "unsafe",
            "the request may have been processed, and is not idempotent, keyed or conditional",
        ),
        ("attempts", "all attempts were used"),
        ("deadline", "the deadline leaves no time for another attempt"),
        ("hint-too-long", "the server asks for a longer wait than the policy allows"),
        ("budget", "the retry budget is dry"),
        ("breaker-open", "the circuit breaker is open"),
        ("throttled", "the adaptive throttle refused the attempt"),
        ("stalled", "only timeouts come back, so some calls are not sent"),
        ("rate-limit", "the rate limit refused the attempt"),
        ("concurrency", "the concurrency limit refused the attempt"),
        ("cool-down", "the same key was retried a moment ago"),
        ("told-to-stop", "a layer below asked not to retry"),
        ("switched-off", "retries are switched off"),
        ("nested", "the request is itself a retry of a layer above"),
        ("body", "the body of the request cannot be sent again"),
        ("cancelled", "the call was cancelled"),
    ];

    /// The name in events and metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Whether a guard refused the attempt: the budget, the breaker, the throttle, a stall, a limit or the cool-down. That says
    /// nothing about the request, and the same attempt may be admitted later.
    pub fn is_guard(self) -> bool {
        matches!(
            self,
            Self::Budget
                | Self::BreakerOpen
                | Self::Throttled
                | Self::Stalled
                | Self::RateLimit
                | Self::Concurrency
                | Self::CoolDown
        )
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].1)
    }
}
