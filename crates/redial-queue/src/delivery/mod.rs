//! A webhook that a request handler sends is lost when the process dies, and adds to the load when the receiver is down. As a
//! job it is neither: it is committed together with the change that it reports, and a worker sends it under a policy until
//! the receiver has accepted it.
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

use std::time::Duration;

use redial_core::Policy;
use redial_core::admit::BreakerRule;

mod build;
mod deliverer;
mod public;
mod request;
mod response;
mod secrets;
mod sign;

pub use build::{BuildError, Builder};
pub use deliverer::Deliverer;
pub use public::is_public;
pub use request::{Delivery, InvalidDelivery};
pub use secrets::Secrets;
pub use sign::Secret;

/// The default policy of deliveries: that of [other jobs](crate::durable::standard), and a circuit breaker for each receiver. It
/// opens when 80% of the attempts of the last minute have failed, and there were at least five. While it is open, for 30 s to
/// 36 s at a time, the jobs of that receiver wait and no attempt is charged; then one of them probes.
pub fn standard() -> Policy {
    let breaker = BreakerRule::default()
        .last_time(Duration::from_secs(60))
        .minimum_calls(5)
        .failure_ratio(0.8)
        .open_for(Duration::from_secs(30), 0.2)
        .probes(1);
    crate::durable::built(crate::durable::draft().breaker(breaker))
}
