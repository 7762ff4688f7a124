//! A server that is asked for more than it can do has to turn somebody away. Whom, and until when, decides
//! whether the next second is better or worse.
//!
//! Rejecting everyone with the same `Retry-After: 5` moves the crowd five seconds into the future.
//! Rejecting retries and first attempts alike lets the callers who have been turned away keep the others
//! out. And work that waited until its caller gave up costs as much as any other.
//!
//! [`ShedLayer`] limits how many requests are served at once and lets a bounded number wait, first attempts
//! before retries. Whoever does not fit is booked into the next free slot of what first attempts leave of the
//! server's measured capacity, and gets that slot back in `retry-after-ms`. The [`gate`] does the deciding,
//! without a clock and without HTTP.

mod entrance;
mod future;
pub mod gate;
mod layer;
mod places;
mod service;

pub use future::ShedFuture;
pub use layer::{NotAShare, ShedLayer};
pub use service::Shed;
