//! Runs a scenario with real traffic.
//!
//! A simulator that agrees with itself proves nothing. Here the same scenario becomes a server with that capacity,
//! thousands of callers and TCP between them, so that the effect of a policy can be measured and compared with the
//! simulation.
//!
//! - [`LiveScenario`]: a scenario that real traffic supports.
//! - [`Caller`]: how a call is made, with or without retries. [`Redial`], [`Naive`] and [`Once`] are here; peers
//!   are where their crates are dependencies.
//! - [`run`] and [`start`]: server and callers on separate threads, so that neither waits for the other.
//! - [`serve`]: only the server, for callers in another process.
//! - [`EndlessServer`] and [`EndlessCallers`]: traffic to watch, with faults that are switched on while it runs.
//! - [`LiveRun`]: the results. Its figures are refused when the load generator was the bottleneck, unless they are asked for
//!   anyway.
//!
//! ```
//! use redial_live::{Once, LiveScenario, run};
//! use redial_sim::Scenario;
//!
//! let text = r#"
//!     title = "Ten callers"
//!     duration = "100ms"
//!     policies = ["no-retry"]
//!     clients = { arrivals = { closed = { callers = 10, think = { exponential = "20ms" } } } }
//!     backend = { servers = 2, service = "5ms", queue = 10 }
//! "#;
//! let setting = LiveScenario::of(&Scenario::read(text, &[])?)?;
//! let live = run(setting, |_| Once)?;
//! assert!(!live.log().attempts.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// A scenario, and what runs it:
mod setting;

mod live;

mod loopback;

mod endless;

// Its callers:
mod callers;

mod caller;

mod pool;

// Its server:
mod serving;

mod server;

mod fault;

mod backend;

// What is recorded:
mod record;

mod figures;

// What all of them need:
mod clock;
mod cpu;
mod lag;
mod shared;

/// The scenario of `redial demo` and `redial up`: a blip after which a naive loop does not recover.
pub const DEMO: &str = include_str!("demo.toml");

pub use backend::{Backend, BackendAnswer};
pub use caller::{Caller, Naive, Once, Redial};
pub use endless::{EndlessCallers, EndlessServer};
pub use fault::Fault;
pub use figures::Inconclusive;
pub use lag::{Lag, Late};
pub use live::{LiveRun, Running, run, start};
pub use loopback::round_trip;
pub use pool::{Client, Failed};
pub use record::{Arrived, Ended, EventLog, Record};
pub use serving::{Serving, serve};
pub use setting::{Error, LiveScenario};
