//! Jobs under the rules of the standard policy, after an outage: only retries are left, and no first attempt pays for them.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redial_core::Rate;
use redial_core::admit::StallRule;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_queue::durable::Handled;

use super::{Log, broken, policy, work, worker};
use crate::conformance::{job, sqlite};

const JOBS: usize = 50;
const FAILURES: usize = 70;

/// A worker of the standard policy would wait for 30 s instead of 20 ms.
fn earned() -> Budget {
    Budget::Tokens(TokenBudget::earned().floor(Rate::new(1, Duration::from_millis(20))))
}

#[tokio::test]
async fn an_earned_budget_does_not_hold_the_last_jobs_back() {
    let shop = sqlite::open().await;
    shop.put_all((0..JOBS).map(|_| job("")).collect()).await;
    let tries = AtomicUsize::new(0);
    let handler = move |_| {
        let fails = tries.fetch_add(1, Ordering::Relaxed) < FAILURES;
        async move { if fails { broken() } else { Handled::Done } }
    };
    let (earned, log) = (policy(|draft| draft.attempts(1000).budget(earned())), Log::default());
    let report = work(worker(&shop).policy(earned).watch(log.watch()), handler).await;
    assert_eq!((report.done, report.retried, report.dead), (JOBS as u64, FAILURES as u64, 0));
    assert!(log.count("postponed: budget") > 0, "a new budget pays for three");
}

#[tokio::test]
async fn jobs_that_are_held_back_in_a_stall_are_not_lost() {
    let shop = sqlite::open().await;
    shop.put_all((0..JOBS).map(|_| job("")).collect()).await;
    let tries = AtomicUsize::new(0);
    let handler = move |_| {
        let hangs = tries.fetch_add(1, Ordering::Relaxed) < FAILURES;
        async move { if hangs { pending().await } else { Handled::Done } }
    };
    let stall = policy(|draft| {
        draft.attempts(1000).attempt_timeout(Duration::from_millis(5)).stall(StallRule::default())
    });
    let log = Log::default();
    let report = work(worker(&shop).policy(stall).watch(log.watch()), handler).await;
    assert_eq!((report.done, report.dead), (JOBS as u64, 0));
    assert!(log.count("postponed: stalled") > 0);
}
