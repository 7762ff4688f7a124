use std::time::{Duration, SystemTime};

use redial_queue::durable::{JobId, JobLease, JobVerdict, Settled, Start, State, Tried};

use super::shop::{HOUR, NOW, Shop, dead, job, retry};

pub(super) async fn a_lease_that_ran_out_is_claimed_again(shop: &Shop) {
    let id = shop.add(job("")).await;
    let first = shop.look(1, NOW).await.jobs.remove(0);
    let second = shop.claim_one().await;
    assert_eq!((first.job.id, second.job.id), (id, id));
    assert!(second.lease.fence > first.lease.fence);
    assert_eq!(second.job.progress.attempts, 2);
    let history: Vec<_> = second.job.history.iter().map(|t| (t.number, &*t.outcome)).collect();
    assert_eq!(history, [(1, Tried::LOST)]);
    let lost = &second.job.history[0];
    assert_eq!((lost.ended, lost.took), (first.job.due, NOW), "the attempt ends with its lease");
    assert_eq!(shop.counts().await.lost, 1);
    assert_eq!(shop.get(id).await.history, second.job.history);
    assert_eq!(shop.ids(1).await, []);
}

pub(super) async fn a_lost_job_keeps_its_place_in_the_order(shop: &Shop) {
    let ago = SystemTime::now() - 2 * HOUR;
    let lost = shop.add(job("lost").start(Start::At(ago))).await;
    shop.look(1, NOW).await;
    let newer = SystemTime::now() - HOUR;
    let newer = shop.add(job("newer").start(Start::At(newer))).await;
    assert_eq!(shop.ids(2).await, [lost, newer]);
}

pub(super) async fn fences_rise(shop: &Shop) {
    shop.add(job("")).await;
    let mut last = i64::MIN;
    let verdicts = [retry(NOW), JobVerdict::Postpone { wait: NOW }, retry(NOW), dead("so")];
    for verdict in verdicts {
        let claimed = shop.claim_one().await;
        assert!(claimed.lease.fence > last);
        last = claimed.lease.fence;
        assert_eq!(shop.settle(&claimed, verdict).await, Settled::Taken);
    }
    shop.store.redrive(&Default::default(), Default::default()).await.unwrap();
    assert!(shop.claim_one().await.lease.fence > last, "a redrive keeps the fence");
}

pub(super) async fn a_stale_settlement_changes_nothing(shop: &Shop) {
    let id = shop.add(job("")).await;
    let slow = shop.look(1, NOW).await.jobs.remove(0);
    let quick = shop.claim_one().await;
    let before = (shop.get(id).await, shop.counts().await);
    let verdicts =
        [JobVerdict::Done, retry(NOW), JobVerdict::Postpone { wait: NOW }, dead("a stale worker")];
    for (number, verdict) in verdicts.into_iter().enumerate() {
        assert_eq!(shop.settle(&slow, verdict).await, Settled::Stale);
        assert_eq!(shop.get(id).await, before.0);
        assert_eq!(shop.counts().await.stale, number as u64 + 1);
    }
    let mut counts = shop.counts().await;
    (counts.stale, counts.oldest) = (0, before.1.oldest);
    assert_eq!(counts, before.1);
    assert_eq!(shop.settle(&quick, JobVerdict::Done).await, Settled::Taken);
}

pub(super) async fn a_settlement_counts_once(shop: &Shop) {
    shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    assert_eq!(shop.settle(&claimed, retry(NOW)).await, Settled::Taken);
    assert_eq!(shop.settle(&claimed, retry(NOW)).await, Settled::Stale);
    assert_eq!(shop.settle(&claimed, JobVerdict::Done).await, Settled::Stale);
    assert_eq!((shop.counts().await.retried, shop.counts().await.done), (1, 0));
    let beats = shop.store.beat(&[claimed.lease], HOUR).await.unwrap();
    assert_eq!(beats, [false]);
    assert_eq!(shop.state(claimed.job.id).await, State::Waiting);
}

pub(super) async fn a_late_settlement_counts_if_the_job_was_not_claimed_again(shop: &Shop) {
    let id = shop.add(job("")).await;
    let late = shop.look(1, NOW).await.jobs.remove(0);
    assert_eq!(shop.store.beat(&[late.lease], NOW).await.unwrap(), [true]);
    assert_eq!(shop.settle(&late, JobVerdict::Done).await, Settled::Taken);
    assert_eq!(shop.store.get(id).await.unwrap(), None);
    let counts = shop.counts().await;
    assert_eq!((counts.done, counts.lost, counts.stale), (1, 0, 0));
}

pub(super) async fn a_heartbeat_keeps_a_lease(shop: &Shop) {
    let jobs = shop.put_all(vec![job("a"), job("b"), job("c")]).await;
    let claimed = shop.look(3, NOW).await.jobs;
    let leases: Vec<JobLease> = claimed[..2].iter().map(|claimed| claimed.lease).collect();
    assert_eq!(shop.store.beat(&leases, HOUR).await.unwrap(), [true, true]);
    let due = shop.get(jobs[0].id()).await.due;
    let left = due.duration_since(SystemTime::now()).unwrap_or_default();
    assert!(left > HOUR / 2, "the lease runs out in {left:?}");
    assert_eq!(shop.ids(3).await, [jobs[2].id()]);
    assert_eq!(shop.store.beat(&[], HOUR).await.unwrap().len(), 0);
    assert_eq!(shop.store.beat(&leases, NOW).await.unwrap(), [true, true]);
    assert_eq!(shop.ids(3).await, [jobs[0].id(), jobs[1].id()]);
}

pub(super) async fn a_stale_heartbeat_is_reported(shop: &Shop) {
    shop.put_all(vec![job("a"), job("b")]).await;
    let slow = shop.look(1, NOW).await.jobs.remove(0);
    let other = shop.claim(2).await;
    assert_eq!(other.len(), 2);
    let leases = [other[1].lease, slow.lease, other[0].lease];
    assert_eq!(shop.store.beat(&leases, HOUR).await.unwrap(), [true, false, true]);
    assert_eq!(shop.counts().await.stale, 1);
}

pub(super) async fn a_job_that_is_gone_is_stale(shop: &Shop) {
    shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, JobVerdict::Done).await;
    assert_eq!(shop.settle(&claimed, JobVerdict::Done).await, Settled::Stale);
    assert_eq!(shop.store.beat(&[claimed.lease], HOUR).await.unwrap(), [false]);
    let unknown = JobLease { id: JobId(i64::MAX), fence: 1 };
    assert_eq!(shop.store.beat(&[unknown], Duration::MAX).await.unwrap(), [false]);
    assert_eq!(shop.counts().await.done, 1);
}
