//! Serving a request whose caller has given up costs as much as any other, and so do all requests that it causes further
//! down.
//!
//! [`DeadlineLayer`] reads how long the caller waits. It does not start a request that is too late, stops one that becomes
//! too late, and makes the deadline available to handlers and their outgoing calls as [`Inbound`](crate::Inbound). If an
//! outgoing call has given up, it reports that to the caller, so that the layers above do not retry again.

mod future;
mod layer;
mod service;

pub use future::DeadlineFuture;
pub use layer::DeadlineLayer;
pub use service::DeadlineService;
