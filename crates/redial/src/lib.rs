//! Retries that never become a storm.
//!
//! A [`Policy`] defines what is repeated, when, and how many retries a destination may get. A [`Retry`] runs calls under a
//! policy. Keep one `Retry` per destination, in a struct or a static: its clones share one budget.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use redial::{Policy, Retry};
//!
//! # async fn fetch_score(attempt: redial::Attempt) -> std::io::Result<u32> {
//! #     let refused = std::io::ErrorKind::ConnectionRefused;
//! #     if attempt.number() == 1 { Err(refused.into()) } else { Ok(7) }
//! # }
//! let retry = Retry::new(Policy::standard()); // 4 attempts, full jitter, 10 s; retries earn their budget
//! let score = retry.run(|attempt| fetch_score(attempt)).await.unwrap();
//! # assert_eq!(score, 7);
//! # }
//! ```
//!
//! # First steps
//!
//! - Classify errors: implement [`Classify`](decide::Classify) for your error type, or pass a predicate to
//!   [`retry_if`](Retry::retry_if).
//! - Declare what is safe: a request that may have reached the server is repeated only after
//!   [`idempotent`](Retry::idempotent), [`keyed`](Retry::keyed) or [`conditional`](Retry::conditional).
//! - Change the policy: [`Policy::edit`] and [`Draft::build`].
//! - Make calls: `Retry::run` on tokio, [`run_blocking`](Retry::run_blocking) without a runtime,
//!   [`until`](Retry::until) to poll.
//! - Separate destinations: [`scope`](Retry::scope). Observe calls: [`observe`](Retry::observe). Share a budget with other
//!   code: [`RetryBudget`].
//!
//! Under the default, [`Policy::standard`], retries are paid for by successes, a call that cannot be paid for waits until a
//! later one succeeds, a slow attempt is hedged once a later one has overtaken it, and calls are held back from a
//! destination that answers nothing: [`concepts::admit`].
//!
//! HTTP and gRPC layers classify errors and decide about safety by themselves:
//!
//! - A client gets a `RetryLayer`, reqwest `send_with`, tonic a `RetryChannel`: module `http`.
//! - A POST gets a key: [`keyed`](Retry::keyed). Reads and writes can have different policies: `RetryLayer::route`.
//! - A server gets a `DeadlineLayer`, a `ShedLayer` and an `IdempotencyLayer`: module `http::server`.
//!
//! ```
//! use std::time::Duration;
//! use redial::schedule::Backoff;
//! use redial::{Policy, Retry};
//!
//! # fn main() -> Result<(), redial::Invalid> {
//! let policy = Policy::standard()
//!     .edit()
//!     .attempts(3)
//!     .attempt_timeout(Duration::from_millis(150))
//!     .deadline(Duration::from_secs(2))
//!     .backoff(Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1)))
//!     .build()?;
//! assert_eq!(policy.worst_case().elapsed, Some(Duration::from_millis(600))); // 3·150 + 50 + 100 ms
//! let retry = Retry::new(policy).idempotent();
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` (on by default) | the async runner and hedging |
//! | `serde` | policies as text |
//! | `http` | classifies responses, headers and hints of HTTP and gRPC |
//! | `http-client` | `http`, and the retry layer for hyper and any other tower client |
//! | `reqwest` | `http-client`, and `send_with` for reqwest |
//! | `reqwest-middleware` | `reqwest`, and a middleware for `reqwest-middleware` |
//! | `tonic` | `http-client`, and a retrying channel for gRPC clients |
//! | `http-server` | `http`, and the deadline and shed layers for axum and any other tower server |
//! | `idempotency` | `http-server`, and the idempotency layer with its store in memory |
//! | `redis` | `idempotency`, and a store in Redis that servers share |
//! | `fleet` | one budget for all instances of a service, kept in Redis |
//! | `tower` | [`RetryBudget`] as the budget of tower's own retry layer |
//! | `metrics` | meters for the crate `metrics`, and a detector of storms |
//! | `otel` | spans for OpenTelemetry, and gRPC's retry metrics with `http-client` |
//! | `tracing` | log lines for state changes |
//!
//! # Concepts
//!
//! [`decide`], [`schedule`] and [`admit`] are the three questions inside every retry; the pages are in
//! [`concepts`].

// In the order in which a call meets them. A request becomes one:
#[cfg(feature = "http")]
pub mod http;

// What users configure and clone:
mod retry;

mod shared;

mod observers;

mod park;

// The call itself:
mod ext;

#[cfg(feature = "tokio")]
mod run;

mod blocking;

mod fast;

#[cfg(feature = "tokio")]
mod hedge;

#[cfg(feature = "tokio")]
mod race;

mod session;

mod attempt;

mod error;

// What it reads, and what counts it:
mod inbound;

#[cfg(any(feature = "metrics", feature = "otel", feature = "tracing"))]
pub mod telemetry;

// Budgets that are shared:
mod budget;

#[cfg(feature = "fleet")]
pub mod fleet;

#[cfg(any(feature = "fleet", feature = "redis"))]
mod link;

// What all of them need:
mod clock;
pub mod concepts;
mod entropy;
#[cfg(feature = "tokio")]
mod inside;
pub mod testing;
mod thread_state;
#[cfg(feature = "tokio")]
mod timer;
#[cfg(not(feature = "metrics"))]
mod unmetered;
#[cfg(not(feature = "otel"))]
mod untraced;

#[cfg(feature = "metrics")]
use telemetry::Stripe;
#[cfg(feature = "otel")]
use telemetry::otel as spans;
#[cfg(not(feature = "metrics"))]
use unmetered::Stripe;
#[cfg(not(feature = "otel"))]
use untraced as spans;

pub use redial_core::{
    CallInfo, Draft, Event, Invalid, Observer, Policy, Preset, Rate, Span, Stop, TimeLimit,
    WorstCase,
};

pub use attempt::{Attempt, Key};
pub use blocking::CancelToken;
pub use budget::RetryBudget;
pub use error::Error;
#[cfg(feature = "tokio")]
pub use ext::Retryable;
pub use ext::{RetryFn, RetryableBlocking};
#[cfg(feature = "fleet")]
pub use fleet::Fleet;
pub use inbound::Inbound;
pub use park::ParkLimit;
pub use retry::Retry;

/// Is a failure transient, and is the request safe to repeat?
pub mod decide {
    pub use redial_core::decide::{
        Causes, Class, Classifier, Classify, DynError, Failure, Judge, Outcome, PollUntil, Reach,
        RetryIf, RetryOn, Safety, Typed, cause,
    };
}

/// When is the next attempt?
pub mod schedule {
    pub use redial_core::schedule::{
        Backoff, Growth, HedgeDelay, HedgeRule, Hint, HintRule, Jitter, TooLong,
    };
}

/// Is there budget for the attempt?
pub mod admit {
    pub use redial_core::admit::{
        BreakerRule, BreakerState, CoolDownRule, Lookback, NotParked, ParkRule, RateRule,
        StallRule, ThrottleRule,
    };

    /// How many retries calls may make together.
    pub mod budget {
        pub use redial_core::admit::budget::{
            Budget, Deposit, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
        };
    }
}
