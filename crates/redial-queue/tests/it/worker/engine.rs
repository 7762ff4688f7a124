//! When the world says no.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::admit::{BreakerRule, RateRule};
use redial_core::{Policy, Rate};
use redial_queue::durable::{Filter, Handled, Handler, Happening, Job, State, standard};
use tokio::sync::Notify;

use super::{Log, broken, policy, worker};
use crate::conformance::{Shop, job, sqlite};

/// Fails where its payload says so, and goes to where its header says.
struct Sender;

impl Handler for Sender {
    async fn handle(&self, job: Arc<Job>) -> Handled {
        if job.payload == b"down" { broken() } else { Handled::Done }
    }

    fn destination(&self, job: &Job) -> Option<String> {
        Some(String::from_utf8_lossy(&job.payload).into_owned())
    }
}

/// Works until so many were postponed.
async fn until_postponed(shop: &Shop, policy: Policy, times: usize, log: &Log) {
    let stop = Arc::new(Notify::new());
    let told = Arc::clone(&stop);
    let (watch, count) = (log.watch(), AtomicUsize::new(0));
    let watch = move |happening: &Happening<'_>| {
        watch(happening);
        let postponed = matches!(happening, Happening::Postponed { stop: Some(_), .. });
        let before = count.fetch_add(postponed.into(), Ordering::Relaxed);
        if postponed && before + 1 == times {
            told.notify_one();
        }
    };
    let worker = worker(shop).policy(policy).watch(watch).prefetch(0);
    worker.run(Sender, stop.notified()).await.unwrap();
}

#[tokio::test]
async fn a_dry_budget_postpones_and_charges_nothing() {
    let shop = sqlite::open().await;
    let id = shop.add(job("down")).await;
    let dry = WindowBudget::ratio(0.001).floor(Rate::ZERO);
    let dry = policy(|draft| draft.attempts(2).budget(Budget::Window(dry)));
    let log = Log::default();
    until_postponed(&shop, dry, 5, &log).await;
    let job = shop.get(id).await;
    assert_eq!((job.state, job.progress.attempts), (State::Waiting, 1));
    assert_eq!(job.history.len(), 1);
    assert_eq!(log.count("started 1"), 1);
    assert!(log.count("postponed: budget") >= 5);
    assert_eq!(shop.counts().await.died, 0);
}

#[tokio::test]
async fn a_breaker_stops_one_destination_and_not_the_others() {
    let shop = sqlite::open().await;
    shop.put_all((0..20).map(|_| job("down")).collect()).await;
    shop.put_all((0..20).map(|_| job("up")).collect()).await;
    let rule = BreakerRule::default().last_calls(5).minimum_calls(5);
    let rule = rule.open_for(Duration::from_secs(3600), 0.0);
    let guarded = policy(|draft| draft.attempts(1000).breaker(rule));
    let log = Log::default();
    until_postponed(&shop, guarded, 40, &log).await;
    assert!(log.count("postponed: breaker-open") >= 40);
    let tries = log.lines().iter().filter(|line| line.starts_with("retry")).count();
    assert!((5..=13).contains(&tries), "five open it, and eight may be under way: {tries}");
    // What goes to the other destination was due before anything that was postponed once.
    assert_eq!(shop.counts().await.done, 20);
    let left = shop.store.list(&Filter::default()).await.unwrap();
    assert!(left.iter().all(|job| job.payload == b"down" && job.state == State::Waiting));
    assert_eq!(shop.counts().await.died, 0);
}

#[tokio::test]
async fn a_rate_of_the_policy_postpones() {
    let shop = sqlite::open().await;
    shop.put_all((0..10).map(|_| job("up")).collect()).await;
    let slow = RateRule::new(Rate::new(1, Duration::from_secs(3600)), 3);
    let log = Log::default();
    until_postponed(&shop, policy(|draft| draft.rate(slow)), 20, &log).await;
    assert_eq!((log.count("done"), shop.counts().await.done), (3, 3));
    let left = shop.store.list(&Filter::default()).await.unwrap();
    assert!(left.iter().all(|job| job.progress.attempts == 0 && job.history.is_empty()));
}

#[tokio::test]
async fn what_is_postponed_together_does_not_come_back_together() {
    let shop = sqlite::open().await;
    shop.put_all((0..50).map(|_| job("up")).collect()).await;
    let never = RateRule::new(Rate::new(1, Duration::from_secs(3600)), 1);
    let fixed = redial_core::schedule::Backoff::constant(Duration::from_secs(3600));
    let fixed = fixed.jitter(redial_core::schedule::Jitter::None);
    let log = Log::default();
    until_postponed(&shop, policy(|draft| draft.rate(never).backoff(fixed)), 49, &log).await;
    let mut due: Vec<_> = shop.store.list(&Filter::default()).await.unwrap();
    due.sort_by_key(|job| job.due);
    let spread = due[48].due.duration_since(due[0].due).unwrap();
    assert!(spread > Duration::from_secs(600), "{spread:?} of half an hour");
}

#[test]
fn the_standard_policy_is_what_its_doc_says() {
    let standard = standard();
    assert_eq!(standard.attempts(), 16);
    assert_eq!(standard.backoff().base, 5_000_000_000);
    assert_eq!(standard.backoff().cap, 3600 * 1_000_000_000);
    assert_eq!(standard.attempt_timeout(), 30_000_000_000);
    assert_eq!(standard.deadline(), redial_core::NEVER);
    assert_eq!(*standard.budget(), Budget::default());
}
