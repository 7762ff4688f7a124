//! redial
pub use redial_core::{
    Draft, Event, Invalid, NEVER, Nanos, Observer, Policy, Preset, Rate, Stop, WorstCase,
};
pub use redial_core::{admit, decide, schedule};

mod attempt;
mod blocking;
mod clock;
mod entropy;
mod error;
mod ext;
#[cfg(feature = "tokio")]
mod hedge;
mod retry;
#[cfg(feature = "tokio")]
mod run;
mod session;
pub mod testing;
#[cfg(feature = "tower")]
pub mod tower;

pub use attempt::{Attempt, Key};
pub use blocking::CancelToken;
pub use error::Error;
#[cfg(feature = "tokio")]
pub use ext::Retryable;
pub use ext::RetryableBlocking;
#[cfg(feature = "tokio")]
pub use hedge::Hedge;
pub use retry::Retry;
