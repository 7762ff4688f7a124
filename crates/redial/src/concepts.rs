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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
