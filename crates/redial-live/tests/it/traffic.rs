//! Callers and a server, with TCP between them.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use redial::Policy;
use redial::admit::budget::Budget;
use redial::schedule::Backoff;
use redial_core::Span;
use redial_live::{Caller, Client, EventLog, LiveScenario, Naive, Once, Redial, run, serve, start};
use redial_sim::simulate::Watch;
use redial_sim::{Subject, exact};

use crate::{MS, at, setting};

/// All requests are refused, always.
fn down(sets: &[&str]) -> LiveScenario {
    setting(&[&["outage.start=0s", "outage.duration=60s"], sets].concat())
}

fn three_attempts() -> Policy {
    let backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(20));
    Policy::draft().attempts(3).backoff(backoff).budget(Budget::None).build().unwrap()
}

fn with<C: Caller>(setting: LiveScenario, caller: C) -> EventLog {
    let mut caller = Some(caller);
    run(setting, |_| caller.take().unwrap()).unwrap().log().clone()
}

fn attempts(log: &EventLog, number: u32) -> usize {
    log.attempts.iter().filter(|arrived| arrived.number == number).count()
}

#[test]
fn every_call_makes_three_attempts_as_the_server_counts_them() {
    let naive = Naive { pause: Duration::from_millis(5), attempts: 3 };
    for log in [with(down(&[]), naive), with(down(&[]), Redial::new(three_attempts()))] {
        let calls = log.begun.len();
        assert!(calls > 0);
        assert_eq!([1, 2, 3, 4].map(|number| attempts(&log, number)), [calls, calls, calls, 0]);
        assert_eq!(log.refused.len(), 3 * calls);
        assert_eq!(log.ended.len(), calls);
        assert!(log.ended.iter().all(|ended| !ended.succeeded));
        assert_eq!((log.served.len(), log.broken), (0, 0));
    }
}

struct Counting(Arc<AtomicUsize>);

impl Caller for Counting {
    async fn call(&self, client: Client) -> bool {
        self.0.fetch_add(1, Relaxed);
        Once.call(client).await
    }
}

#[test]
fn callers_are_shared_out_among_instances() {
    let counts: [Arc<AtomicUsize>; 5] = Default::default();
    let instance = |n| Counting(Arc::clone(&counts[n as usize]));
    let live = run(setting(&["clients.instances=5"]), instance).unwrap();
    let counts = counts.map(|count| count.load(Relaxed));
    assert_eq!(counts.iter().sum::<usize>(), live.log().begun.len());
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_healthy_backend_serves_every_call_at_the_first_attempt() {
    let log = with(setting(&[]), Redial::new(Policy::standard()));
    let calls = log.begun.len();
    assert!(calls > 0);
    assert_eq!((log.attempts.len(), log.served.len(), log.refused.len()), (calls, calls, 0));
    assert!(log.ended.iter().all(|ended| ended.succeeded));
    assert!(log.ended.iter().all(|ended| ended.took() >= 8 * MS), "no call ends early");
}

#[test]
fn a_full_queue_turns_away_and_capacity_is_not_exceeded() {
    let few = ["backend.servers=2", "backend.service=20ms", "backend.queue=3"];
    let log = with(setting(&few), Once);
    assert!(!log.refused.is_empty());
    assert_eq!(log.refused.len() + log.served.len(), log.attempts.len());
    let failed = log.ended.iter().filter(|ended| !ended.succeeded).count();
    assert_eq!(failed, log.refused.len());
    let mut served = log.served.clone();
    served.sort_unstable();
    for (before, at) in served.iter().enumerate() {
        let most = 2 * (at.since_zero() / (20 * MS));
        assert!((before as u64) < most, "{before} served before {at:?}");
    }
}

#[test]
fn the_naive_loop_keeps_its_pause() {
    let one = ["clients.arrivals.closed.callers=1", "clients.arrivals.closed.think=200ms"];
    let naive = Naive { pause: Duration::from_millis(30), attempts: 4 };
    let log = with(down(&one), naive);
    for pair in log.attempts.windows(2).filter(|pair| pair[1].number > 1) {
        assert_eq!(pair[1].number, pair[0].number + 1);
        // The attempt before ended after it arrived.
        assert!(pair[1].at - pair[0].at >= 30 * MS, "{pair:?}");
    }
}

#[test]
fn work_continues_after_its_caller_has_given_up() {
    let forever = setting(&["backend.service=50ms", "duration=1h"]).timeout(5 * MS);
    let mut running = start(forever, |_| Once).unwrap();
    let seen = |log: &EventLog| !log.served.is_empty() && !log.ended.is_empty();
    while !running.record().read(seen) {
        thread::yield_now();
    }
    running.stop();
    assert!(running.finish().log().ended.iter().all(|ended| !ended.succeeded));
}

#[test]
fn callers_of_another_process_are_counted_by_their_paths() {
    let serving = serve(setting(&["duration=1h"])).unwrap();
    let mut served = 0;
    for path in ["/7", "/7", "/8"] {
        // Hangs up without waiting for the response.
        let mut stream = TcpStream::connect(serving.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
        drop(stream);
        served += 1;
        while serving.record().read(|log| log.served.len()) < served {
            thread::yield_now();
        }
    }
    serving.record().ended(at(0), at(1), true);
    let log = serving.finish().log().clone();
    let numbers: Vec<u32> = log.attempts.iter().map(|arrived| arrived.number).collect();
    assert_eq!((numbers.as_slice(), log.ended.len()), (&[1, 2, 1][..], 1));
}

#[test]
fn a_brownout_fails_some() {
    let brownout = ["brownout.start=0s", "brownout.duration=60s", "brownout.share=0.5"];
    let log = with(setting(&brownout), Once);
    assert!(!log.refused.is_empty() && !log.served.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_calls_here_and_elsewhere_and_in_the_simulator() {
    let poisson = setting(&["clients.arrivals={ poisson = { rate = 500 } }"]).seed(7);
    let scheduled = serve(poisson.clone()).unwrap().begins();
    let simulated =
        exact::run(poisson.scenario(), &Subject::no_retry(), 7, &Watch::default()).calls;
    let scheduled: Vec<_> = scheduled.into_iter().map(|(begin, _)| begin).collect();
    assert_eq!(simulated, scheduled.len() as u64);
    let log = with(poisson.clone(), Once);
    assert_eq!(log.begun, scheduled, "however late the machine is");
    assert!(log.ended.iter().all(|ended| ended.succeeded && ended.took() >= 8 * MS));
    // The service takes longer.
    let late = with(poisson.deadline(7 * MS), Once);
    assert!(late.ended.len() == scheduled.len() && late.ended.iter().all(|it| !it.succeeded));
}

#[test]
fn an_open_loop_makes_calls_at_its_rate() {
    let log = with(setting(&["clients.arrivals={ constant = { rate = 500 } }"]), Once);
    assert_eq!(log.begun.len(), 149, "every 2 ms, from 2 ms to 298 ms");
    let log = with(setting(&["clients.arrivals={ poisson = { rate = 500 } }"]), Once);
    // Five standard deviations.
    assert!((89..=211).contains(&log.begun.len()), "{}", log.begun.len());
}

#[test]
fn a_call_takes_longer_than_its_work_on_any_machine() {
    assert!(redial_live::round_trip().unwrap() > Span::ZERO);
}

#[test]
fn a_run_can_be_cut_off() {
    let mut running = start(setting(&["duration=1h"]), |_| Once).unwrap();
    while running.record().read(|log| log.ended.is_empty()) {
        thread::yield_now();
    }
    running.stop();
    assert!(!running.finish().log().ended.is_empty());
}
