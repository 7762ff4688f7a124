//! Fifty events for one object while a worker is busy with it should lead to one more run, not to fifty. A queue of events
//! cannot do that; a queue of *keys* can.
//!
//! [`WorkQueue`] is fair (keys run in the order in which they were added, higher priorities first, and a key that waits
//! rises), coalescing (a key that is added twice before it runs runs once, and never on two workers at the same time),
//! delayed (a key can run later, and the earliest time counts), backed off (a key that fails waits longer each time, with
//! jitter) and bounded. Each of these is a file, and only `queue` reads a clock. The others take the time as an argument, or
//! as a function where it is often not needed.

mod build;
mod delayed;
mod keys;
mod order;
mod queue;
mod slots;
mod table;
mod work;

pub use build::{Builder, Priority};
pub use keys::{Added, WhenFull};
pub use queue::{Depth, WorkQueue};
pub use work::Work;
