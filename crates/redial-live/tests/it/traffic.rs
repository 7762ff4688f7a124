//! Callers and a server, with TCP between them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use redial::Policy;
use redial::admit::budget::Budget;
use redial::schedule::Backoff;
use redial_live::{
    Brownout, Caller, Error, Line, Live, Load, Log, Naive, Once, Redial, Setting, Time, Window,
    run, start,
};

use crate::MS;

const HOUR: u64 = 3_600_000 * MS;

/// A few callers that do little else but call, for 300 ms.
fn setting() -> Setting {
    Setting {
        load: Load::Closed { callers: 20, think: Time::Exponential(20 * MS) },
        duration: 300 * MS,
        drain: 10_000 * MS,
        ..Setting::default()
    }
}

fn down() -> Setting {
    let outage = Some(Window { start: 0, duration: 60_000 * MS });
    Setting { outage, ..setting() }
}

fn three_attempts() -> Policy {
    let backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(20));
    Policy::draft().attempts(3).backoff(backoff).budget(Budget::None).build().unwrap()
}

fn with<C: Caller>(setting: Setting, caller: C) -> Log {
    let mut caller = Some(caller);
    run(setting, |_| caller.take().unwrap()).unwrap().log().clone()
}

fn attempts(log: &Log, number: u32) -> usize {
    log.attempts.iter().filter(|arrived| arrived.number == number).count()
}

#[test]
fn every_call_makes_three_attempts_as_the_server_counts_them() {
    let naive = Naive { pause: Duration::from_millis(5), attempts: 3 };
    for log in [with(down(), naive), with(down(), Redial::new(three_attempts()))] {
        let calls = log.begun.len();
        assert!(calls > 0);
        assert_eq!([1, 2, 3, 4].map(|number| attempts(&log, number)), [calls, calls, calls, 0]);
        assert_eq!(log.refused.len(), 3 * calls);
        assert_eq!(log.ended.len(), calls);
        assert!(log.ended.iter().all(|ended| ended.attempts == 3 && !ended.succeeded));
        assert_eq!((log.served.len(), log.broken), (0, 0));
    }
}

struct Counting(Arc<AtomicUsize>);

impl Caller for Counting {
    async fn call(&self, line: Line) -> bool {
        self.0.fetch_add(1, Relaxed);
        Once.call(line).await
    }
}

#[test]
fn callers_are_shared_out_among_instances() {
    let counts: [Arc<AtomicUsize>; 5] = Default::default();
    let instance = |n| Counting(Arc::clone(&counts[n as usize]));
    let live = run(Setting { instances: 5, ..setting() }, instance).unwrap();
    let counts = counts.map(|count| count.load(Relaxed));
    assert_eq!(counts.iter().sum::<usize>(), live.log().begun.len());
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_healthy_backend_serves_every_call_at_the_first_attempt() {
    let log = with(setting(), Redial::new(Policy::standard()));
    let calls = log.begun.len();
    assert!(calls > 0);
    assert_eq!((log.attempts.len(), log.served.len(), log.refused.len()), (calls, calls, 0));
    assert!(log.ended.iter().all(|ended| ended.succeeded && ended.attempts == 1));
    assert!(log.ended.iter().all(|ended| ended.took() >= 8 * MS), "nobody is done early");
}

#[test]
fn a_full_queue_turns_away_and_capacity_is_not_exceeded() {
    let service = Time::Constant(20 * MS);
    let log = with(Setting { servers: 2, service, queue: 3, ..setting() }, Once);
    assert!(!log.refused.is_empty());
    assert_eq!(log.refused.len() + log.served.len(), log.attempts.len());
    let failed = log.ended.iter().filter(|ended| !ended.succeeded).count();
    assert_eq!(failed, log.refused.len());
    let mut served = log.served.clone();
    served.sort_unstable();
    for (before, at) in served.iter().enumerate() {
        let most = 2 * (at / (20 * MS));
        assert!((before as u64) < most, "{before} served before {at}");
    }
}

#[test]
fn the_naive_loop_keeps_its_pause() {
    let load = Load::Closed { callers: 1, think: Time::Constant(200 * MS) };
    let naive = Naive { pause: Duration::from_millis(30), attempts: 4 };
    let log = with(Setting { load, ..down() }, naive);
    for pair in log.attempts.windows(2).filter(|pair| pair[1].number > 1) {
        assert_eq!(pair[1].number, pair[0].number + 1);
        // The attempt before was sent, and so ended, after it arrived.
        assert!(pair[1].at - pair[0].at >= 30 * MS, "{pair:?}");
    }
}

#[test]
fn work_goes_on_for_a_caller_that_has_given_up() {
    let service = Time::Constant(50 * MS);
    let forever = Setting { timeout: Some(5 * MS), service, duration: HOUR, ..setting() };
    let mut running = start(forever, |_| Once).unwrap();
    let seen = |log: &Log| !log.served.is_empty() && !log.ended.is_empty();
    while !running.record().read(seen) {
        thread::yield_now();
    }
    running.stop();
    assert!(running.finish().log().ended.iter().all(|ended| !ended.succeeded));
}

#[test]
fn a_brownout_fails_some() {
    let window = Window { start: 0, duration: 60_000 * MS };
    let brownout = Some(Brownout { window, share: 0.5 });
    let log = with(Setting { brownout, ..setting() }, Once);
    assert!(!log.refused.is_empty() && !log.served.is_empty());
}

#[test]
fn an_open_loop_brings_as_many_calls_as_its_rate() {
    let load = Load::Open { gap: Time::Constant(2 * MS) };
    let log = with(Setting { load, ..setting() }, Once);
    assert_eq!(log.begun.len(), 150);
}

#[test]
fn buckets_count_everything_once() {
    let live: Live =
        run(down(), |_| Naive { pause: Duration::from_millis(5), attempts: 2 }).unwrap();
    let log = live.log();
    for width in [MS, 7 * MS, 100_000 * MS] {
        let buckets = log.buckets(width);
        let sum =
            |of: fn(&redial_live::Bucket) -> u32| buckets.iter().map(of).sum::<u32>() as usize;
        assert_eq!(sum(|b| b.firsts), attempts(log, 1));
        assert_eq!(sum(|b| b.retries), attempts(log, 2));
        assert_eq!(sum(|b| b.refused), log.refused.len());
        assert_eq!(sum(|b| b.failed), log.ended.len());
        assert_eq!(sum(|b| b.succeeded + b.served), 0);
    }
}

#[test]
fn a_run_can_be_cut_off() {
    let forever = Setting { duration: HOUR, ..setting() };
    let mut running = start(forever, |_| Once).unwrap();
    while running.record().read(|log| log.ended.is_empty()) {
        thread::yield_now();
    }
    running.stop();
    assert!(!running.finish().log().ended.is_empty());
}

#[test]
fn a_setting_without_sense_is_refused() {
    let refused = |setting| match run(setting, |_| Once) {
        Err(Error::Setting { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let load = Load::Closed { callers: 0, think: Time::Constant(MS) };
    assert_eq!(refused(Setting { load, ..setting() }), "callers");
    let load = Load::Open { gap: Time::Constant(0) };
    assert_eq!(refused(Setting { load, ..setting() }), "load");
    assert_eq!(refused(Setting { servers: 0, ..setting() }), "servers");
    assert_eq!(refused(Setting { instances: 0, ..setting() }), "instances");
    assert_eq!(refused(Setting { service: Time::Constant(0), ..setting() }), "service");
    let window = Window { start: 0, duration: 1 };
    let brownout = Some(Brownout { window, share: 1.5 });
    assert_eq!(refused(Setting { brownout, ..setting() }), "brownout.share");
}
