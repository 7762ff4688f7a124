//! One retry budget for all instances of a service.
//!
//! A budget's floor is there so that a service with little traffic may retry at all, and every instance has one: two
//! hundred instances with ten retries a second each are two thousand retries a second, at the moment when the backend
//! is down. A [`Fleet`] is one budget for all of them. Its ledger is in Redis; the instances deposit what their calls
//! earn and lease what their retries need, in the background.
//!
//! ```no_run
//! use redial::{Fleet, Policy, Retry};
//!
//! # fn main() -> Result<(), redial::Invalid> {
//! let fleet = Fleet::open("redis://user:password@redis.internal:6379/0", "checkout")?;
//! let retry = Retry::new(Policy::standard()).fleet(&fleet)?; // the budget's floor is now that of the whole fleet
//! # Ok(())
//! # }
//! ```
//!
//! - A first attempt never waits for Redis: it adds to a counter. A call that failed asks for a lease while it waits
//!   out its backoff, and is repeated if it has one by then.
//! - Without Redis an instance spends what its own calls earn, and the share of the floor that it was last promised.
//!   One that never reached Redis has no floor. When Redis comes back, the instances come one after another.
//! - All instances together send at most `ratio·calls + floor·(T + ttl)` retries in any time T.
//!
//! What is configured is the policy's window budget ([`WindowBudget`](crate::admit::budget::WindowBudget)), and should be
//! the same in all instances; where it is not, the strictest counts and a [`FleetEvent::Differs`] says so. The
//! mathematics are in [`redial_core::fleet`].
//!
//! Redis should not evict the ledger's keys (`maxmemory-policy noeviction`); they expire twenty minutes after the last
//! instance was heard of.

mod draft;
mod driver;
mod event;
mod guest;
mod handle;
mod ledger;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod name;
mod stats;
mod tended;

pub use draft::FleetDraft;
pub use event::{FleetEvent, Trouble};
pub use guest::Guest;
pub use handle::Fleet;
pub(crate) use handle::Membership;
pub use redial_core::fleet::Terms;
pub use stats::{FleetStats, Syncs};
