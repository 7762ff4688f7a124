//! A floor per client multiplies by the number of clients, and one ledger for all clients does not: with real processes,
//! and a Redis that is killed in between.
#![allow(clippy::disallowed_methods, reason = "what processes did is sorted by time")]
#![allow(clippy::print_stdout, reason = "the page on fleet budgets has these numbers")]

mod bound;
mod instances;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use redial_sim::report::Rates;

use crate::redis::Redis;
use bound::{FLOOR, RATIO, TTL, rates, worst};
use instances::{Instances, Line};

/// Set by `cargo xtask prove fleet`.
const PROVE: &str = "REDIAL_PROVE_FLEET";
/// The directory for a figure of both curves and its data, if set.
const PICTURE: &str = "REDIAL_FLEET_PICTURE";

/// The number of processes. The run of `cargo xtask test` has fewer of them, and the same faults.
fn instances() -> usize {
    let is_long = env::var_os(PROVE).is_some() || env::var_os(PICTURE).is_some();
    if is_long { 200 } else { 50 }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The lines of a fleet, and the times of the faults, in seconds since it began.
struct Run {
    begin: f64,
    lines: Vec<Vec<Line>>,
    events: Vec<f64>,
}

impl Run {
    /// The end: all instances have printed a line.
    fn seconds(&self) -> usize {
        self.events.last().map_or(0, |end| *end as usize)
    }

    fn rates(&self) -> Vec<(f64, f64)> {
        rates(&self.lines, self.begin, self.seconds())
    }

    /// Calls and retries per second between two times.
    fn mean(&self, from: f64, to: f64) -> (f64, f64) {
        let (from, to) = (from.ceil() as usize, to.floor() as usize);
        let sum = |sum: (f64, f64), rate: &(f64, f64)| (sum.0 + rate.0, sum.1 + rate.1);
        let (calls, retries) = self.rates()[from..to].iter().fold((0.0, 0.0), sum);
        let seconds = (to - from) as f64;
        (calls / seconds, retries / seconds)
    }
}

fn local(example: &Path, seconds: usize) -> Run {
    let begin = now();
    let instances = Instances::start(example, "local", instances(), "local");
    instances.go_on(2);
    let started = now() - begin;
    instances.go_on(seconds);
    let end = now() - begin;
    instances.go_on(2);
    Run { begin, lines: instances.lines(), events: vec![started, end] }
}

/// Ten seconds or more of each: with the ledger, without it, with an empty one, with a quarter of the fleet killed.
fn shared(example: &Path) -> Run {
    let mut redis = Redis::start();
    let begin = now();
    let mut instances = Instances::start(example, "fleet", instances(), &redis.url());
    let mut events = Vec::new();
    let mut note = || events.push(now() - begin);
    instances.go_on(11);
    note();
    instances.go_on(11);
    note();
    redis.kill();
    instances.go_on(11);
    note();
    redis.start_again();
    instances.go_on(11);
    note();
    instances.kill(self::instances() / 4);
    instances.go_on(11);
    note();
    instances.go_on(2);
    Run { begin, lines: instances.lines(), events }
}

#[test]
fn one_budget_holds_for_all_while_redis_and_a_quarter_of_the_instances_are_killed() {
    let example = xtask::examples::folder().unwrap().join("fleet");
    let picture = env::var(PICTURE);
    let shared = shared(&example);
    // A figure shows both for the same time; the comparison needs less.
    let local = local(&example, if picture.is_ok() { shared.seconds() } else { 10 });
    let (_, many) = local.mean(local.events[0], local.events[1]);
    let [ready, killed, back, fewer, end] = shared.events[..] else { panic!("five were noted") };
    let phases = [
        ("one ledger", ready, killed),
        ("without Redis", killed, back),
        ("with an empty one", back, fewer),
        ("with a quarter killed", fewer, end),
    ];
    for (what, from, to) in phases {
        let (calls, few) = shared.mean(from, to);
        let allowed = RATIO * calls + FLOOR;
        println!("{what}: {few:.1} retries a second, {allowed:.1} allowed, {calls:.0} calls");
        // Most of the budget is used; how much depends on the speed of the machine.
        assert!(
            few >= allowed / 10.0,
            "{what}: {few} retries a second where {allowed} are allowed"
        );
        assert!(many >= 5.0 * few, "{what}: {few} retries a second, and {many} with local floors");
    }
    let worst = worst(&shared.lines, shared.begin);
    println!("local floors: {many:.0} retries a second");
    println!("at most {:.0} % of the bound", worst * 100.0);
    assert!(worst <= 1.05, "{worst} times ratio·calls + floor·(T + {TTL} s)");
    assert!(bound::worst(&local.lines, local.begin) > 5.0, "what the bound is there to prevent");
    if let Ok(path) = picture {
        draw(&path, &local, &shared);
    }
}

fn draw(path: &str, local: &Run, shared: &Run) {
    let retries = |run: &Run| run.rates().iter().map(|rate| rate.1).collect::<Vec<f64>>();
    let (mut many, few) = (retries(local), retries(shared));
    many.truncate(few.len());
    let events = &shared.events;
    let picture = Rates {
        title: "200 instances with a floor of 10 retries a second call a service that is down",
        unit: "retries a second",
        curves: &[("one ledger for all", &few), ("a floor in each instance", &many)],
        spans: &[(events[1], events[2], "no Redis"), (events[3], events[3], "50 instances killed")],
    };
    fs::write(path, picture.svg()).unwrap();
    let row = |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>();
    let rows = [("ledger", row(&few)), ("local", row(&many))];
    let rows = rows.map(|(name, row)| format!("{name}\t{}\n", row.join("\t"))).concat();
    fs::write(Path::new(path).with_extension("tsv"), rows).unwrap();
}
