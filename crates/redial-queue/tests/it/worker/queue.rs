//! A queue by its name: what it finds, what it refuses.

use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::{Rate, Span};
use redial_queue::durable::{
    DurableQueue, Edit, Filter, JobVerdict, NewJob, NewPolicy, QueueSettings, State, StoreError,
};

use crate::conformance::{Shop, job, sqlite};

fn queue(shop: &Shop) -> DurableQueue {
    DurableQueue::new(Arc::clone(&shop.store), Shop::QUEUE).unwrap()
}

fn why<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    let Err(StoreError::Invalid(why)) = result else { panic!("not refused: {result:?}") };
    why
}

#[tokio::test]
async fn a_redrive_of_ten_thousand_keeps_its_rate() {
    let shop = sqlite::open().await;
    shop.put_all((0..10_000).map(|_| job("")).collect()).await;
    let claimed = shop.claim(10_000).await;
    let settlement = |claimed: &redial_queue::durable::Claimed| redial_queue::durable::Settlement {
        lease: claimed.lease,
        verdict: JobVerdict::Dead { reason: "permanent".to_owned() },
        took: Duration::ZERO,
        outcome: "gone".to_owned(),
    };
    shop.store.settle(claimed.iter().map(settlement).collect()).await.unwrap();
    let rate = Rate::new(7, Duration::from_secs(3600));
    let redriven = queue(&shop).redrive(Filter::default(), Some(rate)).await.unwrap();
    assert_eq!((redriven, shop.counts().await.dead), (10_000, 0));
    let jobs = queue(&shop).list(Filter::default()).await.unwrap();
    let due: Vec<_> = jobs.iter().map(|job| job.due).collect();
    let hour = Duration::from_secs(3600);
    // No hour, wherever it begins, has more than seven.
    let crowded = due.windows(8).find(|due| due[7].duration_since(due[0]).unwrap() < hour);
    assert_eq!(crowded, None);
    let whole = due[9_999].duration_since(due[0]).unwrap();
    assert!(whole < hour * 10_000 / 7 + hour, "not much slower either: {whole:?}");
    let zero = queue(&shop).redrive(Filter::default(), Some(Rate::ZERO)).await;
    assert!(why(zero).contains("rate of zero"));
}

#[tokio::test]
async fn a_queue_touches_its_own_jobs_only() {
    let shop = sqlite::open().await;
    let mine = shop.add(job("mine")).await;
    let other = shop.store.enqueue("other", vec![job("other")]).await.unwrap()[0].id();
    let queue = queue(&shop);
    assert_eq!(queue.get(mine).await.unwrap().unwrap().payload, b"mine");
    assert_eq!(queue.get(other).await.unwrap(), None);
    let all = || Filter { queue: Some("other".to_owned()), ..Filter::default() };
    let listed = queue.list(all()).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [mine]);
    let edit = || Edit { payload: Some(b"new".to_vec()), ..Edit::default() };
    assert!(queue.edit(mine, edit()).await.unwrap());
    assert!(!queue.edit(other, edit()).await.unwrap());
    assert_eq!(queue.remove(all()).await.unwrap(), 1);
    assert_eq!(shop.get(other).await.payload, b"other");
    assert_eq!(shop.state(other).await, State::Waiting);
}

#[tokio::test]
async fn invalid_jobs_are_refused_before_a_request() {
    let shop = sqlite::open().await;
    let id = shop.add(job("good")).await;
    let queue = queue(&shop);
    let header = |name: &str, value: String| Some(vec![(name.to_owned(), value)]);
    let long = "x".repeat(NewJob::MOST_TEXT + 1);
    let edits = [
        (Edit { payload: Some(vec![0; NewJob::MOST_PAYLOAD + 1]), ..Edit::default() }, "a payload"),
        (Edit { headers: header("a", long), ..Edit::default() }, "all headers together"),
        (Edit { headers: header("a\0", String::new()), ..Edit::default() }, "a NUL"),
        (
            Edit { policy: Some(NewPolicy::Named("p".repeat(513))), ..Edit::default() },
            "the name of a policy",
        ),
    ];
    for (edit, part) in edits {
        let why = why(queue.edit(id, edit).await);
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(shop.get(id).await.payload, b"good");
    let long_key = job("").key("k".repeat(513), Default::default());
    assert!(why(queue.enqueue(long_key).await).contains("at most 512 bytes"));
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let shop = sqlite::open().await;
    let queue = queue(&shop);
    let second = Rate::per_second(1);
    let rules = [
        (RateRule::new(Rate::ZERO, 1), "rate: 0"),
        (RateRule::new(Rate { count: 1, per: Span::ZERO }, 1), "rate: 0"),
        (RateRule::new(Rate { count: 1, per: Span::MAX }, 1), "366 days"),
        (RateRule::new(second, 0), "burst: 0"),
    ];
    for (rule, part) in rules {
        let why = why(queue.change(|settings| settings.rate = Some(rule)).await);
        assert!(why.contains(part), "{why}");
        assert_eq!(queue.settings().await.unwrap(), QueueSettings::default());
    }
    queue.change(|settings| settings.rate = Some(RateRule::new(second, 1))).await.unwrap();
    assert_eq!(queue.settings().await.unwrap().rate, Some(RateRule::new(second, 1)));
    queue.pause().await.unwrap();
    assert!(queue.settings().await.unwrap().paused);
    queue.resume().await.unwrap();
    assert!(!queue.settings().await.unwrap().paused);
    for name in ["", "a\nb", &"x".repeat(101)] {
        let refused = DurableQueue::new(Arc::clone(&shop.store), name).map(|_| ());
        assert!(why(refused).contains("1 to 100 characters"));
    }
}
