//! Behind one name there may be several servers, and the retries of a balancer should avoid the one that fails. Each gets
//! guards of its own, below those of the whole call: a breaker that ejects it, a limit on its attempts in flight.

mod error;
mod future;
mod layer;
mod service;

pub use error::EndpointRefused;
pub use future::EndpointFuture;
pub use layer::EndpointLayer;
pub use service::EndpointService;
