use std::sync::Arc;
use std::time::Duration;

use redial_core::Rate;

use super::job::check_queue;
use super::{
    Counts, Edit, Enqueued, Filter, Job, JobId, NewJob, QueueSettings, Redrive, Store, StoreError,
};

/// A queue in a store.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use redial_queue::durable::{DurableQueue, NewJob};
/// use redial_queue::sqlite::SqliteStore;
///
/// # let folder = std::env::temp_dir().join(format!("redial-queue-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("jobs.db");
/// let queue = DurableQueue::new(Arc::new(SqliteStore::open(path)?), "pictures")?;
/// queue.enqueue(NewJob::new("resize 17")).await?; // on the disk when this returns
/// assert_eq!(queue.counts().await?.due, 1);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct DurableQueue {
    store: Arc<dyn Store>,
    name: String,
}

impl DurableQueue {
    /// The queue with this name.
    ///
    /// # Errors
    ///
    /// The name is invalid: a name has 1 to 100 characters, none of them a control character.
    pub fn new(store: Arc<dyn Store>, name: &str) -> Result<Self, StoreError> {
        Self::check_name(name)?;
        Ok(Self { store, name: name.to_owned() })
    }

    /// Checks the name of a queue before there is a store.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn check_name(name: &str) -> Result<(), StoreError> {
        check_queue(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Puts a job into the queue. It is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// The job is too large or has a text that no store can keep, or the store failed.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let mut all = self.enqueue_all(vec![job]).await?;
        all.pop().ok_or_else(|| StoreError::Stopped("it did not answer".to_owned()))
    }

    /// Puts jobs into the queue, all or none.
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Self::enqueue).
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        jobs.iter().try_for_each(NewJob::check)?;
        self.store.enqueue(&self.name, jobs).await
    }

    /// Stops claims until the queue is resumed.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn pause(&self) -> Result<(), StoreError> {
        self.change(|settings| settings.paused = true).await
    }

    /// Resumes a queue that was paused.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn resume(&self) -> Result<(), StoreError> {
        self.change(|settings| settings.paused = false).await
    }

    /// The settings of the queue.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn settings(&self) -> Result<QueueSettings, StoreError> {
        self.store.settings(&self.name).await
    }

    /// Changes the settings of the queue.
    ///
    /// # Errors
    ///
    /// The settings are invalid, such as a rate of zero, or the store failed.
    pub async fn change(&self, change: impl FnOnce(&mut QueueSettings)) -> Result<(), StoreError> {
        let mut settings = self.settings().await?;
        change(&mut settings);
        settings.check()?;
        self.store.set(&self.name, &settings).await
    }

    /// The job with this number, if it is in this queue.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.store.get(id).await?.filter(|job| job.queue == self.name))
    }

    /// Jobs of this queue by their number, ascending.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn list(&self, filter: Filter) -> Result<Vec<Job>, StoreError> {
        self.store.list(&self.own(filter)).await
    }

    /// Changes a job of this queue that is not running; `false` if it runs or does not exist.
    ///
    /// # Errors
    ///
    /// The job would be too large or have a text that no store can keep, or the store failed.
    pub async fn edit(&self, id: JobId, edit: Edit) -> Result<bool, StoreError> {
        edit.check()?;
        Ok(self.get(id).await?.is_some() && self.store.edit(id, edit).await?)
    }

    /// Removes jobs of this queue that are not running. Returns how many.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn remove(&self, filter: Filter) -> Result<u64, StoreError> {
        self.store.remove(&self.own(filter)).await
    }

    /// Puts dead letters of this queue back, with no attempt made: all at once, or no more often than `rate`. Returns how
    /// many.
    ///
    /// # Errors
    ///
    /// The rate is zero, or the store failed.
    pub async fn redrive(&self, filter: Filter, rate: Option<Rate>) -> Result<u64, StoreError> {
        let redrive = rate.map_or(Ok(Redrive::default()), Redrive::at)?;
        self.store.redrive(&self.own(filter), redrive).await
    }

    fn own(&self, filter: Filter) -> Filter {
        Filter { queue: Some(self.name.clone()), ..filter }
    }

    /// How many jobs are in which state.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.store.counts(&self.name).await
    }

    /// The age of the oldest due job: how long it has been due. Unlike [`counts`](Self::counts), this costs the same however
    /// many jobs there are.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn oldest(&self) -> Result<Duration, StoreError> {
        self.store.oldest(&self.name).await
    }
}
