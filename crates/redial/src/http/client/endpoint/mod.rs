//! Behind one name there may be several servers, and the retries of a balancer should avoid the one that fails. Each gets
//! guards of its own, below those of the whole call: a breaker that ejects it, a limit on its attempts in flight.
//!
//! It is a call of one attempt inside an attempt of another call, and makes no decision: what it refuses was not sent, is no
//! health failure above, and the call above decides. A future that is dropped looks the same whether it timed out, lost a race
//! or was left by its caller; the layer above says which through the thread, because only a timeout is a failure.

mod error;
mod future;
mod layer;
mod service;

pub use error::EndpointRefused;
pub use future::EndpointFuture;
pub use layer::EndpointLayer;
pub use service::EndpointService;
