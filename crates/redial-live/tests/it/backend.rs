//! The schedule behind the server, in virtual time.

use proptest::prelude::*;
use redial_live::{Backend, BackendAnswer, LiveScenario};
use redial_sim::open_loop::OpenLoop;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject, exact};

use redial_core::{Span, Time};

use crate::{MS, at};

/// Two servers of 10 ms, and a queue of three.
fn setting(sets: &[&str]) -> LiveScenario {
    let few = ["backend.servers=2", "backend.service=10ms", "backend.queue=3", "duration=1h"];
    crate::setting(&[&few, sets].concat())
}

#[test]
fn servers_then_the_queue_then_refusal() {
    let mut backend = Backend::new(&setting(&[]));
    let mut arrive = |ms: u64| match backend.arrive(at(ms)) {
        BackendAnswer::DoneAt(done) => Some(done.since_zero() / MS),
        BackendAnswer::Refused => None,
    };
    let at_once: Vec<_> = (0..6).map(|_| arrive(0)).collect();
    assert_eq!(at_once, [Some(10), Some(10), Some(20), Some(20), Some(30), None]);
    assert_eq!(arrive(9), None, "three wait until 10 ms");
    assert_eq!(arrive(10), Some(30), "then two are started, and one waits");
    assert_eq!(arrive(100), Some(110), "an idle backend starts at once");
}

#[test]
fn without_a_queue_only_places_count() {
    let mut backend = Backend::new(&setting(&["backend.queue=0"]));
    let answers: Vec<_> = [0, 0, 0, 10].map(|ms| backend.arrive(at(ms))).into();
    let done = |ms: u64| BackendAnswer::DoneAt(at(ms));
    assert_eq!(answers, [done(10), done(10), BackendAnswer::Refused, done(20)]);
}

#[test]
fn without_a_server_limit_every_request_is_served_at_once() {
    let text = crate::CALM.replace("servers = 8, ", "").replace(", queue = 200", "");
    let scenario = Scenario::read(&text, &[]).unwrap();
    let mut backend = Backend::new(&LiveScenario::of(&scenario).unwrap());
    assert!((0..10_000).all(|_| backend.arrive(at(7)) == BackendAnswer::DoneAt(at(15))));
}

#[test]
fn an_outage_refuses_new_requests_and_finishes_started_ones() {
    let mut backend = Backend::new(&setting(&["outage.start=5ms", "outage.duration=20ms"]));
    assert_eq!(backend.arrive(at(4)), BackendAnswer::DoneAt(at(14)));
    for ms in 5..25 {
        assert_eq!(backend.arrive(at(ms)), BackendAnswer::Refused, "at {ms} ms");
    }
    assert_eq!(backend.arrive(at(25)), BackendAnswer::DoneAt(at(35)));
}

fn done_at(sets: &[&str], arrivals: &[u64]) -> Vec<u64> {
    let mut backend = Backend::new(&setting(sets));
    let done = arrivals.iter().map(|ms| match backend.arrive(at(*ms)) {
        BackendAnswer::DoneAt(done) => done.since_zero() / MS,
        BackendAnswer::Refused => panic!("refused at {ms} ms"),
    });
    done.collect()
}

#[test]
fn a_pause_delays_started_requests_and_starts_no_others() {
    let pause = ["pause.start=5ms", "pause.duration=20ms"];
    assert_eq!(done_at(&pause, &[0, 5, 6, 40]), [30, 35, 40, 50]);
}

#[test]
fn lost_servers_finish_their_requests() {
    let loss = ["capacity_loss={ start = '5ms', duration = '20ms', share = 0.5 }"];
    assert_eq!(done_at(&loss, &[4, 4, 5, 5, 5, 40]), [14, 14, 24, 34, 35, 50]);
}

#[test]
fn a_cold_cache_slows_requests_by_when_they_start() {
    let cold = ["cold_cache={ start = '0s', duration = '40ms', capacity = 0.5 }"];
    // Speeds of 0.5 at the start and 0.75 after 20 ms.
    assert_eq!(done_at(&cold, &[0, 0, 1, 40]), [20, 20, 33, 50]);
}

#[test]
fn the_simulator_serves_as_many_requests_in_every_window() {
    let text = r#"
        title = "Servers that come and go"
        duration = "4s"
        window = "50ms"
        policies = ["no-retry"]
        clients = { arrivals = { constant = { rate = 97 } } }
        backend = { servers = 5, service = "40ms", queue = 20 }
        capacity_loss = { start = "500ms", duration = "700ms", share = 0.6 }
        pause = [{ start = "1700ms", duration = "150ms" }, { start = "1s", duration = "90ms" }]
        cold_cache = { start = "2500ms", duration = "1s", capacity = 0.2 }
    "#;
    let scenario = Scenario::read(text, &[]).unwrap();
    let simulated = exact::run(&scenario, &Subject::no_retry(), 1, &Watch::default()).series.served;
    let mut backend = Backend::new(&LiveScenario::of(&scenario).unwrap());
    let mut arrivals = OpenLoop::new(&scenario, 1);
    let mut served = vec![0.0; simulated.len()];
    let (mut now, mut refused) = (arrivals.next(Time::ZERO), 0);
    while now < scenario.end() {
        match backend.arrive(now) {
            BackendAnswer::DoneAt(at) => {
                served[(at.since_zero() / scenario.window) as usize] += 1.0;
            }
            BackendAnswer::Refused => refused += 1,
        }
        now = arrivals.next(now);
    }
    assert_eq!(served, simulated);
    assert!(refused > 0);
}

#[test]
fn a_brownout_refuses_its_share() {
    for share in [0.0, 0.3, 1.0] {
        let share_set = format!("brownout.share={share}");
        let sets = ["brownout.start=0s", "brownout.duration=1h", &share_set];
        let mut backend = Backend::new(&setting(&sets));
        let arrivals = 10_000;
        let refused =
            (0..arrivals).filter(|n| backend.arrive(at(n * 10)) == BackendAnswer::Refused);
        let got = refused.count() as f64 / arrivals as f64;
        // Five standard deviations.
        assert!((got - share).abs() <= 5.0 * (0.25 / arrivals as f64).sqrt(), "{share}: {got}");
        assert!(share != 0.0 || got == 0.0);
    }
}

proptest! {
    /// In any window no more is done than the servers can do: each may end one request that it started before, and
    /// then one per service time.
    #[test]
    fn capacity_is_never_exceeded(
        gaps in prop::collection::vec(0..5_000_000_u64, 1..300),
        servers in 1_u32..6,
        queue in 0_u32..50,
        window in 1_000_000..100_000_000_u64,
    ) {
        let (servers_set, queue_set) =
            (format!("backend.servers={servers}"), format!("backend.queue={queue}"));
        let setting = setting(&[&servers_set, &queue_set]);
        let mut backend = Backend::new(&setting);
        let (mut now, window) = (Time::ZERO, Span::from_nanos(window));
        let mut done = Vec::new();
        for gap in gaps {
            now += Span::from_nanos(gap);
            if let BackendAnswer::DoneAt(at) = backend.arrive(now) {
                prop_assert!(at >= now + 10 * MS);
                done.push(at);
            }
        }
        prop_assert!(done.is_sorted(), "requests end in order");
        let most = u64::from(servers) * (window / (10 * MS) + 1);
        for (first, start) in done.iter().enumerate() {
            let within = done[first..].iter().take_while(|at| **at < *start + window).count();
            prop_assert!(within as u64 <= most, "{within} of {most}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_work() {
    let of = |seed| {
        let drawn = setting(&["backend.service={ exponential = '10ms' }"]);
        let mut backend = Backend::new(&drawn.seed(seed));
        (0..100).map(|n| backend.arrive(at(n * 7))).collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}
