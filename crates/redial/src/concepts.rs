//! The three questions inside every retry. The other pages of the book are in `docs/`; their code runs with the tests.

#[doc = include_str!("../docs/decide.md")]
pub mod decide {}

#[doc = include_str!("../docs/schedule.md")]
pub mod schedule {}

#[doc = include_str!("../docs/admit.md")]
pub mod admit {}

/// Pages that are tested and not rendered: they link to each other as files.
#[cfg(doctest)]
mod tested {
    #[doc = include_str!("../docs/using.md")]
    mod using {}

    #[cfg(feature = "serde")]
    #[doc = include_str!("../docs/policy.md")]
    mod policy {}

    #[cfg(all(feature = "reqwest-middleware", feature = "tonic"))]
    #[doc = include_str!("../docs/http-clients.md")]
    mod http_clients {}

    #[cfg(feature = "idempotency")]
    #[doc = include_str!("../docs/http-servers.md")]
    mod http_servers {}

    #[cfg(feature = "redis")]
    #[doc = include_str!("../docs/idempotency.md")]
    mod idempotency {}

    #[cfg(feature = "fleet")]
    #[doc = include_str!("../docs/fleet-budgets.md")]
    mod fleet_budgets {}

    #[cfg(all(feature = "metrics", feature = "idempotency", feature = "http-client"))]
    #[doc = include_str!("../docs/seeing-a-storm.md")]
    mod seeing_a_storm {}

    #[doc = include_str!("../README.md")]
    mod readme {}
}
