//! Jobs that guards refuse, and the schedule of their retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::admit::{BreakerRule, RateRule};
use redial_core::decide::{Class, Failure};
use redial_core::schedule::{Backoff, Hint, HintRule, Jitter, TooLong};
use redial_core::{Policy, Progress, Rate, Span};
use redial_queue::WorkEvent;
use redial_queue::durable::{Filter, Handled, Handler, Job, State, Until, WorkerReport, standard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Log, broken, policy, wait_for, work, worker};
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
    let enough = Arc::clone(&stop);
    let (watch, count) = (log.watch(), AtomicUsize::new(0));
    let watch = move |event: &WorkEvent<'_, Job>| {
        watch(event);
        let postponed = matches!(event, WorkEvent::Postponed { stop: Some(_), .. });
        let before = count.fetch_add(postponed.into(), Ordering::Relaxed);
        if postponed && before + 1 == times {
            enough.notify_one();
        }
    };
    let worker = worker(shop).policy(policy).watch(watch).prefetch(0);
    worker.run(Sender, stop.notified()).await.unwrap();
}

#[tokio::test]
async fn a_dry_budget_postpones_and_charges_nothing() {
    let shop = sqlite::open().await;
    let id = shop.add(job("down")).await;
    let dry = policy(|draft| draft.attempts(2).budget(dry()));
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
async fn jobs_postponed_together_are_not_due_together() {
    let shop = sqlite::open().await;
    shop.put_all((0..50).map(|_| job("up")).collect()).await;
    let never = RateRule::new(Rate::new(1, Duration::from_secs(3600)), 1);
    let fixed = Backoff::constant(Duration::from_secs(3600)).jitter(Jitter::None);
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
    assert_eq!(standard.backoff().base, Span::from_secs(5));
    assert_eq!(standard.backoff().cap, Span::from_secs(3600));
    assert_eq!(standard.attempt_timeout(), Some(Duration::from_secs(30)));
    assert_eq!(standard.deadline(), None);
    assert_eq!(*standard.budget(), Budget::default());
    let HintRule::Honour { cap, too_long, .. } = standard.hint_rule() else {
        panic!("hints are ignored")
    };
    assert_eq!((*cap, *too_long), (Span::from_secs(86_400), TooLong::Clip));
}

#[tokio::test]
async fn a_retry_after_of_an_hour_is_honoured() {
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
async fn a_poll_is_not_a_retry() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let dry = policy(|draft| draft.budget(dry()));
    let handler = |job: Arc<Job>| async move {
        if job.progress.attempts < 4 { Handled::NotYet(None) } else { Handled::Done }
    };
    let worker = worker(&shop).policy(dry).until(Until::Empty);
    let gauge = worker.gauge();
    let run =
        worker.run(handler, wait_for("a refusal", async || gauge.read().report.postponed > 0));
    assert_eq!(run.await.unwrap(), WorkerReport { done: 1, retried: 3, ..WorkerReport::default() });
}

#[tokio::test]
async fn jobs_behind_an_open_breaker_do_not_keep_the_store_busy() {
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

/// A budget that pays for no retry.
fn dry() -> Budget {
    Budget::Window(WindowBudget::ratio(0.001).floor(Rate::ZERO))
}

#[tokio::test]
async fn a_failure_that_reads_like_not_yet_pays_for_its_retry() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let forged =
        |_| async { Handled::failed(Failure::new(Class::ServerError), "not yet: it is under way") };
    let worker = worker(&shop).policy(policy(|draft| draft.budget(dry())));
    let gauge = worker.gauge();
    let refused = wait_for("a refusal", async || gauge.read().report.postponed > 0);
    worker.run(forged, refused).await.unwrap();
    assert_eq!(shop.get(id).await.progress.attempts, 1);
    assert!(gauge.read().work.stops["budget"] > 0);
}

#[tokio::test]
async fn a_retry_past_the_deadline_is_the_end_also_when_the_budget_is_dry() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let hourly = Backoff::constant(HOUR).jitter(Jitter::None);
    let hurried = policy(|draft| draft.deadline(HOUR / 2).backoff(hourly).budget(dry()));
    let report = work(worker(&shop).policy(hurried), |_| async { broken() }).await;
    assert_eq!((report.dead, report.retried), (1, 0));
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("deadline"));
}

#[tokio::test]
async fn a_pushback_starts_the_backoff_over_also_when_the_budget_is_dry() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let pushback = |_| async {
        let failure =
            Failure::new(Class::Overloaded).hint(Hint::Pushback(Duration::from_secs(3600)));
        Handled::failed(failure, "come back in an hour")
    };
    let patient =
        policy(|draft| draft.hint(HintRule::honour(24 * HOUR, TooLong::Stop)).budget(dry()));
    let worker = worker(&shop).policy(patient).until(Until::NothingDue);
    assert_eq!(worker.run(pushback, std::future::pending()).await.unwrap().retried, 1);
    let job = shop.get(id).await;
    assert_eq!(job.progress, Progress { attempts: 1, ..Progress::default() });
    assert!(job.due.duration_since(job.history[0].ended).unwrap() >= HOUR);
}

/// A gRPC status CANCELLED of the other side, say: the job itself was not cancelled.
#[tokio::test]
async fn a_cancelled_attempt_is_repeated_until_none_is_left() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let cancelled = |_| async { Handled::failed(Failure::new(Class::Cancelled), "cancelled") };
    let soon = Backoff::constant(Duration::from_millis(1)).jitter(Jitter::None);
    let three = policy(|draft| draft.attempts(3).backoff(soon));
    let report = work(worker(&shop).policy(three), cancelled).await;
    assert_eq!((report.dead, report.retried), (1, 2));
    assert_eq!(shop.get(id).await.reason.as_deref(), Some("attempts"));
}
