//! The pages of the book that carry code, so that their code runs.

#[doc = include_str!("../docs/decide.md")]
pub mod decide {}

#[doc = include_str!("../docs/schedule.md")]
pub mod schedule {}

#[doc = include_str!("../docs/admit.md")]
pub mod admit {}

#[doc = include_str!("../docs/policy.md")]
pub mod policy {}

#[doc = include_str!("../docs/using.md")]
pub mod using {}

#[cfg(all(feature = "reqwest-middleware", feature = "tonic"))]
#[doc = include_str!("../docs/http-clients.md")]
pub mod http_clients {}

#[cfg(feature = "idempotency")]
#[doc = include_str!("../docs/http-servers.md")]
pub mod http_servers {}

#[cfg(feature = "redis")]
#[doc = include_str!("../docs/idempotency.md")]
pub mod idempotency {}

#[cfg(feature = "fleet")]
#[doc = include_str!("../docs/fleet-budgets.md")]
pub mod fleet_budgets {}

#[cfg(all(doctest, feature = "metrics", feature = "idempotency", feature = "http-client"))]
#[doc = include_str!("../docs/seeing-a-storm.md")]
mod seeing_a_storm {}

#[cfg(all(doctest, feature = "idempotency", feature = "reqwest"))]
#[doc = include_str!("../README.md")]
mod readme {}
