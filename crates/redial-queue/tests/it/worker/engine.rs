//! When the world says no.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::admit::{BreakerRule, RateRule};
use redial_core::decide::{Class, Failure};
use redial_core::schedule::{Hint, HintRule, TooLong};
use redial_core::{Policy, Rate};
use redial_queue::durable::{
    Filter, Handled, Handler, Happening, Job, Report, State, Until, standard,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Log, broken, policy, wait_for, worker};
use crate::conformance::{HOUR, Shop, job, sqlite};

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
    until_postponed(&shop, policy(|draft| draft.rate(slow)), 7, &log).await;
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
    let HintRule::Honour { cap, too_long, .. } = standard.hint_rule() else { panic!("deaf") };
    assert_eq!((*cap, *too_long), (86_400 * 1_000_000_000, TooLong::Clip));
}

#[tokio::test]
async fn a_server_that_asks_for_an_hour_gets_it() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let handler = |_| async {
        let failure = Failure::new(Class::Overloaded).hint(Hint::AtLeast(HOUR));
        Handled::failed(failure, "503, Retry-After: 3600")
    };
    let worker = worker(&shop).policy(standard()).until(Until::NothingDue);
    let report = worker.run(handler, std::future::pending()).await.unwrap();
    assert_eq!((report.retried, report.dead), (1, 0));
    let job = shop.get(id).await;
    assert!(job.due.duration_since(job.history[0].ended).unwrap() >= HOUR);
}

#[tokio::test]
async fn asking_whether_it_is_ready_is_no_retry() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let dry = WindowBudget::ratio(0.001).floor(Rate::ZERO);
    let dry = policy(|draft| draft.budget(Budget::Window(dry)));
    let handler = |job: Arc<Job>| async move {
        if job.progress.attempts < 4 { Handled::NotYet(None) } else { Handled::Done }
    };
    let worker = worker(&shop).policy(dry).until(Until::Empty);
    let gauge = worker.gauge();
    let run =
        worker.run(handler, wait_for("a refusal", async || gauge.read().report.postponed > 0));
    assert_eq!(run.await.unwrap(), Report { done: 1, retried: 3, ..Report::default() });
}

#[tokio::test]
async fn what_an_open_breaker_refuses_does_not_keep_the_store_busy() {
    const JOBS: u64 = 2000;
    let shop = sqlite::open().await;
    shop.put_all((0..JOBS).map(|_| job("down")).collect()).await;
    let rule = BreakerRule::default().last_calls(5).minimum_calls(5);
    let rule = rule.open_for(Duration::from_secs(3600), 0.0);
    let guarded = policy(|draft| draft.attempts(1000).breaker(rule));
    let worker = worker(&shop).policy(guarded).workers(32);
    let (gauge, start) = (worker.gauge(), Instant::now());
    let stop = async {
        let all = || gauge.read().report.postponed >= JOBS - 32;
        wait_for("all are out of the way", async || all()).await;
        sleep(Duration::from_secs(3)).await;
    };
    let report = worker.run(Sender, stop).await.unwrap();
    let most = JOBS + 220 * start.elapsed().as_secs() + 220;
    assert!(report.postponed <= most, "{} in {:?}", report.postponed, start.elapsed());
}
