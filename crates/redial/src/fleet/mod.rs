//! A budget has a floor so that a service with little traffic may retry at all, and every instance has its own: two
//! hundred instances with ten retries a second each send two thousand retries a second, at the moment when the backend is
//! down.
//!
//! A [`Fleet`] is one budget for all instances. Its ledger is in Redis; the instances deposit what their calls earn and
//! lease what their retries need, in the background.
//!
//! ```no_run
//! use redial::admit::budget::{Budget, WindowBudget};
//! use redial::{Fleet, Policy, Retry};
//!
//! # fn main() -> Result<(), redial::Invalid> {
//! let fleet = Fleet::open("redis://user:password@redis.internal:6379/0", "checkout")?;
//! let budget = Budget::Window(WindowBudget::default()); // the only kind that can be shared
//! let policy = Policy::standard().edit().budget(budget).build()?;
//! let retry = Retry::new(policy).fleet(&fleet)?; // the floor is now that of the whole fleet
//! # Ok(())
//! # }
//! ```
//!
//! - A first attempt never waits for Redis: it adds to a counter. A failed call requests a lease during its backoff, and is
//!   retried if it has one by then.
//! - Without Redis an instance spends what its own calls earn, and the share of the floor that it was last promised. An
//!   instance that never reached Redis has no floor. When Redis recovers, the instances reconnect at random times.
//! - All instances together send at most `ratio·calls + floor·(T + ttl)` retries in any time T.
//!
//! The budget is the policy's window budget ([`WindowBudget`](crate::admit::budget::WindowBudget)), which should be the
//! same in all instances. If it is not, the strictest one takes effect and [`FleetEvent::Differs`] reports it. The
//! mathematics are in [`redial_core::fleet`].
//!
//! Redis should not evict the ledger's keys (`maxmemory-policy noeviction`). They expire 20 minutes after the last sync of
//! an instance.

mod draft;
mod driver;
mod error;
mod event;
mod handle;
mod ledger;
#[cfg(feature = "metrics")]
mod metrics;
mod name;
mod one_shot;
mod secret;
mod stats;
mod sync;

pub use draft::FleetDraft;
pub use error::LedgerError;
pub use event::FleetEvent;
pub use handle::Fleet;
pub(crate) use handle::Membership;
pub use one_shot::OneShot;
pub use redial_core::fleet::{FleetTerms, Location, SecretSource};
pub use stats::{FleetStats, Syncs};
