//! The script in a real Redis, and fleets that share one.

use redial::fleet::{Fleet, FleetEvent};
use redial::{Rate, Retry};
use redial_core::fleet::{Ask, FleetTerms, Grant, Role, Seat};
use redial_core::{Span, Time, draw};

use super::script::{BEGAN, SOURCE, Script};
use super::support::{
    ObservedFleet, Redis, WAIT, name, policy, retries, retry, shared, until, window,
};

/// Redis with the time as two more arguments of the otherwise unchanged script.
struct Timed {
    connection: redis::Connection,
    script: redis::Script,
    key: String,
}

impl Timed {
    fn new(redis: &Redis) -> Self {
        let source = SOURCE.replace("redis.call('TIME')", "{ARGV[13], ARGV[14]}");
        assert_ne!(source, SOURCE);
        let connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        Self { connection, script: redis::Script::new(&source), key: name() }
    }

    fn ask(&mut self, ask: &Ask, now: Time) -> Grant {
        let micros = BEGAN + now.since_zero().as_micros();
        let mut call = self.script.key(&*self.key);
        call.arg(&ask.words()[..]).arg(micros / 1_000_000).arg(micros % 1_000_000);
        let words: Vec<i64> = call.invoke(&mut self.connection).unwrap();
        Grant::from_words(&words).unwrap()
    }
}

/// Random members and one-shot instances that join, sync, lose state, differ and leave, over hours: all replies are equal.
#[test]
fn the_script_does_in_redis_what_it_does_in_virtual_time() {
    let redis = Redis::start(&[]);
    for seed in 0..6 {
        let (virtually, mut really) = (Script::new(), Timed::new(&redis));
        let mut seats = [Seat::default(); 8];
        let (mut now, mut members) = (Time::ZERO, 0);
        for step in 0..400 {
            let mut counter = 0;
            let mut dice = |sides: u64| {
                counter += 1;
                draw(seed, step * 16 + counter) % sides
            };
            now += Span::from_nanos(match dice(20) {
                0 => dice(700_000_000_000),
                1..5 => 0,
                _ => dice(2_000_000_000),
            });
            let who = dice(8) as usize;
            let strict = [10_000_000, 10_000_000, 10_000_000, 3_333_333][dice(4) as usize];
            let ask = Ask {
                role: if who == 7 { Role::OneShot } else { Role::Member },
                leaves: dice(10) == 0,
                seat: seats[who],
                members,
                terms: FleetTerms {
                    ratio: 100_000 + dice(2),
                    floor: strict,
                    ttl: Span::from_secs(10),
                },
                deposit: dice(3) * dice(5_000_000),
                want: dice(4),
            };
            let expected = virtually.ask(&ask, now);
            assert_eq!(really.ask(&ask, now), expected, "seed {seed}, step {step}: {ask:?}");
            members = expected.members;
            // Some replies are lost.
            if dice(12) != 0 {
                seats[who] = if ask.leaves { Seat::default() } else { expected.seat };
            }
            if dice(150) == 0 {
                virtually.forget();
                let _: () = redis.command(&["DEL", &really.key]);
            }
        }
    }
}

#[test]
fn fleets_of_one_redis_do_not_mix() {
    let (url, name) = (shared(), name());
    let one = ObservedFleet::draft(Fleet::draft(&url, &name));
    let two = ObservedFleet::draft(Fleet::draft(&url, &format!("{name}2")));
    let three = ObservedFleet::draft(Fleet::draft(&url, &name).prefix("other:"));
    let instances = [&one, &two, &three].map(|observed| retry(&observed.fleet));
    for observed in [&one, &two, &three] {
        assert_eq!(observed.reaches(), 1);
    }
    retries(&instances[0]);
    assert!(one.stats().leased > 0);
    assert_eq!((two.stats().leased, three.stats().leased), (0, 0));
}

#[test]
fn the_strictest_configuration_counts_and_all_instances_are_notified() {
    let (url, name) = (shared(), name());
    let lax = ObservedFleet::draft(Fleet::draft(&url, &name));
    let _lax = Retry::new(policy(window(100), WAIT)).fleet(&lax.fleet).unwrap();
    lax.reaches();
    let strict = ObservedFleet::draft(Fleet::draft(&url, &name));
    let stricter = window(100).floor(Rate::per_second(3));
    let strict_retry = Retry::new(policy(stricter, WAIT)).fleet(&strict.fleet).unwrap();
    strict.reaches();
    match lax.next() {
        FleetEvent::Differs { terms, ledger } => {
            assert_eq!((terms.floor, terms.ratio, ledger), (3_000_000, 100_000, name));
        }
        other => panic!("{other}"),
    }
    assert!(lax.stats().differs.is_some());
    assert_eq!(strict.stats().differs, None);
    assert_eq!((strict.all(), lax.all()), (vec![], vec![]));
    drop(strict_retry);
}

/// One instance leases what another deposited.
#[test]
fn one_instance_may_spend_what_another_earned() {
    let (url, name) = (shared(), name());
    let (earns, spends) = (
        ObservedFleet::draft(Fleet::draft(&url, &name)),
        ObservedFleet::draft(Fleet::draft(&url, &name)),
    );
    let policy = policy(window(0), WAIT);
    let earning = Retry::new(policy.clone()).fleet(&earns.fleet).unwrap();
    let spending = Retry::new(policy).fleet(&spends.fleet).unwrap();
    earns.reaches();
    spends.reaches();
    until("a retry", || {
        for _ in 0..1_000 {
            earning.run_blocking(|_| Ok::<_, std::io::Error>(())).unwrap();
        }
        super::support::fails(&spending) == 2
    });
    assert_eq!(earns.stats().leased, 0);
}

#[test]
fn fleet_metrics_are_published_with_those_of_the_meters() {
    let (url, name) = (shared(), name());
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let mut publisher = redial::telemetry::Publisher::default();
    let mut value = |metric: &str, labels: &str| {
        redial::telemetry::Registry::new().publish_to(&recorder, &mut publisher);
        let text = recorder.handle().render();
        let line = format!("{metric}{{fleet=\"{name}\"{labels}}} ");
        let found = text.lines().find_map(|it| it.strip_prefix(&line)?.parse::<f64>().ok());
        found.unwrap_or_else(|| panic!("no {line}in\n{text}"))
    };
    let observed = ObservedFleet::draft(Fleet::draft(&url, &name));
    let retry = retry(&observed.fleet);
    observed.reaches();
    retries(&retry);
    assert_eq!(value("redial_fleet_connected", ""), 1.0);
    assert_eq!(value("redial_fleet_members", ""), 1.0);
    assert_eq!(value("redial_fleet_differs", ""), 0.0);
    assert!(value("redial_fleet_balance", "") >= 0.0);
    assert!(value("redial_fleet_leased_total", "") >= 1.0);
    assert!(value("redial_fleet_syncs_total", ",result=\"ok\"") >= 2.0);
    for result in ["timeout", "unreachable", "refused", "garbage"] {
        assert_eq!(value("redial_fleet_syncs_total", &format!(",result=\"{result}\"")), 0.0);
    }
    drop((retry, observed));
    until("it is gone", || value("redial_fleet_members", "") == 0.0);
    assert_eq!(
        value("redial_fleet_connected", ""),
        1.0,
        "a ledger without instances is not disconnected"
    );
    assert!(value("redial_fleet_leased_total", "") >= 1.0, "counters are kept");
}

#[test]
fn a_unix_socket_is_a_valid_address() {
    let redis = Redis::start(&["--unixsocket", "/tmp/redial-fleet-PORT.sock"]);
    let observed =
        ObservedFleet::open(&format!("redis+unix:///tmp/redial-fleet-{}.sock", redis.port));
    let retry = retry(&observed.fleet);
    observed.reaches();
    retries(&retry);
}
