//! Everything fails at once, from a seed: upstreams die, stall, reset and lie about lengths, callers vanish, files are
//! replaced, Redis comes and goes. Each response belongs to its request, nothing that is unsafe to repeat is repeated, every
//! error is the proxy's own, and in the end it holds what it held at first.
//!
//! `cargo xtask prove proxy` runs it for longer.
#![allow(clippy::disallowed_methods, reason = "waits for another process")]

mod callers;
mod message;
mod redis;
mod servers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use callers::{End, Ends, KINDS, Kind, Ports};
use redis::Redis;
use servers::{FATES, Upstreams};

use crate::process::Process;

const SERVERS: usize = 3;
const CALLERS: u64 = 24;
/// Requests of a round.
const REQUESTS: u64 = 4_000;
/// Rounds, unless a time is given. Memory and descriptors after the first are compared with those after the last.
const ROUNDS: u64 = 4;
/// What memory may grow by after the first round, in KiB.
const GROWTH: u64 = 8 << 10;

/// The number in a variable.
fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

fn file(ports: &[u16], redis: u16, draw: u64) -> String {
    let without = draw as usize % (ports.len() + 1);
    let to = ports.iter().enumerate().filter(|(place, _)| *place != without);
    let to: Vec<_> = to.map(|(_, port)| format!("\"http://127.0.0.1:{port}\"")).collect();
    let (to, attempts) = (to.join(", "), 2 + draw % 3);
    format!(
        r#"
[fleet.chaos]
redis = "redis://127.0.0.1:{redis}"

[policy.plain]
attempts        = {attempts}
attempt_timeout = "300ms"
deadline        = "3s"
backoff         = {{ base = "1ms", cap = "20ms" }}
budget          = {{ window = {{ ratio = 1.0, floor = "50/s" }} }}
fleet           = "chaos"

[policy.keyed]
extends = "plain"
budget  = "none"
fleet   = "none"

[upstream.plain]
to       = [{to}]
policy   = "plain"
endpoint = {{ breaker = {{ lookback = {{ calls = 20 }}, failure_ratio = 0.8, open = "100ms" }} }}

[upstream.keyed]
to          = [{to}]
policy      = "keyed"
shed        = {{ limit = 16, queue = 16 }}
idempotency = {{ store = "memory", methods = ["POST"], ttl = "10s" }}
"#
    )
}

/// What goes wrong while callers send requests: a step every 40 ms.
fn disturb(
    seed: u64,
    process: &mut Process,
    upstreams: &std::sync::Arc<Upstreams>,
    redis: &mut Redis,
    has_ended: &AtomicBool,
) {
    for step in 0.. {
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        let draw = redial_core::draw(seed ^ 2, step);
        let server = (draw >> 8) as usize % SERVERS;
        match draw % 8 {
            0 => upstreams.kill(server),
            1..=3 => (0..SERVERS).for_each(|server| upstreams.revive(server)),
            4 => assert!(!process.reload("[upstream.plain]\nto = \"nowhere\"\n")),
            5 => redis.kill(),
            6 => redis.start(),
            _ => {
                let text = file(&upstreams.ports(), redis.port, draw >> 16);
                assert!(process.reload(&text), "{text}");
            }
        }
        thread::sleep(Duration::from_millis(40));
    }
    (0..SERVERS).for_each(|server| upstreams.revive(server));
}

fn round(
    seed: u64,
    first: u64,
    process: &mut Process,
    upstreams: &std::sync::Arc<Upstreams>,
    redis: &mut Redis,
) -> Ends {
    let ports = Ports { plain: process.port("plain"), keyed: process.port("keyed") };
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let run = |caller: u64| {
            let numbers = (first + caller..first + REQUESTS).step_by(CALLERS as usize);
            callers::run(seed, numbers, &ports)
        };
        let running: Vec<_> = (0..CALLERS).map(|caller| scope.spawn(move || run(caller))).collect();
        let disturbing = scope.spawn(|| disturb(seed, process, upstreams, redis, &has_ended));
        let mut ends = Ends::new();
        let joined: Vec<_> = running.into_iter().map(|caller| caller.join()).collect();
        has_ended.store(true, Ordering::Relaxed);
        disturbing.join().unwrap();
        for caller in joined {
            for (end, count) in caller.unwrap() {
                *ends.entry(end).or_default() += count;
            }
        }
        ends
    })
}

/// What the process holds when no request is in flight and idle connections have expired.
fn at_rest(process: &Process, most: usize) -> (usize, u64) {
    for _ in 0..300 {
        if process.descriptors() <= most {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    (process.descriptors(), process.resident())
}

#[test]
fn every_response_belongs_to_its_request_whatever_fails() {
    let seed = variable("REDIAL_PROVE_SEED").unwrap_or(19);
    let until = variable("REDIAL_PROVE_MINUTES")
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let upstreams = Upstreams::start(seed, SERVERS);
    let mut redis = Redis::new();
    let text = file(&upstreams.ports(), redis.port, SERVERS as u64);
    let mut process = Process::start("chaos", &text);
    // Its connection to Redis, and a few that a pool may keep.
    let most = process.descriptors() + 8;
    let mut after_first = None;
    let (mut ends, mut fates) = (Ends::new(), std::collections::HashMap::new());
    for number in 0.. {
        if until.map_or(number == ROUNDS, |until| Instant::now() > until) {
            break;
        }
        let seed = redial_core::draw(seed, number);
        for (end, count) in round(seed, number * REQUESTS, &mut process, &upstreams, &mut redis) {
            *ends.entry(end).or_default() += count;
        }
        upstreams
            .count()
            .into_iter()
            .for_each(|(fate, count)| *fates.entry(fate).or_insert(0) += count);
        assert_eq!(upstreams.wrong(), Vec::<String>::new(), "seed {seed}");
        upstreams.forget();
        if after_first.is_none() {
            after_first = Some(at_rest(&process, most));
        }
    }
    let first = after_first.unwrap();
    let last = at_rest(&process, most);
    report(&ends, first, last);
    assert!(last.0 <= most, "{} descriptors instead of {most}", last.0);
    assert!(last.1 <= first.1 + GROWTH, "{} KiB after the first round, {} now", first.1, last.1);
    for fate in FATES {
        assert!(fates.contains_key(&fate), "{fate:?} has never happened");
    }
    for kind in KINDS {
        let of = |is: fn(&End) -> bool| {
            ends.iter()
                .filter(|((it, end), _)| *it == kind && is(end))
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        let good = of(|end| *end == End::Answered(200));
        let leaves = matches!(kind, Kind::LeavesInRequest | Kind::LeavesInResponse);
        assert!(leaves || 3 * good > of(|_| true), "{kind:?}: only {good} of {}", of(|_| true));
    }
    process.end();
}

/// Shown when the test fails, or with `--nocapture`.
#[allow(clippy::print_stdout, reason = "the result of a proof")]
fn report(ends: &Ends, first: (usize, u64), last: (usize, u64)) {
    let sorted: BTreeMap<String, u64> =
        ends.iter().map(|((kind, end), count)| (format!("{kind:?} {end:?}"), *count)).collect();
    for (end, count) in &sorted {
        println!("{count:8}  {end}");
    }
    println!("(descriptors, KiB) after the first round {first:?}, after the last {last:?}");
}
