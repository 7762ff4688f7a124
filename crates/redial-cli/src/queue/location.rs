//! Which store and queue a command is about.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redial_queue::durable::{DurableQueue, Filter, Job, JobId, Store, StoreError, WorkerError};
use redial_queue::postgres::PostgresStore;
use redial_queue::sqlite::SqliteStore;

use crate::failed::Failed;
use crate::stderr;
use crate::text::sanitise;

const DEFAULT_QUEUE: &str = "default";
/// The environment variable that names the default store.
const VARIABLE: &str = "REDIAL_STORE";

#[derive(clap::Args)]
pub(crate) struct QueueArgs {
    /// The path of a SQLite file, or postgres://… [default: $REDIAL_STORE]. Put a URL with a password into $REDIAL_STORE,
    /// because other users can see the arguments of a command
    #[arg(long, value_name = "FILE|URL", help_heading = "Queue")]
    store: Option<String>,
    /// The name of the queue [default: default]
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    queue: Option<String>,
}

/// What to do if a SQLite file does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    Create,
    /// Create it and print a note: its name may have been mistyped.
    CreateWithNote,
    Fail,
}

pub(super) enum Location {
    Sqlite(PathBuf),
    Postgres(String),
}

impl QueueArgs {
    pub(super) fn location(&self) -> Result<Location, Failed> {
        let named = match &self.store {
            Some(store) => Some(store.clone()),
            None => match env::var(VARIABLE) {
                Ok(store) => Some(store),
                Err(env::VarError::NotPresent) => None,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failed::input(VARIABLE, "not UTF-8; use --store"));
                }
            },
        };
        match named {
            Some(name) if name.is_empty() => {
                Err(Failed::input("--store", "must not be empty: name a file, or postgres://…"))
            }
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Location::Postgres(url))
            }
            // A mistyped scheme would otherwise create a file with a strange name.
            Some(url) if url.contains("://") => Err(Failed::input(
                "--store",
                "unknown scheme: a store is the path of a SQLite file, or postgres://…",
            )),
            Some(path) => Ok(Location::Sqlite(path.into())),
            None => Err(Failed::Input(format!(
                "no store: use --store FILE, --store postgres://…, or set {VARIABLE}"
            ))),
        }
    }

    pub(super) async fn open(&self, missing: IfMissing) -> Result<Arc<dyn Store>, Failed> {
        DurableQueue::check_name(self.queue_name())
            .map_err(|error| named_error("--queue", error))?;
        match self.location()? {
            Location::Sqlite(path) => Ok(Arc::new(open_file(&path, missing)?)),
            Location::Postgres(url) => {
                let store = PostgresStore::connect(&url).await;
                Ok(Arc::new(store.map_err(|error| named_error("the Postgres store", error))?))
            }
        }
    }

    /// The queue, in a store that is created if it does not exist.
    pub(super) async fn create(&self) -> Result<DurableQueue, Failed> {
        Ok(DurableQueue::new(self.open(IfMissing::Create).await?, self.queue_name())?)
    }

    /// The queue, in a store that usually exists.
    pub(super) async fn find_or_make(&self) -> Result<DurableQueue, Failed> {
        Ok(DurableQueue::new(self.open(IfMissing::CreateWithNote).await?, self.queue_name())?)
    }

    /// The queue, in a store that must exist. Prints a note if the queue does not exist.
    pub(super) async fn find(&self) -> Result<DurableQueue, Failed> {
        let queue = DurableQueue::new(self.open(IfMissing::Fail).await?, self.queue_name())?;
        if let Some(name) = &self.queue {
            let all = queue.store().queues().await?;
            if !all.contains(name) {
                let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                note(&format!("there is no queue {name} yet; known queues: {known}"));
            }
        }
        Ok(queue)
    }

    pub(super) fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }

    /// The queue of the argument, for commands that are about all queues without it.
    pub(super) fn named(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// A job by its number, which is unique in the store.
    pub(super) async fn job(&self, store: &dyn Store, id: JobId) -> Result<Job, Failed> {
        let Some(job) = store.get(id).await? else {
            return Err(Failed::Other(format!(
                "there is no job {id}; a job that is done is deleted"
            )));
        };
        match self.named() {
            Some(queue) if queue != job.queue => {
                Err(Failed::Other(format!("job {id} is in the queue {}", sanitise(&job.queue))))
            }
            _ => Ok(job),
        }
    }

    /// All jobs of the queue.
    pub(super) fn filter(&self) -> Filter {
        Filter { queue: Some(self.queue_name().to_owned()), ..Filter::default() }
    }
}

pub(super) fn open_file(path: &Path, missing: IfMissing) -> Result<SqliteStore, Failed> {
    let is_new = !path.exists();
    if is_new && missing == IfMissing::Fail {
        let why = "no such file; `redial queue add` creates one";
        return Err(Failed::input(path.display(), why));
    }
    let store = SqliteStore::open(path)?;
    if is_new && missing == IfMissing::CreateWithNote {
        note(&format!("{}: created a new, empty store", path.display()));
    }
    Ok(store)
}

/// The error of a store, with its name.
pub(super) fn named_error(place: impl std::fmt::Display, error: StoreError) -> Failed {
    match error {
        StoreError::Invalid(why) => Failed::input(place, why),
        other => Failed::Other(format!("{place}: {other}")),
    }
}

impl From<WorkerError> for Failed {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Store(error) => error.into(),
            WorkerError::Handler(why) => Self::Other(why),
            WorkerError::Policy(invalid) => Self::Input(invalid.to_string()),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(why) => Self::Input(why),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Prints a note to stderr. A worker does so before it starts, and must not wait for a reader.
pub(super) fn note(note: &str) {
    stderr::write_line(&format!("redial: {}", sanitise(note)));
}
