use std::time::Duration;

use redial_core::{Progress, Span};
use redial_queue::durable::{
    Enqueued, Filter, JobId, JobVerdict, NewJob, Redrive, Settled, Start, State, Store, Tried,
    WhenWaiting,
};

use super::support::{Directory, MINUTE, claim, claim_for, open, settle, within};

#[tokio::test]
async fn a_job_is_done() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    let job = NewJob::new("hello").header("a", "b").policy("often");
    let added = store.enqueue("mails", vec![job.clone()]).await.unwrap();
    assert_eq!(added, [Enqueued::Added(JobId(1))]);
    assert_eq!(store.counts("mails").await.unwrap().due, 1);

    let claims = claim(&store, "mails", 10).await;
    let [claimed] = &claims.jobs[..] else { panic!("{claims:?}") };
    assert_eq!(claimed.job.payload, b"hello");
    assert_eq!(claimed.job.headers, job.headers);
    assert_eq!(claimed.job.policy, job.policy);
    assert_eq!(claimed.job.idempotency_key, job.idempotency_key);
    assert_eq!(claimed.job.progress.attempts, 1);
    assert_eq!(claimed.job.state, State::Running);
    assert_eq!(store.get(JobId(1)).await.unwrap().as_ref(), Some(&claimed.job));
    assert!(claim(&store, "mails", 10).await.jobs.is_empty());

    assert_eq!(settle(&store, claimed, JobVerdict::Done).await, Settled::Taken);
    assert_eq!(settle(&store, claimed, JobVerdict::Done).await, Settled::Stale);
    assert_eq!(store.get(JobId(1)).await.unwrap(), None);
    let counts = store.counts("mails").await.unwrap();
    assert_eq!((counts.enqueued, counts.done, counts.stale, counts.running), (1, 1, 1, 0));
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn attempts_and_backoff_survive_a_restart() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    let claimed = claim(&store, "q", 1).await.jobs.remove(0);
    let progress = Progress { attempts: 1, step: 3, drawn: Span::from_nanos(12345), poll: true };
    settle(&store, &claimed, JobVerdict::Retry { wait: Duration::ZERO, progress }).await;
    drop(store);

    let store = open(&path);
    let again = claim_for(&store, "q", 1, Duration::ZERO).await.jobs.remove(0);
    assert_eq!(again.job.progress, Progress { attempts: 2, ..progress });
    assert_eq!(again.job.begun, claimed.job.begun);
    assert_eq!(again.job.history.len(), 1);
    assert_eq!(again.job.history[0].outcome, "it broke");
    assert!(again.lease.fence > claimed.lease.fence);
    drop(store);

    let store = open(&path);
    let third = claim(&store, "q", 1).await.jobs.remove(0);
    assert_eq!(third.job.progress.attempts, 3, "the attempt was charged when it was claimed");
    assert_eq!(third.job.history[1].outcome, Tried::LOST);
    assert_eq!(settle(&store, &again, JobVerdict::Done).await, Settled::Stale);
    let dead = JobVerdict::Dead { reason: "enough".to_owned() };
    assert_eq!(settle(&store, &third, dead).await, Settled::Taken);
    let counts = store.counts("q").await.unwrap();
    assert_eq!((counts.lost, counts.retried, counts.died, counts.dead), (1, 1, 1, 1));
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn jobs_of_a_key_are_held_and_released() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    let job = |payload: &str| NewJob::new(payload).key("k", WhenWaiting::Append);
    store.enqueue("q", vec![job("1"), job("2"), job("3")]).await.unwrap();
    let claims = claim(&store, "q", 10).await;
    assert_eq!(claims.jobs.len(), 1);
    assert_eq!(store.counts("q").await.unwrap().held, 2);
    let dead = JobVerdict::Dead { reason: "enough".to_owned() };
    settle(&store, &claims.jobs[0], dead).await;
    let second = claim(&store, "q", 10).await.jobs;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].job.payload, b"2");

    assert_eq!(store.redrive(&Filter::default(), Redrive::default()).await.unwrap(), 1);
    assert_eq!(store.get(JobId(1)).await.unwrap().unwrap().state, State::Held);
    settle(&store, &second[0], JobVerdict::Done).await;
    let third = claim(&store, "q", 10).await.jobs;
    assert_eq!((third.len(), third[0].job.id), (1, JobId(1)));
    let none = Filter { state: Some(State::Running), ..Filter::default() };
    assert_eq!(store.remove(&none).await.unwrap(), 0);
    assert_eq!(store.remove(&Filter::default()).await.unwrap(), 1);
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn changed_ends_for_a_job_enqueued_before_the_wait() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    let none = claim(&store, "q", 1).await;
    assert!(none.jobs.is_empty());
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    within(store.changed("q", none.seen)).await.unwrap();
    let claimed = claim(&store, "q", 2).await;
    assert_eq!(claimed.jobs.len(), 1);

    store.enqueue("q", vec![NewJob::new("y").start(Start::After(MINUTE))]).await.unwrap();
    within(store.changed("q", claimed.seen)).await.unwrap();
    let claims = claim(&store, "q", 1).await;
    assert!(claims.jobs.is_empty());
    assert!(claims.next.is_some_and(|next| next <= MINUTE));
}
