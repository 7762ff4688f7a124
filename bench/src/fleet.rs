//! The cost of one budget for a whole fleet.
//!
//! Redis runs scripts on one thread, so the cost of one request there determines how many instances it can serve.
//! The requests are those of fifty members that deposit and lease, sent as instances send them, but without a
//! pause. The cost of a call is counted as for a call without a fleet.

use std::env;
use std::time::Instant;

use redial_core::Span;
use redial_core::fleet::{Ask, FleetTerms, Grant, Role, SLICES, Seat};
use redis::{Client, Connection, Script};

use crate::cases;
use crate::costs::Costs;
use crate::table::{Bar, Line, Part, Report};

const LEDGER: &str = include_str!("../../crates/redial/src/fleet/ledger.lua");
const KEY: &str = "redial:fleet:bench";
const MEMBERS: usize = 50;
const ROUNDS: usize = 2_000;

const TTL: Span = Span::from_secs(10);
/// Requests a second of all instances with waiting retries together, whatever their number.
const IN_A_STORM: f64 = 10_000.0;

const NOTES: &[&str] = &[
    "µs are of the processor, as Redis counts them (INFO), over 100,000 asks; asks a second are by the clock, on a machine that",
    "the bench uses too. At rest an instance asks every 1.9 s (3/16 of a ttl of 10 s); in a storm all of them together ask at most",
    "10,000 times a second. Instructions are per call, with a ledger that never answers.",
];

pub(crate) fn measure() -> Result<Report, String> {
    let url = env::var("REDIAL_TEST_REDIS").map_err(|_| {
        "REDIAL_TEST_REDIS names no Redis: `cargo xtask bench fleet` starts one".to_owned()
    })?;
    let ledger = Ledger::measure(&url).map_err(|error| format!("Redis: {error}"))?;
    let costs = Costs::measure(cases::FLEET, &["fleet-async", "fleet-blocking"])?;
    Ok(Report::new([of_ledger(&ledger), of_call(&costs)], NOTES))
}

struct Ledger {
    micros: f64,
    per_second: f64,
    bytes: f64,
}

impl Ledger {
    fn measure(url: &str) -> redis::RedisResult<Self> {
        let mut connection = Client::open(url)?.get_connection()?;
        let script = Script::new(LEDGER);
        script.prepare_invoke().load(&mut connection)?;
        let mut seats = [Seat::default(); MEMBERS];
        round(&mut connection, &script, &mut seats)?;
        let (before, started) = (processor(&mut connection)?, Instant::now());
        for _ in 0..ROUNDS {
            round(&mut connection, &script, &mut seats)?;
        }
        let (spent, taken) = (processor(&mut connection)? - before, started.elapsed());
        let asks = (ROUNDS * MEMBERS) as f64;
        let bytes: u64 = redis::cmd("MEMORY").arg("USAGE").arg(KEY).query(&mut connection)?;
        Ok(Self {
            micros: spent * 1e6 / asks,
            per_second: asks / taken.as_secs_f64(),
            bytes: bytes as f64,
        })
    }
}

/// One request of each member, all in flight at once.
fn round(
    connection: &mut Connection,
    script: &Script,
    seats: &mut [Seat],
) -> redis::RedisResult<()> {
    let mut pipe = redis::pipe();
    for seat in seats.iter() {
        let ask = Ask {
            role: Role::Member,
            leaves: false,
            seat: *seat,
            members: MEMBERS as u64,
            terms: FleetTerms { ratio: 100_000, floor: 10_000_000, ttl: TTL },
            deposit: 250_000,
            want: 1,
        };
        pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(KEY).arg(&ask.words()[..]);
    }
    let answers: Vec<Vec<i64>> = pipe.query(connection)?;
    for (seat, words) in seats.iter_mut().zip(answers) {
        let grant = Grant::from_words(&words);
        *seat = grant.ok_or((redis::ErrorKind::UnexpectedReturnType, "not an answer"))?.seat;
    }
    Ok(())
}

/// Seconds of processor time that the server has used.
fn processor(connection: &mut Connection) -> redis::RedisResult<f64> {
    let info: String = redis::cmd("INFO").arg("cpu").query(connection)?;
    let of = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let counts = ["used_cpu_user", "used_cpu_sys"].contains(&name);
        value.trim().parse::<f64>().ok().filter(|_| counts)
    };
    Ok(info.lines().filter_map(of).sum())
}

fn of_ledger(ledger: &Ledger) -> Vec<Line> {
    let Ledger { micros, per_second, bytes } = *ledger;
    // An idle instance sends a request this often.
    let at_rest = TTL / SLICES as u64 * 3;
    let at_rest = 1e6 / micros * at_rest.as_secs_f64();
    let storm = IN_A_STORM * micros / 1e4;
    vec![
        Line::new("an ask: µs of Redis", vec![], micros, Bar::AtMost(25.0)),
        Line::new("asks a second, by the clock", vec![], per_second, Bar::None),
        Line::new("bytes of a ledger", vec![], bytes, Bar::AtMost(512.0)),
        Line::new(
            "instances that one node carries, at rest",
            vec![],
            at_rest,
            Bar::AtLeast(50_000.0),
        ),
        Line::new("percent of a node, any number in a storm", vec![], storm, Bar::AtMost(50.0)),
    ]
}

fn of_call(costs: &Costs) -> Vec<Line> {
    let line = |what, ours, alone, most| {
        let alone = vec![Part { name: "with its own budget", value: costs.of(alone) }];
        Line::new(what, alone, costs.of(ours), Bar::AtMost(most))
    };
    vec![
        line("async call, ready at once; fleet, deadline", "fleet-async", "redial-async", 220.0),
        costs.allocations(&[], "fleet-async"),
        costs.clock_reads(&[], "fleet-async", Bar::AtMost(1.0)),
        line("blocking call; fleet, deadline", "fleet-blocking", "redial-blocking", 176.0),
        costs.allocations(&[], "fleet-blocking"),
        costs.clock_reads(&[], "fleet-blocking", Bar::AtMost(1.0)),
    ]
}
