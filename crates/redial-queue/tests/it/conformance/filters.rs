use std::time::{Duration, SystemTime};

use redial_queue::durable::{Filter, Group, JobId, Redrive, Start, State, WhenWaiting};

use super::shop::{HOUR, Shop, dead, job};

pub(super) async fn each_field_narrows(shop: &Shop) {
    let there = shop.store.enqueue("elsewhere", vec![job("")]).await.unwrap()[0].id();
    let keyed = shop.add(job("").key("k", WhenWaiting::Append)).await;
    let other = shop.add(job("").key("l", WhenWaiting::Append)).await;
    let claimed = shop.claim(2).await;
    shop.settle_as(&claimed[0], dead("attempts"), "503 from the warehouse").await;
    shop.settle_as(&claimed[1], dead("deadline"), "timed out_ at 100%").await;
    let held = [("h", 1), ("h", 2)].map(|(key, _)| job("").key(key, WhenWaiting::Append));
    let held: Vec<JobId> = shop.put_all(held.into()).await.iter().map(|e| e.id()).collect();
    let text = |text: &str| Some(text.to_owned());
    let any = Filter::default;
    let cases = [
        (any(), vec![there, keyed, other, held[0], held[1]]),
        (Filter { queue: text("elsewhere"), ..any() }, vec![there]),
        (Filter { queue: text("nowhere"), ..any() }, vec![]),
        (Filter { state: Some(State::Dead), ..any() }, vec![keyed, other]),
        (Filter { state: Some(State::Held), ..any() }, vec![held[1]]),
        (Filter { state: Some(State::Waiting), ..any() }, vec![there, held[0]]),
        (Filter { state: Some(State::Running), ..any() }, vec![]),
        (Filter { ids: vec![other, there, JobId(i64::MAX)], ..any() }, vec![there, other]),
        (Filter { key: text("k"), ..any() }, vec![keyed]),
        (Filter { key: text("h"), ..any() }, held.clone()),
        (Filter { reason: text("deadline"), ..any() }, vec![other]),
        (Filter { reason: text("dead"), ..any() }, vec![]),
        (Filter { outcome: text("warehouse"), ..any() }, vec![keyed]),
        (Filter { outcome: text("out_"), ..any() }, vec![other]),
        (Filter { outcome: text("503_from"), ..any() }, vec![]),
        (Filter { outcome: text("%"), ..any() }, vec![other]),
        (Filter { outcome: text("["), ..any() }, vec![]),
        (Filter { outcome: text("\""), ..any() }, vec![]),
        (Filter { after: Some(keyed), ..any() }, vec![other, held[0], held[1]]),
        (Filter { most: 2, ..any() }, vec![there, keyed]),
        (Filter { most: 0, ..any() }, vec![]),
        (Filter { key: text("k"), state: Some(State::Waiting), ..any() }, vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(shop.list(filter.clone()).await, expected, "{filter:?}");
        let count = shop.store.count(&filter).await.unwrap();
        assert_eq!(count, expected.len() as u64, "{filter:?}");
    }
}

pub(super) async fn pages(shop: &Shop) {
    let jobs = (0..25).map(|_| job("")).collect();
    let all: Vec<JobId> = shop.put_all(jobs).await.iter().map(|added| added.id()).collect();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = shop.list(Filter { after, most: 10, ..Filter::default() }).await;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        seen.extend(page);
    }
    assert_eq!(seen, all);
}

pub(super) async fn most_bounds_removal_and_redrive(shop: &Shop) {
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(shop.dead(job("")).await);
    }
    let two = Filter { most: 2, ..Filter::default() };
    assert_eq!(shop.store.remove(&two).await.unwrap(), 2);
    assert_eq!(shop.store.redrive(&two, Redrive::default()).await.unwrap(), 2);
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(shop.list(dead.clone()).await, ids[4..]);
    assert_eq!(shop.ids(9).await, ids[2..4]);
    let last = Filter { after: Some(ids[4]), ..dead.clone() };
    assert_eq!(shop.store.remove(&last).await.unwrap(), 1);
    assert_eq!(shop.list(dead).await, [ids[4]]);
}

pub(super) async fn older_counts_from_due_or_death(shop: &Shop) {
    let dead = shop.dead(job("")).await;
    let ago = SystemTime::now() - 3 * HOUR;
    let old = shop.add(job("").start(Start::At(ago))).await;
    let new = shop.add(job("")).await;
    shop.add(job("").start(Start::After(HOUR))).await;
    let older = |older| Filter { older: Some(older), ..Filter::default() };
    assert_eq!(shop.list(older(Duration::ZERO)).await, [dead, old, new]);
    assert_eq!(shop.list(older(2 * HOUR)).await, [old]);
    assert_eq!(shop.list(older(Duration::MAX)).await, []);
    assert_eq!(shop.store.remove(&older(2 * HOUR)).await.unwrap(), 1);
}

pub(super) async fn jobs_are_grouped_by_reason_and_last_outcome(shop: &Shop) {
    let ends = [
        ("attempts", "503"),
        ("attempts", "timed out"),
        ("attempts", "503"),
        ("permanent", "503"),
        ("attempts", "503"),
    ];
    let mut ids = Vec::new();
    for (reason, outcome) in ends {
        ids.push(shop.add(job("")).await);
        let claimed = shop.claim_one().await;
        shop.settle_as(&claimed, dead(reason), outcome).await;
    }
    let alive = shop.add(job("").start(Start::After(HOUR))).await;
    let seen = async |filter: Filter, most| {
        let groups = shop.store.groups(&filter, most).await.unwrap();
        let seen = |group: &Group| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&group.reason), text(&group.outcome), group.jobs, group.first)
        };
        assert!(groups.iter().all(|group| group.oldest <= group.newest));
        groups.iter().map(seen).collect::<Vec<_>>()
    };
    let of = |reason: &str, outcome: &str, jobs, first| {
        (reason.to_owned(), outcome.to_owned(), jobs, first)
    };
    let died = Filter { state: Some(State::Dead), ..Filter::default() };
    let all = [
        of("attempts", "503", 3, ids[0]),
        of("attempts", "timed out", 1, ids[1]),
        of("permanent", "503", 1, ids[3]),
    ];
    assert_eq!(seen(died.clone(), 9).await, all);
    assert_eq!(seen(died.clone(), 1).await, all[..1]);
    assert_eq!(seen(Filter { most: 2, ..died.clone() }, 9).await, {
        [of("attempts", "503", 1, ids[0]), of("attempts", "timed out", 1, ids[1])]
    });
    assert_eq!(seen(Filter { queue: Some("nowhere".to_owned()), ..died.clone() }, 9).await, []);
    let waiting = Filter { state: Some(State::Waiting), ..Filter::default() };
    assert_eq!(seen(waiting, 9).await, [of("", "", 1, alive)]);
    let group = shop.store.groups(&died, 1).await.unwrap().remove(0);
    let died_at = async |id| shop.get(id).await.due;
    assert_eq!((group.oldest, group.newest), (died_at(ids[0]).await, died_at(ids[4]).await));
}
