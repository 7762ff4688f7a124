//! Work that outlives the process: jobs in a store, workers that lease them, and dead letters for jobs that were given up.
//!
//! ```text
//!   enqueue ──> Waiting ──claim──> Running ──settle──> (done: gone)
//!      │           ^  ^               │  └──> Dead ──redrive──> Waiting
//!      └──> Held ──┘  └── the wait, or a lease that ran out
//! ```
//!
//! The engine decides, schedules and admits as everywhere. A [`Store`] keeps what the engine needs to continue in another
//! process: how many attempts there were, how far the backoff has come, when the first attempt was.

mod bulk;
mod handler;
pub(crate) mod job;
mod queue;
mod settings;
mod shortage;
mod store;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod text;
mod worker;

pub use crate::store_error::StoreError;
pub use bulk::{Redriven, redrive_in_pages, remove_in_pages};
pub use handler::{Handled, Handler};
pub use job::{Enqueued, Job, JobId, NewJob, Start, State, Tried, WhenWaiting};
pub use queue::DurableQueue;
pub use settings::{Counts, QueueSettings};
pub use shortage::is_shortage;
pub use store::{
    Claim, Claimed, Claims, Edit, Filter, Group, JobLease, JobVerdict, NewPolicy, Redrive, Reply,
    Settled, Settlement, Store,
};
pub use worker::{
    Gauge, Until, Worker, WorkerError, WorkerReport, WorkerStats, check_policy, standard,
};
#[cfg(feature = "delivery")]
pub(crate) use worker::{built, draft};
