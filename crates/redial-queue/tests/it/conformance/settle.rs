use std::time::{Duration, SystemTime};

use redial_core::{Progress, Span};
use redial_queue::durable::{Filter, JobVerdict, NewJob, Settled, Settlement, State, Tried};

use super::shop::{HOUR, NOW, Shop, dead, job, retry};

pub(super) async fn done_is_gone_and_counted(shop: &Shop) {
    let id = shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    assert_eq!(shop.settle(&claimed, JobVerdict::Done).await, Settled::Taken);
    assert_eq!(shop.store.get(id).await.unwrap(), None);
    assert_eq!(shop.list(Filter::default()).await, []);
    let counts = shop.counts().await;
    assert_eq!((counts.running, counts.done, counts.enqueued), (0, 1, 1));
}

pub(super) async fn a_retry_waits_and_remembers(shop: &Shop) {
    let id = shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    let progress = Progress { attempts: 99, step: 3, drawn: Span::MAX / 3, poll: false };
    let verdict = JobVerdict::Retry { wait: HOUR, progress };
    shop.settle_as(&claimed, verdict, "503 Service Unavailable").await;
    let kept = shop.get(id).await;
    assert_eq!((kept.state, kept.reason), (State::Waiting, None));
    assert_eq!(kept.progress, Progress { attempts: 1, ..progress });
    assert_eq!(kept.history.len(), 1);
    let tried = &kept.history[0];
    assert_eq!((tried.number, &*tried.outcome), (1, "503 Service Unavailable"));
    assert_eq!(tried.took, Duration::from_millis(1500));
    let wait = kept.due.duration_since(tried.ended).unwrap();
    assert!(HOUR.abs_diff(wait) < Duration::from_secs(1), "{wait:?}");
    assert_eq!(shop.ids(1).await, []);
    let counts = shop.counts().await;
    assert_eq!((counts.later, counts.due, counts.retried, counts.running), (1, 0, 1, 0));
}

pub(super) async fn a_postponed_attempt_is_not_counted(shop: &Shop) {
    let id = shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, retry(NOW)).await;
    let claimed = shop.claim_one().await;
    assert_eq!(claimed.job.progress.attempts, 2);
    let verdict = JobVerdict::Postpone { wait: HOUR };
    assert_eq!(shop.settle(&claimed, verdict).await, Settled::Taken);
    let kept = shop.get(id).await;
    assert_eq!((kept.state, kept.history.len()), (State::Waiting, 1));
    assert_eq!(
        kept.progress,
        Progress { attempts: 1, step: 3, drawn: Span::from_nanos(77), poll: false }
    );
    assert!(kept.due > SystemTime::now() + HOUR / 2);
    assert_eq!((shop.counts().await.retried, shop.counts().await.later), (1, 1));
}

pub(super) async fn a_poll_is_one_until_it_was_tried(shop: &Shop) {
    let id = shop.add(job("")).await;
    let poll = |poll| {
        let progress = Progress { poll, ..Progress::default() };
        JobVerdict::Retry { wait: NOW, progress }
    };
    let claimed = shop.claim_one().await;
    assert!(!claimed.job.progress.poll, "a new job");
    shop.settle(&claimed, poll(true)).await;
    assert!(shop.get(id).await.progress.poll);
    let claimed = shop.claim_one().await;
    assert!(claimed.job.progress.poll);
    shop.settle(&claimed, JobVerdict::Postpone { wait: NOW }).await;
    let claimed = shop.claim_one().await;
    assert!(claimed.job.progress.poll, "it was not tried");
    shop.settle(&claimed, poll(false)).await;
    let claimed = shop.claim_one().await;
    assert!(!claimed.job.progress.poll, "it failed");
    shop.settle(&claimed, poll(true)).await;
    shop.look(1, Duration::ZERO).await;
    let claimed = shop.claim_one().await;
    assert!(!claimed.job.progress.poll, "its worker was lost");
}

pub(super) async fn dead_keeps_the_reason_and_the_last_outcome(shop: &Shop) {
    let id = shop.add(job("payload").header("a", "b").idempotency_key("same")).await;
    let claimed = shop.claim_one().await;
    shop.settle(&claimed, retry(NOW)).await;
    let claimed = shop.claim_one().await;
    shop.settle_as(&claimed, dead("attempts"), "timed out").await;
    let kept = shop.get(id).await;
    assert_eq!((kept.state, kept.reason.as_deref()), (State::Dead, Some("attempts")));
    let history: Vec<_> = kept.history.iter().map(|t| (t.number, &*t.outcome)).collect();
    assert_eq!(history, [(1, "it failed"), (2, "timed out")]);
    assert_eq!((kept.payload, kept.idempotency_key), (b"payload".to_vec(), "same".to_owned()));
    assert_eq!(kept.progress.attempts, 2);
    assert_eq!(shop.ids(1).await, []);
    let counts = shop.counts().await;
    assert_eq!((counts.dead, counts.died, counts.retried, counts.dropped), (1, 1, 1, 0));
}

pub(super) async fn history_is_bounded(shop: &Shop) {
    let id = shop.add(job("")).await;
    for number in 1..=Tried::KEPT + 5 {
        let claimed = shop.claim_one().await;
        shop.settle_as(&claimed, retry(NOW), &number.to_string()).await;
    }
    let kept = shop.get(id).await;
    let numbers: Vec<_> = kept.history.iter().map(|tried| tried.number).collect();
    assert_eq!(numbers, (6..=Tried::KEPT as u32 + 5).collect::<Vec<_>>());
    assert!(kept.history.iter().all(|tried| tried.outcome == tried.number.to_string()));
    assert_eq!(kept.progress.attempts, Tried::KEPT as u32 + 5);
}

pub(super) async fn outcomes_are_a_short_line(shop: &Shop) {
    let id = shop.add(job("")).await;
    let claimed = shop.claim_one().await;
    let long = format!("two\nlines, a NUL\0 and {}", "\u{1f9e6}".repeat(200));
    shop.settle_as(&claimed, retry(NOW), &long).await;
    let outcome = shop.get(id).await.history[0].outcome.clone();
    assert!(outcome.len() <= Tried::MOST_OUTCOME, "{} bytes", outcome.len());
    assert!(outcome.starts_with("two lines, a NUL  and \u{1f9e6}"), "{outcome}");
}

pub(super) async fn reasons_are_a_short_line(shop: &Shop) {
    let id = shop.add(job("")).await;
    shop.kill(&format!("two\nlines, a NUL\0 and {}", "\u{1f9e6}".repeat(200))).await;
    let reason = shop.get(id).await.reason.unwrap();
    assert!(reason.len() <= NewJob::MOST_NAME, "{} bytes", reason.len());
    assert!(reason.starts_with("two lines, a NUL  and \u{1f9e6}"), "{reason}");
    let longest = "x".repeat(Tried::MOST_OUTCOME);
    let id = shop.add(job("")).await;
    shop.settle_as(&shop.claim_one().await, retry(NOW), &longest).await;
    assert_eq!(shop.get(id).await.history[0].outcome, longest);
}

pub(super) async fn a_batch_is_settled_in_order(shop: &Shop) {
    shop.put_all((0..4).map(|_| job("")).collect()).await;
    let lost = shop.look(1, NOW).await.jobs.remove(0);
    let claimed = shop.claim(4).await;
    assert_eq!(claimed[0].job.id, lost.job.id);
    let settlement = |lease, verdict| Settlement {
        lease,
        verdict,
        took: Duration::ZERO,
        outcome: "so".to_owned(),
    };
    let all = vec![
        settlement(claimed[3].lease, JobVerdict::Done),
        settlement(lost.lease, JobVerdict::Done),
        settlement(claimed[1].lease, dead("why")),
        settlement(claimed[0].lease, retry(HOUR)),
        settlement(claimed[2].lease, JobVerdict::Postpone { wait: NOW }),
        settlement(claimed[3].lease, JobVerdict::Done),
    ];
    let settled = shop.store.settle(all).await.unwrap();
    use Settled::{Stale, Taken};
    assert_eq!(settled, [Taken, Stale, Taken, Taken, Taken, Stale]);
    let counts = shop.counts().await;
    assert_eq!((counts.due, counts.later, counts.running, counts.dead), (1, 1, 0, 1));
    assert_eq!((counts.done, counts.died, counts.retried, counts.lost), (1, 1, 1, 1));
    assert_eq!(shop.store.settle(Vec::new()).await.unwrap(), []);
}
