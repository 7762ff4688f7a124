use std::time::Duration;

use redial_core::Progress;
use redial_queue::Priority;
use redial_queue::durable::{
    Edit, Filter, JobId, NewPolicy, QueueSettings, Redrive, Settlement, Start, State,
    redrive_in_pages, remove_in_pages,
};

use super::shop::{HOUR, NOW, Shop, dead, job, retry};

fn only(ids: &[JobId]) -> Filter {
    Filter { ids: ids.to_vec(), ..Filter::default() }
}

pub(super) async fn redrive_starts_over_and_keeps_the_history(shop: &Shop) {
    let id = shop.add(job("").idempotency_key("same")).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, retry(NOW)).await;
    shop.kill("attempts").await;
    let before = shop.get(id).await;
    let filter = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(shop.store.redrive(&filter, Redrive::default()).await.unwrap(), 1);
    let after = shop.get(id).await;
    assert_eq!((after.state, after.reason), (State::Waiting, None));
    assert_eq!((after.progress, after.begun), (Progress::default(), None));
    assert_eq!((after.history, after.idempotency_key), (before.history, "same".to_owned()));
    let claimed = shop.claim_one().await;
    assert_eq!((claimed.job.progress.attempts, claimed.age), (1, Duration::ZERO));
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.died, counts.running), (0, 1, 1));
    assert_eq!(shop.store.redrive(&filter, Redrive::default()).await.unwrap(), 0);
}

pub(super) async fn redriven_jobs_start_apart(shop: &Shop) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(shop.dead(job("")).await);
    }
    let apart = Duration::from_secs(90);
    let redrive = Redrive { after: HOUR, apart };
    assert_eq!(shop.store.redrive(&Filter::default(), redrive).await.unwrap(), 5);
    let jobs = shop.store.list(&Filter::default()).await.unwrap();
    let wrong = jobs.windows(2).find(|pair| {
        let gap = pair[1].due.duration_since(pair[0].due).unwrap_or_default();
        gap.abs_diff(apart) > Duration::from_millis(1)
    });
    assert_eq!(wrong, None);
    assert_eq!((shop.ids(9).await, shop.counts().await.later), (vec![], 5));
}

pub(super) async fn redrive_touches_only_dead_letters(shop: &Shop) {
    let dead = shop.dead(job("dead")).await;
    let running = shop.add(job("running")).await;
    let claimed = shop.claim_one().await;
    let waiting = shop.add(job("waiting").start(Start::After(HOUR))).await;
    let before = (shop.get(running).await, shop.get(waiting).await);
    let asked = Filter { state: Some(State::Waiting), ..Filter::default() };
    assert_eq!(shop.store.redrive(&asked, Redrive::default()).await.unwrap(), 0);
    let all = Filter::default();
    assert_eq!(shop.store.redrive(&all, Redrive::default()).await.unwrap(), 1);
    assert_eq!((shop.get(running).await, shop.get(waiting).await), before);
    assert_eq!(shop.ids(9).await, [dead]);
    assert_eq!(claimed.job.id, running);
}

pub(super) async fn dead_letters_beyond_the_limit_are_dropped(shop: &Shop) {
    shop.set(&QueueSettings { most_dead: Some(2), ..QueueSettings::default() }).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        ids.push(shop.dead(job(name)).await);
    }
    assert_eq!(shop.list(Filter::default()).await, ids[2..]);
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.died, counts.dropped), (2, 4, 2));
    shop.set(&QueueSettings { most_dead: Some(0), ..QueueSettings::default() }).await;
    shop.dead(job("e")).await;
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.died, counts.dropped), (0, 5, 5));
}

pub(super) async fn edit_then_redrive(shop: &Shop) {
    let id = shop.dead(job("broken").header("a", "b").policy("x")).await;
    assert!(shop.store.edit(id, Edit::default()).await.unwrap());
    assert_eq!(shop.get(id).await.payload, b"broken");
    let edit = Edit {
        payload: Some(b"mended".to_vec()),
        headers: Some(vec![("c".to_owned(), "d".to_owned())]),
        policy: Some(NewPolicy::OfWorker),
        priority: Some(Priority::HIGHEST),
    };
    assert!(shop.store.edit(id, edit).await.unwrap());
    let edited = shop.get(id).await;
    assert_eq!((edited.state, edited.reason.as_deref()), (State::Dead, Some("permanent")));
    shop.add(job("other")).await;
    shop.store.redrive(&only(&[id]), Redrive::default()).await.unwrap();
    let job = shop.claim_one().await.job;
    assert_eq!((job.id, &*job.payload, job.policy), (id, &b"mended"[..], None));
    assert_eq!(job.headers, [("c".to_owned(), "d".to_owned())]);
    let policy = Edit { policy: Some(NewPolicy::Named("y".to_owned())), ..Edit::default() };
    let waiting = shop.claim_one().await;
    shop.settle(&waiting, retry(NOW)).await;
    assert!(shop.store.edit(waiting.job.id, policy).await.unwrap());
    assert_eq!(shop.claim_one().await.job.policy.as_deref(), Some("y"));
}

pub(super) async fn a_running_job_cannot_be_edited(shop: &Shop) {
    let id = shop.add(job("old")).await;
    shop.claim_one().await;
    let edit = || Edit { payload: Some(b"new".to_vec()), ..Edit::default() };
    assert!(!shop.store.edit(id, edit()).await.unwrap());
    assert_eq!(shop.get(id).await.payload, b"old");
    assert!(!shop.store.edit(JobId(i64::MAX), edit()).await.unwrap());
}

pub(super) async fn a_running_job_cannot_be_removed(shop: &Shop) {
    let running = shop.add(job("running")).await;
    shop.look(1, NOW).await;
    shop.add(job("waiting").start(Start::After(HOUR))).await;
    assert_eq!(shop.store.remove(&Filter::default()).await.unwrap(), 1);
    assert_eq!(shop.list(Filter::default()).await, [running]);
    let asked = Filter { state: Some(State::Running), ..Filter::default() };
    assert_eq!(shop.store.remove(&asked).await.unwrap(), 0);
}

pub(super) async fn purge(shop: &Shop) {
    let first = shop.dead(job("a")).await;
    let second = shop.dead(job("b")).await;
    let waiting = shop.add(job("c")).await;
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(shop.store.remove(&Filter { ids: vec![second], ..dead.clone() }).await.unwrap(), 1);
    assert_eq!(shop.list(dead.clone()).await, [first]);
    assert_eq!(shop.store.remove(&dead).await.unwrap(), 1);
    assert_eq!(shop.store.remove(&dead).await.unwrap(), 0);
    assert_eq!(shop.list(Filter::default()).await, [waiting]);
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.died, counts.dropped), (0, 2, 0));
}

pub(super) async fn a_lower_limit_on_dead_letters_applies_at_once(shop: &Shop) {
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(shop.dead(job(name)).await);
    }
    shop.set(&QueueSettings { most_dead: Some(1), ..QueueSettings::default() }).await;
    assert_eq!(shop.list(Filter::default()).await, ids[2..]);
    let numbers = async || {
        let counts = shop.counts().await;
        (counts.dead, counts.died, counts.dropped)
    };
    assert_eq!(numbers().await, (1, 3, 2));
    assert_eq!(shop.store.redrive(&Filter::default(), Default::default()).await.unwrap(), 1);
    assert_eq!(shop.kill("again").await, ids[2]);
    assert_eq!(numbers().await, (1, 4, 2), "a redriven job is not counted twice");
    assert_eq!(shop.store.remove(&Filter::default()).await.unwrap(), 1);
    shop.dead(job("d")).await;
    assert_eq!(numbers().await, (1, 5, 2), "a removed one makes room");
}

/// This many dead letters: more than fit into a page.
async fn many_dead(shop: &Shop, count: usize) {
    shop.put_all((0..count).map(|_| job("")).collect()).await;
    let settle = |lease| Settlement {
        lease,
        verdict: dead("attempts"),
        took: Duration::ZERO,
        outcome: "503".to_owned(),
    };
    let claimed = shop.claim(count).await;
    shop.store.settle(claimed.iter().map(|job| settle(job.lease)).collect()).await.unwrap();
}

pub(super) async fn a_redrive_in_pages_keeps_its_pace(shop: &Shop) {
    many_dead(shop, 1001).await;
    let apart = Duration::from_secs(90);
    let redrive = Redrive { after: HOUR, apart };
    let redriven = redrive_in_pages(&*shop.store, Filter::default(), redrive).await.unwrap();
    assert_eq!((redriven.jobs, redriven.last), (1001, HOUR + 1000 * apart));
    let jobs = shop.store.list(&Filter::default()).await.unwrap();
    let whole = jobs[1000].due.duration_since(jobs[0].due).unwrap();
    // Each page starts at its own now.
    assert!(whole >= 1000 * apart && whole < 1001 * apart + HOUR, "{whole:?}");
    let none = redrive_in_pages(&*shop.store, Filter::default(), redrive).await.unwrap();
    assert_eq!((none.jobs, none.last), (0, Duration::ZERO));
}

pub(super) async fn a_removal_in_pages_stops_at_its_limit(shop: &Shop) {
    many_dead(shop, 1010).await;
    let most = Filter { most: 1005, ..Filter::default() };
    assert_eq!(remove_in_pages(&*shop.store, most).await.unwrap(), 1005);
    assert_eq!(shop.counts().await.dead, 5);
}
