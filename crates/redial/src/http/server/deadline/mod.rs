//! A caller that has stopped waiting costs as much as one that waits, and so does everything that its
//! request sets off in the services behind.
//!
//! [`DeadlineLayer`] reads how long the caller waits, does not start what is too late, stops what becomes
//! too late, and puts what is left where handlers and their outgoing calls find it: in
//! [`Inbound`](crate::Inbound). On the way back it tells the caller when a call further down has given up, so
//! that the layers above do not start over.

mod future;
mod layer;
mod service;

pub use future::DeadlineFuture;
pub use layer::DeadlineLayer;
pub use service::Deadline;
