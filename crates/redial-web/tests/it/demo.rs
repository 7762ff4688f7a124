//! Jobs of the demo's queue that a killed process has left.

use std::sync::Arc;
use std::time::Duration;

use redial_queue::durable::{Claim, DurableQueue, JobVerdict, NewJob, Settlement, Store};
use redial_queue::sqlite::SqliteStore;
use redial_web::Demo;
use tokio::time::sleep;

/// A process that is killed while it delivers leaves jobs that are leased, and the address they go to is gone.
#[tokio::test(start_paused = true)]
async fn leased_jobs_of_a_killed_process_are_removed_when_their_lease_is_over() {
    let path = std::env::temp_dir().join(format!("redial-{}.db", redial::Key::fresh()));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let queue = DurableQueue::new(Arc::clone(&store), "demo").unwrap();
    let jobs = queue.enqueue_all(vec![NewJob::new(b"old".to_vec()); 3]).await.unwrap();
    let claim = Claim { queue: "demo".into(), most: 1, lease: Duration::from_secs(3600) };
    let leased = store.claim(&claim).await.unwrap().jobs.remove(0);
    let left = Demo::clear(&queue).await.unwrap();
    assert_eq!(left, [leased.job.id], "of {jobs:?}");
    let (demo, at) = (Demo::start().unwrap(), queue.clone());
    let enqueueing = tokio::spawn(async move { demo.enqueue(at, left).await });
    // The new ones come all the same.
    while queue.counts().await.unwrap().due == 0 {
        sleep(Duration::from_secs(1)).await;
    }
    assert!(store.get(leased.job.id).await.unwrap().is_some(), "its lease has not run out");
    // As a worker does after the lease: it claims the job, the delivery fails, and the job waits.
    let settlement = Settlement {
        lease: leased.lease,
        verdict: JobVerdict::Postpone { wait: Duration::from_secs(60) },
        took: Duration::ZERO,
        outcome: "refused".to_owned(),
    };
    store.settle(vec![settlement]).await.unwrap();
    while store.get(leased.job.id).await.unwrap().is_some() {
        sleep(Duration::from_secs(1)).await;
    }
    enqueueing.abort();
    let _ = std::fs::remove_file(&path);
}
