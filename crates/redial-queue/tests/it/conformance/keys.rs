use std::time::SystemTime;

use redial_queue::Priority;
use redial_queue::durable::{
    Enqueued, Filter, JobId, JobVerdict, NewJob, Start, State, WhenWaiting,
};

use super::shop::{HOUR, NOW, Shop, dead, job, retry};

fn keyed(payload: &str, when_waiting: WhenWaiting) -> NewJob {
    job(payload).key("k", when_waiting)
}

async fn three(shop: &Shop) -> [JobId; 3] {
    let jobs = ["a", "b", "c"].map(|name| keyed(name, WhenWaiting::Append));
    let added = shop.put_all(jobs.into()).await;
    [added[0].id(), added[1].id(), added[2].id()]
}

async fn states(shop: &Shop, ids: &[JobId]) -> Vec<State> {
    let mut states = Vec::new();
    for id in ids {
        states.push(shop.state(*id).await);
    }
    states
}

use State::{Held, Running, Waiting};

pub(super) async fn one_of_a_key_at_a_time_in_order(shop: &Shop) {
    let ids = three(shop).await;
    assert_eq!(states(shop, &ids).await, [Waiting, Held, Held]);
    assert_eq!((shop.counts().await.due, shop.counts().await.held), (1, 2));
    for (number, id) in ids.iter().enumerate() {
        let claimed = shop.claim(10).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].job.id, *id);
        assert_eq!(shop.counts().await.held, 2 - number as u64);
        shop.settle(&claimed[0], JobVerdict::Done).await;
    }
    assert_eq!((shop.counts().await.done, shop.counts().await.held), (3, 0));
}

pub(super) async fn two_of_a_key_at_a_time(shop: &Shop) {
    shop.per_key(2).await;
    let ids = three(shop).await;
    assert_eq!(states(shop, &ids).await, [Waiting, Waiting, Held]);
    let claimed = shop.claim(10).await;
    assert_eq!(claimed.len(), 2);
    shop.settle(&claimed[1], JobVerdict::Done).await;
    assert_eq!(shop.ids(10).await, [ids[2]]);
}

pub(super) async fn any_number_of_a_key_at_a_time(shop: &Shop) {
    shop.per_key(0).await;
    let ids = three(shop).await;
    assert_eq!(shop.ids(10).await, ids);
    assert_eq!(states(shop, &ids).await, [Running; 3]);
}

pub(super) async fn a_retry_holds_the_others(shop: &Shop) {
    let ids = three(shop).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, retry(HOUR)).await;
    assert_eq!(states(shop, &ids).await, [Waiting, Held, Held]);
    assert_eq!(shop.ids(10).await, []);
}

pub(super) async fn a_dead_letter_does_not_hold_the_others(shop: &Shop) {
    let ids = three(shop).await;
    assert_eq!(shop.kill("poison").await, ids[0]);
    assert_eq!(states(shop, &ids).await, [State::Dead, Waiting, Held]);
    assert_eq!(shop.ids(10).await, [ids[1]]);
}

pub(super) async fn a_removed_job_releases_the_next(shop: &Shop) {
    let ids = three(shop).await;
    let only = |id| Filter { ids: vec![id], ..Filter::default() };
    assert_eq!(shop.store.remove(&only(ids[1])).await.unwrap(), 1);
    assert_eq!(states(shop, &[ids[0], ids[2]]).await, [Waiting, Held]);
    assert_eq!(shop.store.remove(&only(ids[0])).await.unwrap(), 1);
    assert_eq!(shop.ids(10).await, [ids[2]]);
}

pub(super) async fn a_released_job_keeps_its_own_time(shop: &Shop) {
    let first = shop.add(keyed("a", WhenWaiting::Append)).await;
    let later = keyed("b", WhenWaiting::Append).start(Start::After(HOUR));
    let later = shop.add(later).await;
    let claimed = shop.claim_one().await;
    assert_eq!(claimed.job.id, first);
    shop.settle(&claimed, JobVerdict::Done).await;
    assert_eq!(shop.state(later).await, Waiting);
    assert_eq!((shop.counts().await.later, shop.counts().await.held), (1, 0));
    assert_eq!(shop.ids(10).await, []);
}

pub(super) async fn jobs_of_other_queues_or_without_a_key_do_not_count(shop: &Shop) {
    let there = shop.store.enqueue("elsewhere", vec![keyed("x", WhenWaiting::Append)]).await;
    assert!(matches!(there.unwrap()[0], Enqueued::Added(_)));
    let here = shop.add(keyed("y", WhenWaiting::Refuse)).await;
    let plain = shop.put_all(vec![job("1"), job("2")]).await;
    let other = shop.add(job("z").key("other", WhenWaiting::Refuse)).await;
    let empty = shop.add(job("e").key("", WhenWaiting::Refuse)).await;
    let expected = [here, plain[0].id(), plain[1].id(), other, empty];
    assert_eq!(shop.ids(10).await, expected);
    assert!(matches!(shop.put(job("e").key("", WhenWaiting::Append)).await, Enqueued::Added(_)));
    assert_eq!(shop.counts().await.held, 1, "an empty key is a key");
}

pub(super) async fn keep(shop: &Shop) {
    let old = shop.add(keyed("old", WhenWaiting::Keep)).await;
    assert_eq!(shop.put(keyed("new", WhenWaiting::Keep)).await, Enqueued::Kept(old));
    assert_eq!(shop.get(old).await.payload, b"old");
    assert_eq!(shop.list(Filter::default()).await, [old]);
}

pub(super) async fn refuse(shop: &Shop) {
    let old = shop.add(keyed("old", WhenWaiting::Refuse)).await;
    assert_eq!(shop.put(keyed("new", WhenWaiting::Refuse)).await, Enqueued::Refused(old));
    assert_eq!(shop.get(old).await.payload, b"old");
    assert_eq!(shop.list(Filter::default()).await, [old]);
    shop.kill("permanent").await;
    assert!(matches!(shop.put(keyed("new", WhenWaiting::Refuse)).await, Enqueued::Added(_)));
}

pub(super) async fn replace(shop: &Shop) {
    let old = keyed("old", WhenWaiting::Append).header("a", "b").start(Start::After(2 * HOUR));
    let old = shop.add(old.policy("x")).await;
    let new = keyed("new", WhenWaiting::Replace)
        .header("c", "d")
        .priority(Priority::HIGHEST)
        .start(Start::After(HOUR))
        .idempotency_key("another");
    assert_eq!(shop.put(new.clone()).await, Enqueued::Replaced(old));
    let kept = shop.get(old).await;
    assert_eq!((&kept.payload, &kept.headers), (&new.payload, &new.headers));
    assert_eq!((kept.priority, kept.policy), (new.priority, None));
    assert_eq!((kept.idempotency_key, kept.state), (new.idempotency_key, Waiting));
    let left = kept.due.duration_since(SystemTime::now()).unwrap();
    assert!(left < HOUR + HOUR / 2, "it did not fail, so the new time counts: {left:?}");
    let at_once = keyed("now", WhenWaiting::Replace).priority(Priority::LOWEST);
    assert_eq!(shop.put(at_once).await, Enqueued::Replaced(old));
    let claimed = shop.claim(10).await;
    assert_eq!((claimed.len(), &*claimed[0].job.payload), (1, &b"now"[..]));
    assert_eq!(claimed[0].job.progress.attempts, 1);
}

pub(super) async fn replace_after_a_failure_keeps_the_wait(shop: &Shop) {
    let id = shop.add(keyed("old", WhenWaiting::Append)).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, retry(HOUR)).await;
    let due = shop.get(id).await.due;
    assert_eq!(shop.put(keyed("new", WhenWaiting::Replace)).await, Enqueued::Replaced(id));
    let kept = shop.get(id).await;
    assert_eq!((kept.due, &*kept.payload), (due, &b"new"[..]));
    assert_eq!((kept.progress, kept.history.len()), (Default::default(), 0));
    assert_eq!(kept.begun, None);
    assert_eq!(shop.ids(1).await, []);
}

pub(super) async fn running_does_not_count_as_waiting(shop: &Shop) {
    for when_waiting in [WhenWaiting::Keep, WhenWaiting::Refuse, WhenWaiting::Replace] {
        let key = format!("{when_waiting:?}");
        let running = shop.add(job("1").key(&key, when_waiting)).await;
        let claimed = shop.claim_one().await;
        assert_eq!(claimed.job.id, running);
        let next = shop.add(job("2").key(&key, when_waiting)).await;
        assert_eq!(shop.state(next).await, Held);
        let third = shop.put(job("3").key(&key, when_waiting)).await;
        assert_eq!(third.id(), next);
        assert!(!matches!(third, Enqueued::Added(_)), "{third:?}");
        let expected = if when_waiting == WhenWaiting::Replace { b"3" } else { b"2" };
        assert_eq!((shop.state(next).await, &*shop.get(next).await.payload), (Held, &expected[..]));
        shop.settle(&claimed, JobVerdict::Done).await;
        assert_eq!(shop.ids(10).await, [next]);
    }
}

pub(super) async fn replaces_the_newest(shop: &Shop) {
    let ids = three(shop).await;
    assert_eq!(shop.put(keyed("new", WhenWaiting::Replace)).await, Enqueued::Replaced(ids[2]));
    assert_eq!(shop.put(keyed("no", WhenWaiting::Keep)).await, Enqueued::Kept(ids[2]));
    assert_eq!(shop.get(ids[0]).await.payload, b"a");
    assert_eq!(shop.get(ids[2]).await.payload, b"new");
    assert_eq!(shop.state(ids[2]).await, Held);
}

pub(super) async fn jobs_of_a_batch_see_each_other(shop: &Shop) {
    use WhenWaiting::{Append, Keep, Refuse, Replace};
    let jobs = [("1", Keep), ("2", Keep), ("3", Replace), ("4", Append), ("5", Refuse)];
    let done = shop.put_all(jobs.map(|(name, when)| keyed(name, when)).into()).await;
    let (first, fourth) = (done[0].id(), done[3].id());
    let expected = [
        Enqueued::Added(first),
        Enqueued::Kept(first),
        Enqueued::Replaced(first),
        Enqueued::Added(fourth),
        Enqueued::Refused(fourth),
    ];
    assert_eq!(done, expected);
    assert_eq!(shop.get(first).await.payload, b"3");
    assert_eq!(states(shop, &[first, fourth]).await, [Waiting, Held]);
}

pub(super) async fn a_redriven_job_waits_for_its_key(shop: &Shop) {
    let ids = three(shop).await;
    assert_eq!(shop.kill("poison").await, ids[0]);
    let claimed = shop.claim_one().await;
    assert_eq!(claimed.job.id, ids[1]);
    let all = Filter::default();
    assert_eq!(shop.store.redrive(&all, Default::default()).await.unwrap(), 1);
    assert_eq!(states(shop, &ids).await, [Held, Running, Held]);
    shop.settle(&claimed, dead("too")).await;
    assert_eq!(states(shop, &ids).await, [Waiting, State::Dead, Held]);
    let first = shop.claim_one().await;
    assert_eq!((first.job.id, first.job.progress.attempts), (ids[0], 1));
    shop.settle(&first, JobVerdict::Postpone { wait: NOW }).await;
    assert_eq!(states(shop, &ids).await, [Waiting, State::Dead, Held]);
}

pub(super) async fn a_raised_limit_applies_to_later_jobs(shop: &Shop) {
    let ids = three(shop).await;
    shop.per_key(3).await;
    assert_eq!(states(shop, &ids).await, [Waiting, Held, Held]);
    let fourth = shop.add(keyed("d", WhenWaiting::Append)).await;
    assert_eq!(states(shop, &ids).await, [Waiting; 3], "older jobs go first");
    assert_eq!(shop.state(fourth).await, Held);
    shop.per_key(0).await;
    let fifth = shop.add(keyed("e", WhenWaiting::Append)).await;
    assert_eq!(states(shop, &[fourth, fifth]).await, [Held, Waiting]);
    let claimed = shop.claim(10).await;
    assert_eq!(claimed.len(), 4);
    shop.settle(&claimed[0], JobVerdict::Done).await;
    assert_eq!(shop.ids(10).await, [fourth]);
}
