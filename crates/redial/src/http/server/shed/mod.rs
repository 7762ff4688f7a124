//! An overloaded server has to reject requests. Which ones, and until when, decides whether the next second is better or
//! worse.
//!
//! Rejecting every request with the same `Retry-After: 5` moves the load spike five seconds into the future. Rejecting
//! retries and first attempts alike lets the retries crowd out first attempts. And serving a request whose caller has
//! given up wastes the capacity that others need.
//!
//! [`ShedLayer`] limits how many requests are served at once and lets a bounded number wait, first attempts before
//! retries. A rejected caller is booked into the next free slot of the capacity that first attempts leave, and gets that
//! slot in `retry-after-ms`. The [`gate`] makes the decisions, without a clock and without HTTP.
//!
//! Capacity is computed from how long places are held, not from completions: a server that stands still completes nothing. A
//! place is held until the response, not until the end of its body, so that slow readers cannot block a server.

mod error;
mod future;
pub mod gate;
mod layer;
mod limiter;
mod service;
mod shared_gate;
#[cfg_attr(
    not(feature = "idempotency"),
    allow(dead_code, reason = "used by the idempotency layer")
)]
mod shared_permit;

pub use error::InvalidShare;
pub use future::ShedFuture;
pub use layer::ShedLayer;
pub use service::Shed;
#[cfg(feature = "idempotency")]
pub(super) use shared_permit::{Reacquire, SharedPermit};
