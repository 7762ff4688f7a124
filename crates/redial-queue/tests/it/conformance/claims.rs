use std::time::{Duration, SystemTime};

use redial_queue::Priority;
use redial_queue::durable::{Claim, NewJob, Start, State};

use super::shop::{HOUR, NOW, Shop, about, job, retry};

fn since(seconds: u64, level: u8) -> NewJob {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    job("").start(Start::At(then)).priority(Priority::new(level))
}

pub(super) async fn only_due_jobs_are_claimed(shop: &Shop) {
    shop.add(job("later").start(Start::After(HOUR))).await;
    shop.add(job("then").start(Start::At(SystemTime::now() + 2 * HOUR))).await;
    let now = shop.add(job("now")).await;
    let claimed = shop.claim(10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].job.id, claimed[0].job.state), (now, State::Running));
    assert_eq!((claimed[0].lease.id, claimed[0].age), (now, Duration::ZERO));
    assert_eq!(shop.ids(10).await, []);
    assert_eq!(shop.state(now).await, State::Running);
}

pub(super) async fn older_jobs_first(shop: &Shop) {
    let new = shop.add(since(100, 4)).await;
    let old = shop.add(since(200, 4)).await;
    let oldest = shop.add(since(300, 4)).await;
    let same = shop.put_all(vec![job("a"), job("b"), job("c")]).await;
    let mut expected = vec![oldest, old, new];
    expected.extend(same.iter().map(|enqueued| enqueued.id()));
    assert_eq!(shop.ids(10).await, expected);
}

pub(super) async fn higher_priorities_first(shop: &Shop) {
    let mut expected = Vec::new();
    for level in 0..8 {
        expected.insert(0, shop.add(job("").priority(Priority::new(level))).await);
    }
    assert_eq!(shop.ids(3).await, expected[..3]);
    assert_eq!(shop.ids(10).await, expected[3..]);
}

pub(super) async fn priority_rises_while_a_job_waits(shop: &Shop) {
    // Each level is worth 10 s. Rows: seconds since it was due, and its level, in the order of claims.
    let rows = [(600, 0), (80, 1), (10, 7), (60, 1), (60, 0), (0, 4), (10, 1)];
    let mut ids = Vec::new();
    for (seconds, level) in rows.into_iter().rev() {
        ids.insert(0, shop.add(since(seconds, level)).await);
    }
    assert_eq!(shop.ids(2).await, ids[..2]);
    assert_eq!(shop.ids(10).await, ids[2..]);
}

pub(super) async fn a_claim_returns_at_most_the_requested_number(shop: &Shop) {
    shop.put_all((0..7).map(|_| job("")).collect()).await;
    let claims = shop.look(3, HOUR).await;
    assert_eq!((claims.jobs.len(), claims.next), (3, Some(NOW)));
    assert_eq!(shop.look(0, HOUR).await.jobs.len(), 0);
    assert_eq!(shop.claim(usize::MAX).await.len(), 4);
    assert_eq!(shop.claim(3).await.len(), 0);
}

pub(super) async fn next_is_the_earliest_of_due_times_and_leases(shop: &Shop) {
    assert_eq!(shop.look(1, HOUR).await.next, None);
    shop.add(job("").start(Start::After(5 * HOUR))).await;
    let next = shop.look(1, HOUR).await.next;
    assert!(about(next, 5 * HOUR), "{next:?}");
    shop.add(job("")).await;
    let next = shop.look(1, 3 * HOUR).await.next;
    assert!(about(next, 3 * HOUR), "{next:?}");
    shop.add(job("").priority(Priority::LOWEST).start(Start::After(2 * HOUR))).await;
    let next = shop.look(1, HOUR).await.next;
    assert!(about(next, 2 * HOUR), "{next:?}");
}

pub(super) async fn queues_do_not_see_each_other(shop: &Shop) {
    let here = shop.add(job("here")).await;
    let there = shop.store.enqueue("elsewhere", vec![job("there")]).await.unwrap()[0].id();
    assert_eq!(shop.ids(10).await, [here]);
    let claim = Claim { queue: "elsewhere".to_owned(), most: 10, lease: HOUR };
    let claimed = shop.store.claim(&claim).await.unwrap().jobs;
    assert_eq!((claimed.len(), claimed[0].job.id), (1, there));
    assert_eq!(claimed[0].job.queue, "elsewhere");
    assert_eq!(shop.counts().await.running, 1);
}

pub(super) async fn an_attempt_is_charged_when_it_is_claimed(shop: &Shop) {
    let id = shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    assert_eq!(claimed.job.progress.attempts, 1);
    assert_eq!(shop.get(id).await.progress.attempts, 1);
    shop.settle(&claimed, retry(NOW)).await;
    assert_eq!(shop.get(id).await.progress.attempts, 1);
    assert_eq!(shop.claim_one().await.job.progress.attempts, 2);
}

pub(super) async fn age_counts_from_the_first_claim(shop: &Shop) {
    let id = shop.add(job("")).await;
    assert_eq!(shop.get(id).await.begun, None);
    let first = shop.claim_one().await;
    let begun = shop.get(id).await.begun.unwrap();
    assert_eq!(first.age, Duration::ZERO);
    shop.settle(&first, retry(NOW)).await;
    let second = shop.claim_one().await;
    assert_eq!(second.job.begun, Some(begun));
    assert!(second.age > Duration::ZERO);
}
