//! Where the queue is that a command is about.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redial_queue::durable::{DurableQueue, Filter, Job, JobId, Store, StoreError, WorkerError};
use redial_queue::postgres::PostgresStore;
use redial_queue::sqlite::SqliteStore;

use crate::failed::Failed;
use crate::stderr;
use crate::text::sanitise;

/// The queue that is meant when none is named.
const DEFAULT: &str = "default";
/// Where the store is named that is meant when none is.
const VARIABLE: &str = "REDIAL_STORE";

#[derive(clap::Args)]
pub(crate) struct Place {
    /// The path of a SQLite file, or postgres://…; without this, what $REDIAL_STORE says. A URL with a password belongs
    /// there: others can see a command's arguments
    #[arg(long, value_name = "FILE|URL", help_heading = "Which queue")]
    store: Option<String>,
    /// The name of the queue; without this, default
    #[arg(long, value_name = "NAME", help_heading = "Which queue")]
    queue: Option<String>,
}

/// Whether a store is made where there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Made,
    /// Made, and said: it may be that its name was mistyped.
    Told,
    Wrong,
}

/// A store that is there.
pub(super) enum Kept {
    In(PathBuf),
    Postgres(String),
}

impl Place {
    pub(super) fn kept(&self) -> Result<Kept, Failed> {
        let named = match &self.store {
            Some(store) => Some(store.clone()),
            None => match env::var(VARIABLE) {
                Ok(store) => Some(store),
                Err(env::VarError::NotPresent) => None,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failed::input(VARIABLE, "it is not UTF-8; use --store"));
                }
            },
        };
        match named {
            Some(name) if name.is_empty() => {
                Err(Failed::input("--store", "it is empty; name a file, or postgres://…"))
            }
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Kept::Postgres(url))
            }
            // A mistyped scheme would make a file with a strange name.
            Some(url) if url.contains("://") => Err(Failed::input(
                "--store",
                "only postgres:// is a store with an address; a SQLite store is the path of a file",
            )),
            Some(path) => Ok(Kept::In(path.into())),
            None => Err(Failed::Input(format!(
                "no store is named: use --store FILE, --store postgres://…, or set {VARIABLE}"
            ))),
        }
    }

    pub(super) async fn open(&self, missing: Missing) -> Result<Arc<dyn Store>, Failed> {
        DurableQueue::check_name(self.queue_name()).map_err(|error| said("--queue", error))?;
        match self.kept()? {
            Kept::In(path) => Ok(Arc::new(open_file(&path, missing)?)),
            Kept::Postgres(url) => {
                let store = PostgresStore::connect(&url).await;
                Ok(Arc::new(store.map_err(|error| said("the Postgres store", error))?))
            }
        }
    }

    /// The queue, of a store that is made if it is not there.
    pub(super) async fn make(&self) -> Result<DurableQueue, Failed> {
        Ok(DurableQueue::new(self.open(Missing::Made).await?, self.queue_name())?)
    }

    /// The queue, of a store that is usually there.
    pub(super) async fn find_or_make(&self) -> Result<DurableQueue, Failed> {
        Ok(DurableQueue::new(self.open(Missing::Told).await?, self.queue_name())?)
    }

    /// The queue, of a store that has to be there. Whoever mistypes its name is told, and sees it empty.
    pub(super) async fn find(&self) -> Result<DurableQueue, Failed> {
        let queue = DurableQueue::new(self.open(Missing::Wrong).await?, self.queue_name())?;
        if let Some(name) = &self.queue {
            let all = queue.store().queues().await?;
            if !all.contains(name) {
                let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                tell(&format!("no queue has the name {name} so far; there are: {known}"));
            }
        }
        Ok(queue)
    }

    pub(super) fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or(DEFAULT)
    }

    /// The queue that was named, for what is about all of them otherwise.
    pub(super) fn named(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// A job by its number, which is one in the whole store.
    pub(super) async fn job(&self, store: &dyn Store, id: JobId) -> Result<Job, Failed> {
        let Some(job) = store.get(id).await? else {
            return Err(Failed::Other(format!("there is no job {id}; one that is done is gone")));
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

pub(super) fn open_file(path: &Path, missing: Missing) -> Result<SqliteStore, Failed> {
    let is_new = !path.exists();
    if is_new && missing == Missing::Wrong {
        let why = "there is no such file; `redial queue add` makes one";
        return Err(Failed::input(path.display(), why));
    }
    let store = SqliteStore::open(path)?;
    if is_new && missing == Missing::Told {
        tell(&format!("{}: there was no store, so this one is new and empty", path.display()));
    }
    Ok(store)
}

/// What a store says, and which.
pub(super) fn said(place: impl std::fmt::Display, error: StoreError) -> Failed {
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

/// Something that is no answer and no failure. A worker says it before it works, and must not wait for a reader.
pub(super) fn tell(note: &str) {
    stderr::write_line(&format!("redial: {}", sanitise(note)));
}
