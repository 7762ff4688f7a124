//! Fifty events for one object while somebody works on it are one more run, not fifty. A queue of events cannot say that;
//! a queue of *keys* can.
//!
//! [`WorkQueue`] is fair (in the order in which keys were added, higher priorities first, and whoever waits rises), stingy
//! (a key that is added twice before it runs runs once, and never on two workers at the same time), delayed (a key can run
//! later, and the earliest time counts), backed off (a key that fails waits for longer and longer, with jitter) and
//! bounded. Each of these is a file, and only the last one, `queue`, knows a clock. The others are given it, and ask for the
//! time only where it matters: what is coalesced, or taken where there is no choice, reads none.

mod build;
mod keys;
mod later;
mod order;
mod queue;
mod slots;
mod table;
mod work;

pub use build::{Builder, Priority};
pub use keys::{Added, WhenFull};
pub use queue::{Depth, WorkQueue};
pub use work::Work;
