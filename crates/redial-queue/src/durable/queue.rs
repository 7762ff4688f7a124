use std::sync::Arc;

use super::{Counts, Enqueued, NewJob, Settings, Store, StoreError};

/// A queue in a store.
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
    /// No queue can have this name: 1 to 100 characters, none of them a control character.
    pub fn new(store: Arc<dyn Store>, name: &str) -> Result<Self, StoreError> {
        if name.is_empty() || name.chars().count() > 100 || name.contains(char::is_control) {
            let why = "the name of a queue has 1 to 100 characters, and no control characters";
            return Err(StoreError::Invalid(why.to_owned()));
        }
        Ok(Self { store, name: name.to_owned() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is kept.
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

    /// Claims nothing more until it is resumed.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn pause(&self) -> Result<(), StoreError> {
        self.change(|settings| settings.paused = true).await
    }

    /// Goes on.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn resume(&self) -> Result<(), StoreError> {
        self.change(|settings| settings.paused = false).await
    }

    /// Changes what holds for the queue.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), StoreError> {
        let mut settings = self.store.settings(&self.name).await?;
        change(&mut settings);
        self.store.set(&self.name, &settings).await
    }

    /// How it is going.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.store.counts(&self.name).await
    }
}
