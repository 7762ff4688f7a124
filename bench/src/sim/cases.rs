//! The simulations that are timed, and the process that runs one for its memory or its instructions.

use std::fs;
use std::time::Instant;

use redial_sim::simulate::Watch;
use redial_sim::{Scenario, cohort, exact};
use serde::{Deserialize, Serialize};

use super::{Speed, wheels};

/// Seconds of virtual time.
pub(super) const CLOSED_SECONDS: u32 = 10;

/// The result of a run in its own process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) events: u64,
    pub(super) wall_s: f64,
    pub(super) peak_bytes: u64,
}

/// Callers that think, call and retry for ten seconds while half of the requests fail; with full jitter, a window
/// budget that pays for the retries, and a deadline.
pub(super) fn closed(callers: u32, seed: u64) -> Result<Speed, String> {
    exactly(
        &format!(
            r#"
title = "callers in a closed loop"
duration = "{CLOSED_SECONDS}s"
policies = ["full"]
[clients]
instances = 1000
arrivals = {{ closed = {{ callers = {callers}, think = {{ uniform = {{ from = "0s", to = "4s" }} }} }} }}
[brownout]
start = "0s"
duration = "{CLOSED_SECONDS}s"
share = 0.5
[policy.full]
attempts = 4
deadline = "30s"
backoff = {{ base = "1s", cap = "10s", jitter = "full" }}
budget = {{ window = {{ ratio = 1.0 }} }}
"#
        ),
        seed,
    )
}

/// Callers that all begin at the start of an outage.
pub(super) fn synchronised(callers: u32, seed: u64) -> Result<Speed, String> {
    exactly(
        &format!(
            r#"
title = "all callers at once"
duration = "20s"
policies = ["full"]
[clients]
instances = 1000
arrivals = {{ synchronised = {{ callers = {callers} }} }}
[outage]
start = "0s"
duration = "1s"
[policy.full]
attempts = 6
deadline = "none"
backoff = {{ base = "1s", cap = "10s", jitter = "full" }}
budget = {{ window = {{ ratio = 1.0, floor = "1000000/s" }} }}
"#
        ),
        seed,
    )
}

/// A hundred million calls a second for a minute, with half of the necessary servers for ten seconds.
pub(super) fn cohorts(seed: u64) -> Result<Speed, String> {
    let scenario = read(
        r#"
title = "a hundred million calls a second"
duration = "60s"
policies = ["full"]
[clients]
arrivals = { poisson = { rate = 1e8 } }
[backend]
servers = 2500000
service = { exponential = "20ms" }
queue = 50000000
[capacity_loss]
start = "10s"
duration = "10s"
share = 0.6
[policy.full]
attempts = 4
deadline = "none"
attempt_timeout = "300ms"
backoff = { base = "100ms", cap = "2s", jitter = "full" }
budget = { window = {} }
"#,
    )?;
    let subject = scenario.subject("full")?;
    let model = cohort::Model::new(&scenario, &subject).map_err(|refused| refused.to_string())?;
    let began = Instant::now();
    let run = model.run(seed, &Watch::default());
    Ok(Speed { events: run.attempts, wall_s: began.elapsed().as_secs_f64() })
}

fn exactly(text: &str, seed: u64) -> Result<Speed, String> {
    let scenario = read(text)?;
    let subject = scenario.subject("full")?;
    let began = Instant::now();
    let run = exact::run(&scenario, &subject, seed, &Watch::default());
    Ok(Speed { events: run.events, wall_s: began.elapsed().as_secs_f64() })
}

pub(super) fn read(text: &str) -> Result<Scenario, String> {
    Scenario::read(text, &[]).map_err(|problem| problem.to_string())
}

/// Runs one case by its name and prints its result.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let count = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    let speed = match args {
        ["1m"] => closed(1_000_000, 1)?,
        ["1m", callers] => closed(count(callers)?, 1)?,
        ["25m"] => synchronised(25_000_000, 1)?,
        ["25m", callers] => synchronised(count(callers)?, 1)?,
        ["cohort"] => cohorts(1)?,
        ["bare", waiting] => count(waiting).map(|it| wheels::bare(it, u64::from(it) * 6))?,
        ["ours", waiting] => count(waiting).map(|it| wheels::ours(it, u64::from(it) * 6))?,
        _ => return Err("cases are 1m, 25m, cohort, bare and ours, and a number of callers".into()),
    };
    let Speed { events, wall_s } = speed;
    crate::print_json(&Measured { events, wall_s, peak_bytes: peak_bytes() });
    Ok(())
}

/// The peak memory of this process; 0 where the kernel does not report it.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
