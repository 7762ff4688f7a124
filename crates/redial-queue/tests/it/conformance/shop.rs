use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial_core::{Progress, Span};
use redial_queue::durable::{
    Claim, Claimed, Claims, Counts, Enqueued, Filter, Job, JobId, JobVerdict, NewJob,
    QueueSettings, Settled, Settlement, State, Store,
};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const NOW: Duration = Duration::ZERO;

/// A store for one test, with helpers.
pub(crate) struct Shop {
    pub(crate) store: Arc<dyn Store>,
    /// Removed on drop.
    pub(crate) folder: Option<PathBuf>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A name that no other test uses, in this run or another one.
pub(crate) fn fresh() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("redial_conformance_{}_{number}", std::process::id())
}

impl Shop {
    pub(crate) const QUEUE: &str = "orders";

    pub(crate) async fn add(&self, job: NewJob) -> JobId {
        match self.put(job).await {
            Enqueued::Added(id) => id,
            other => panic!("not added: {other:?}"),
        }
    }

    pub(crate) async fn put(&self, job: NewJob) -> Enqueued {
        self.put_all(vec![job]).await[0]
    }

    pub(crate) async fn put_all(&self, jobs: Vec<NewJob>) -> Vec<Enqueued> {
        self.store.enqueue(Self::QUEUE, jobs).await.unwrap()
    }

    pub(crate) async fn look(&self, most: usize, lease: Duration) -> Claims {
        let claim = Claim { queue: Self::QUEUE.to_owned(), most, lease };
        self.store.claim(&claim).await.unwrap()
    }

    pub(crate) async fn claim(&self, most: usize) -> Vec<Claimed> {
        self.look(most, HOUR).await.jobs
    }

    pub(crate) async fn claim_one(&self) -> Claimed {
        self.claim(1).await.pop().expect("nothing was claimed")
    }

    /// Claims up to `most` jobs, and returns their IDs in order.
    pub(crate) async fn ids(&self, most: usize) -> Vec<JobId> {
        self.claim(most).await.iter().map(|claimed| claimed.job.id).collect()
    }

    pub(crate) async fn settle(&self, claimed: &Claimed, verdict: JobVerdict) -> Settled {
        self.settle_as(claimed, verdict, "it failed").await
    }

    pub(crate) async fn settle_as(
        &self,
        claimed: &Claimed,
        verdict: JobVerdict,
        outcome: &str,
    ) -> Settled {
        let took = Duration::from_millis(1500);
        let outcome = outcome.to_owned();
        let settlement = Settlement { lease: claimed.lease, verdict, took, outcome };
        self.store.settle(vec![settlement]).await.unwrap()[0]
    }

    pub(crate) async fn kill(&self, reason: &str) -> JobId {
        let claimed = self.claim_one().await;
        let verdict = JobVerdict::Dead { reason: reason.to_owned() };
        assert_eq!(self.settle(&claimed, verdict).await, Settled::Taken);
        claimed.job.id
    }

    /// Enqueues a job and makes it a dead letter.
    pub(crate) async fn dead(&self, job: NewJob) -> JobId {
        let id = self.add(job).await;
        assert_eq!(self.kill("permanent").await, id);
        id
    }

    pub(crate) async fn get(&self, id: JobId) -> Job {
        self.store.get(id).await.unwrap().expect("the job is gone")
    }

    pub(crate) async fn state(&self, id: JobId) -> State {
        self.get(id).await.state
    }

    pub(crate) async fn list(&self, filter: Filter) -> Vec<JobId> {
        self.store.list(&filter).await.unwrap().iter().map(|job| job.id).collect()
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store.counts(Self::QUEUE).await.unwrap()
    }

    pub(crate) async fn set(&self, settings: &QueueSettings) {
        self.store.set(Self::QUEUE, settings).await.unwrap();
    }

    pub(crate) async fn per_key(&self, per_key: u32) {
        let per_key = NonZeroU32::new(per_key);
        self.set(&QueueSettings { per_key, ..QueueSettings::default() }).await;
    }
}

pub(crate) fn job(payload: &str) -> NewJob {
    NewJob::new(payload)
}

pub(crate) fn retry(wait: Duration) -> JobVerdict {
    JobVerdict::Retry {
        wait,
        progress: Progress { step: 3, drawn: Span::from_nanos(77), ..Progress::default() },
    }
}

pub(crate) fn dead(reason: &str) -> JobVerdict {
    JobVerdict::Dead { reason: reason.to_owned() }
}

/// Whether a time from now is as expected, with a tolerance for slow machines.
pub(crate) fn about(got: Option<Duration>, expected: Duration) -> bool {
    let slack = Duration::from_secs(600);
    got.is_some_and(|got| got <= expected && got + slack >= expected)
}
