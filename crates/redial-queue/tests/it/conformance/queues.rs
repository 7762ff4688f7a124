use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redial_core::Rate;
use redial_core::admit::RateRule;
use redial_queue::Priority;
use redial_queue::durable::{
    Claim, Claims, Counts, Filter, JobId, JobVerdict, QueueSettings, Redrive, Start, Store,
    WhenWaiting,
};
use tokio::time::timeout;

use super::shop::{HOUR, NOW, Shop, about, job, retry};

pub(super) async fn a_paused_queue_claims_nothing(shop: &Shop) {
    let ids = shop.put_all(vec![job("a"), job("b")]).await;
    let running = shop.claim_one().await;
    shop.set(&QueueSettings { paused: true, ..QueueSettings::default() }).await;
    let claims = shop.look(5, HOUR).await;
    assert_eq!((claims.jobs.len(), claims.next), (0, None));
    shop.settle(&running, retry(NOW)).await;
    shop.add(job("c")).await;
    assert_eq!(shop.ids(5).await, []);
    let other = Claim { queue: "elsewhere".to_owned(), most: 5, lease: HOUR };
    shop.store.enqueue("elsewhere", vec![job("d")]).await.unwrap();
    assert_eq!(shop.store.claim(&other).await.unwrap().jobs.len(), 1);
    shop.set(&QueueSettings::default()).await;
    assert_eq!(shop.ids(1).await, [ids[1].id()]);
    assert_eq!(shop.claim(5).await.len(), 2);
}

pub(super) async fn settings_are_kept(shop: &Shop) {
    assert_eq!(shop.store.settings(Shop::QUEUE).await.unwrap(), QueueSettings::default());
    let rate = Rate::new(7, Duration::from_millis(1500));
    let settings = QueueSettings {
        paused: true,
        rate: Some(RateRule::new(rate, 9)),
        per_key: NonZeroU32::new(4),
        most_dead: Some(12),
    };
    shop.set(&settings).await;
    assert_eq!(shop.store.settings(Shop::QUEUE).await.unwrap(), settings);
    assert_eq!(shop.store.settings("elsewhere").await.unwrap(), QueueSettings::default());
    shop.set(&QueueSettings::default()).await;
    assert_eq!(shop.store.settings(Shop::QUEUE).await.unwrap(), QueueSettings::default());
}

pub(super) async fn a_rate_bounds_claims(shop: &Shop) {
    shop.put_all((0..9).map(|_| job("")).collect()).await;
    let rate = Some(RateRule::new(Rate::new(1, HOUR), 4));
    shop.set(&QueueSettings { rate, ..QueueSettings::default() }).await;
    let claims = shop.look(3, 5 * HOUR).await;
    assert_eq!((claims.jobs.len(), claims.limited), (3, false));
    let claims = shop.look(3, 5 * HOUR).await;
    assert_eq!((claims.jobs.len(), claims.limited), (1, true));
    let claims = shop.look(3, 5 * HOUR).await;
    assert_eq!((claims.jobs.len(), claims.limited), (0, true));
    assert!(about(claims.next, HOUR), "{:?}", claims.next);
    assert_eq!((shop.counts().await.due, shop.counts().await.running), (5, 4));
    shop.set(&QueueSettings::default()).await;
    assert_eq!(shop.claim(9).await.len(), 5);
}

pub(super) async fn a_claim_is_limited_only_if_the_rate_holds_back_due_jobs(shop: &Shop) {
    let rate = Some(RateRule::new(Rate::new(1, HOUR), 1));
    shop.set(&QueueSettings { rate, ..QueueSettings::default() }).await;
    assert!(!shop.look(3, HOUR).await.limited, "no jobs");
    shop.put_all(vec![job(""), job("").start(Start::After(HOUR))]).await;
    let claims = shop.look(3, 5 * HOUR).await;
    assert_eq!((claims.jobs.len(), claims.limited), (1, false), "the other job is not due");
    shop.add(job("")).await;
    assert!(shop.look(3, HOUR).await.limited);
    shop.set(&QueueSettings { rate, paused: true, ..QueueSettings::default() }).await;
    assert!(!shop.look(3, HOUR).await.limited, "paused");
}

pub(super) async fn a_rate_of_zero_claims_nothing(shop: &Shop) {
    shop.add(job("")).await;
    let rate = Some(RateRule::new(Rate::ZERO, 4));
    shop.set(&QueueSettings { rate, ..QueueSettings::default() }).await;
    assert_eq!(shop.ids(3).await, []);
    shop.set(&QueueSettings::default()).await;
    assert_eq!(shop.ids(3).await.len(), 1);
}

pub(super) async fn an_unknown_queue_is_empty(shop: &Shop) {
    assert_eq!(shop.counts().await, Counts::default());
    let claims = shop.look(5, HOUR).await;
    assert_eq!((claims.jobs.len(), claims.next), (0, None));
    assert_eq!(shop.store.queues().await.unwrap(), Vec::<String>::new());
    assert_eq!(shop.store.get(JobId(1)).await.unwrap(), None);
    assert_eq!(shop.store.get(JobId(i64::MIN)).await.unwrap(), None);
    assert_eq!(shop.list(Filter::default()).await, []);
    assert_eq!(shop.store.remove(&Filter::default()).await.unwrap(), 0);
}

pub(super) async fn queues_are_listed(shop: &Shop) {
    for name in ["b", "a ' \u{1f9e6}", "c"] {
        shop.store.enqueue(name, vec![job("")]).await.unwrap();
    }
    let mut queues = shop.store.queues().await.unwrap();
    queues.sort();
    assert_eq!(queues, ["a ' \u{1f9e6}", "b", "c"]);
}

pub(super) async fn counts_of_each_state(shop: &Shop) {
    shop.dead(job("")).await;
    shop.put_all((0..3).map(|_| job("").key("k", WhenWaiting::Append)).collect()).await;
    shop.claim_one().await;
    let ago = SystemTime::now() - 2 * HOUR;
    let old = job("").start(Start::At(ago));
    shop.put_all(vec![old, job(""), job("").start(Start::After(HOUR))]).await;
    shop.store.enqueue("elsewhere", vec![job("")]).await.unwrap();
    let counts = shop.counts().await;
    assert!(counts.oldest >= 2 * HOUR && counts.oldest < 3 * HOUR, "{:?}", counts.oldest);
    let expected = Counts {
        due: 2,
        later: 1,
        held: 2,
        running: 1,
        dead: 1,
        oldest: counts.oldest,
        enqueued: 7,
        died: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
}

pub(super) async fn oldest_is_the_age_of_the_oldest_due_job(shop: &Shop) {
    let oldest = async || shop.store.oldest(Shop::QUEUE).await.unwrap();
    assert_eq!(oldest().await, Duration::ZERO, "no queue");
    shop.add(job("").start(Start::After(HOUR))).await;
    assert_eq!(oldest().await, Duration::ZERO, "nothing is due");
    let ago = |hours| Start::At(SystemTime::now() - hours * HOUR);
    let low = job("").start(ago(4)).priority(Priority::LOWEST);
    let high = job("").start(ago(2)).priority(Priority::HIGHEST);
    shop.put_all(vec![high, low]).await;
    shop.store.enqueue("elsewhere", vec![job("").start(ago(9))]).await.unwrap();
    for hours in [4, 2] {
        let (before, is, after) =
            (shop.counts().await.oldest, oldest().await, shop.counts().await.oldest);
        assert!(before <= is && is <= after, "{before:?} {is:?} {after:?}");
        assert!(is >= hours * HOUR && is < (hours + 1) * HOUR, "{is:?}");
        shop.claim_one().await;
    }
    assert_eq!(oldest().await, Duration::ZERO, "a running job is not waiting");
}

/// Fails after a time that is long enough for any machine.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), what).await.expect("no wake-up")
}

/// Claims a job, and tries again only when the store reports a change.
fn fetcher(store: &Arc<dyn Store>) -> tokio::task::JoinHandle<Claims> {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let claim = Claim { queue: Shop::QUEUE.to_owned(), most: 1, lease: HOUR };
        loop {
            let claims = store.claim(&claim).await.unwrap();
            if !claims.jobs.is_empty() {
                return claims;
            }
            store.changed(Shop::QUEUE, claims.seen).await.unwrap();
        }
    })
}

pub(super) async fn changed_ends_for_a_new_job(shop: &Shop) {
    for _ in 0..5 {
        let fetcher = fetcher(&shop.store);
        tokio::task::yield_now().await;
        let id = shop.add(job("")).await;
        assert_eq!(soon(fetcher).await.unwrap().jobs[0].job.id, id);
    }
}

pub(super) async fn changed_ends_for_a_change_since_the_claim(shop: &Shop) {
    let first = fetcher(&shop.store);
    shop.add(job("")).await;
    let seen = soon(first).await.unwrap().seen;
    shop.add(job("")).await;
    soon(shop.store.changed(Shop::QUEUE, seen)).await.unwrap();
}

pub(super) async fn changed_ends_for_a_release_a_redrive_and_a_resume(shop: &Shop) {
    let keyed = || job("").key("k", WhenWaiting::Append);
    let ids = shop.put_all(vec![keyed(), keyed()]).await;
    let first = shop.claim_one().await;
    let waiting = fetcher(&shop.store);
    tokio::task::yield_now().await;
    shop.settle(&first, JobVerdict::Done).await;
    let second = soon(waiting).await.unwrap().jobs.remove(0);
    assert_eq!(second.job.id, ids[1].id());

    shop.settle(&second, super::shop::dead("why")).await;
    let waiting = fetcher(&shop.store);
    tokio::task::yield_now().await;
    shop.store.redrive(&Filter::default(), Redrive::default()).await.unwrap();
    let third = soon(waiting).await.unwrap().jobs.remove(0);
    assert_eq!(third.job.id, ids[1].id());

    shop.set(&QueueSettings { paused: true, ..QueueSettings::default() }).await;
    let fourth = shop.add(job("")).await;
    let waiting = fetcher(&shop.store);
    tokio::task::yield_now().await;
    shop.set(&QueueSettings::default()).await;
    assert_eq!(soon(waiting).await.unwrap().jobs[0].job.id, fourth);
}
