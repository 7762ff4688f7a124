//! A scenario with real traffic.
//!
//! A simulator that agrees with itself proves nothing. Here the same few parameters become a server with that
//! capacity, thousands of callers, and TCP between them, so that what a policy does can be measured and laid
//! beside what the simulator says of it.
//!
//! - [`Setting`]: the parameters.
//! - [`Caller`]: how a call is made, which is where ways of retrying differ. [`Redial`], [`Naive`] and [`Once`]
//!   are here; peers are wherever they are dependencies.
//! - [`run`] and [`start`]: server and callers, each on a thread of its own, so that neither waits for the other's work.
//! - [`Live`]: what happened. Its figures are refused when the generator was the limit and not the policy.
//!
//! ```
//! use redial_live::{Load, Once, Setting, Time, run};
//!
//! const MS: u64 = 1_000_000;
//! let load = Load::Closed { callers: 10, think: Time::Exponential(20 * MS) };
//! let setting = Setting { load, duration: 100 * MS, ..Setting::default() };
//! let live = run(setting, |_| Once)?;
//! assert!(!live.log().attempts.is_empty());
//! # Ok::<(), redial_live::Error>(())
//! ```

mod backend;
mod busy;
mod caller;
mod callers;
mod clock;
mod figures;
mod lag;
mod link;
mod live;
mod record;
mod scene;
mod server;
mod setting;

pub use backend::{Answer, Backend};
pub use caller::{Caller, Naive, Once, Redial};
pub use figures::{Figures, Refusal};
pub use lag::{Lag, Late};
pub use link::{Failed, Line};
pub use live::{Live, Running, run, start};
pub use record::{Arrived, Bucket, Ended, Log, Record};
pub use setting::{Brownout, Error, Load, Setting, Time, Window};
