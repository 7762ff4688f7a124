//! A webhook that is sent from the handler of a request is lost when the process dies, and sent into the storm when the
//! receiver is down. As a job it is neither: it stands in the same database as what it tells of, and a worker sends it
//! under a policy until the receiver has it.
//!
//! ```
//! use redial_queue::delivery::Delivery;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = Delivery::post("https://hooks.example/orders")?
//!     .header("content-type", "application/json")?
//!     .body(r#"{"order":7}"#)
//!     .into_job();
//! # Ok(())
//! # }
//! ```
//!
//! A [`Deliverer`] is the [`Handler`](crate::durable::Handler) of such jobs.

mod answer;
mod build;
mod deliverer;
mod public;
mod request;
mod sign;

pub use build::{BuildError, Builder};
pub use deliverer::Deliverer;
pub use public::is_public;
pub use request::{Delivery, Invalid};
pub use sign::Secret;
