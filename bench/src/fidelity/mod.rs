//! Does the simulator predict real traffic? Two thousand callers with the real runners, over TCP, against a server
//! with a real capacity, and the simulator with the same file: a blip, in which the backend is down for 200 ms, and
//! a brownout, in which it fails three requests in ten. Peers are used unmodified.

pub(crate) mod peers;
mod report;

use redial_core::{Policy, Span};
use redial_live::{
    Error, Inconclusive, LiveRun, LiveScenario, Naive, Once, Redial, round_trip, run,
};
use redial_sim::measure::{Run, Summary};
use redial_sim::scenario::{Clients, HowLong};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};

use peers::{Backon, Tower};
pub(crate) use report::Report;
use report::{Means, Row};

const SCENARIOS: [(&str, &str); 2] = [
    ("blip", include_str!("../../scenarios/blip.toml")),
    ("brownout", include_str!("../../scenarios/brownout.toml")),
];
/// The most real runs for each requested one: a busy machine refuses some.
const MOST_TRIES: u64 = 3;
/// Runs of the simulator, which take milliseconds.
const SIMULATED_RUNS: u32 = 50;

/// A way of retrying.
struct Way {
    name: &'static str,
    /// The policy that represents it in the scenario.
    policy: &'static str,
    live: fn(LiveScenario, &Policy) -> Result<LiveRun, Error>,
}

const WAYS: [Way; 7] = [
    Way { name: "no retry", policy: "no-retry", live: |setting, _| run(setting, |_| Once) },
    Way {
        name: "naive: 100 ms, 10 attempts",
        policy: "naive",
        live: |setting, _| run(setting, |_| Naive::TYPICAL),
    },
    Way { name: "redial standard", policy: "standard", live: redial },
    Way { name: "redial without a budget", policy: "no-budget", live: redial },
    Way {
        name: "backon, its defaults",
        policy: "peer:backon",
        live: |setting, _| run(setting, |_| Backon::by_default()),
    },
    Way {
        name: "backon, like ours",
        policy: "backon-like-ours",
        live: |setting, _| run(setting, |_| Backon::like_ours()),
    },
    Way {
        name: "tower, its budget and backoff",
        policy: "tower",
        live: |setting, _| run(setting, |_| Tower::standard()),
    },
];

fn redial(setting: LiveScenario, policy: &Policy) -> Result<LiveRun, Error> {
    run(setting, |_| Redial::new(policy.clone()))
}

pub(crate) fn measure(runs: u32) -> Result<Report, String> {
    let message = |error: Error| error.to_string();
    let round_trip = round_trip().map_err(message)?;
    let mut rows = Vec::new();
    for (name, text) in SCENARIOS {
        let scenario = Scenario::read(text, &[]).map_err(|problem| problem.to_string())?;
        for way in &WAYS {
            eprintln!("{name}: {} …", way.name);
            let subject = scenario.subject(way.policy)?;
            let live = |setting| (way.live)(setting, &subject.policy).map_err(message);
            let real = Real::measure(&scenario, runs, live)?;
            rows.push(Row {
                scenario: name,
                way: way.name,
                runs: real.runs.len() as u32,
                refused: real.refused,
                refusal: real.refusal.map(|refusal| refusal.to_string()),
                live: (!real.runs.is_empty()).then(|| Means::of(&Summary::of(&real.runs))),
                simulated: Means::of(&simulated(&with_latency(&scenario, round_trip), &subject)?),
            });
        }
    }
    Ok(Report { runs, simulated_runs: SIMULATED_RUNS, round_trip_us: round_trip.as_micros(), rows })
}

/// The real runs of one way of retrying.
pub(crate) struct Real {
    pub(crate) runs: Vec<Run>,
    /// The seeds of these runs.
    pub(crate) seeds: Vec<u64>,
    /// How many runs gave no figures.
    pub(crate) refused: u32,
    /// Why the last of them gave none.
    pub(crate) refusal: Option<Inconclusive>,
}

impl Real {
    /// Makes the requested number of runs, and more to replace refused ones, up to a limit.
    pub(crate) fn measure(
        scenario: &Scenario,
        wanted: u32,
        live: impl Fn(LiveScenario) -> Result<LiveRun, String>,
    ) -> Result<Self, String> {
        let mut real = Self { runs: Vec::new(), seeds: Vec::new(), refused: 0, refusal: None };
        for seed in 1..=MOST_TRIES * u64::from(wanted) {
            if real.runs.len() == wanted as usize {
                break;
            }
            let setting = LiveScenario::of(scenario).map_err(|error| error.to_string())?.seed(seed);
            match live(setting)?.figures() {
                Ok(run) => {
                    real.runs.push(run);
                    real.seeds.push(seed);
                }
                Err(refusal) => {
                    real.refusal = Some(refusal);
                    real.refused += 1;
                }
            }
        }
        Ok(real)
    }
}

/// The same file, with the latency of loopback.
pub(crate) fn with_latency(scenario: &Scenario, round_trip: Span) -> Scenario {
    let clients = Clients { latency: HowLong::Always(round_trip / 2), ..scenario.clients.clone() };
    Scenario { clients, ..scenario.clone() }
}

fn simulated(scenario: &Scenario, subject: &Subject) -> Result<Summary, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings { runs: SIMULATED_RUNS, seed: 1, threads };
    let method = Choice::Exact.method(scenario, subject)?;
    Ok(simulate(&method, &settings, &Watch::default()))
}
