//! The tables of the lesson for the visitor's own numbers, computed by the engine and the simulator.
//!
//! The lesson starts one of its tables with twice the base; the engine starts with the base, as the lesson's own code does.

use std::time::Duration;

use redial_core::schedule::Backoff;
use redial_core::{LONGEST_DURATION, Policy, Span};
use redial_sim::measure::Metric;
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::{Choice, Detail, Settings, Watch, simulate};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

const MAX_WAIT_MS: f64 = 3_600_000.0;
const MAX_ROWS: u32 = 20;
const MAX_RATE: f64 = 1e8;
const MAX_REPEATS: u32 = 19;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackoffAsk {
    base_ms: f64,
    cap_ms: f64,
    retries: u32,
}

/// The waits of a policy with full jitter.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct BackoffTable {
    rows: Vec<WaitRow>,
    /// The mean of all waits together, and without jitter.
    expected_ms: f64,
    fixed_ms: f64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct WaitRow {
    retry: u32,
    uncapped_ms: f64,
    ceiling_ms: f64,
    expected_ms: f64,
}

impl BackoffAsk {
    pub(crate) fn table(&self) -> Result<BackoffTable, ApiError> {
        let Self { base_ms, cap_ms, retries } = *self;
        if !(1.0..=MAX_WAIT_MS).contains(&base_ms) || !(base_ms..=MAX_WAIT_MS).contains(&cap_ms) {
            let why =
                format!("base_ms has to be from 1 to {MAX_WAIT_MS}, and cap_ms at least as long");
            return Err(ApiError::bad_request(why));
        }
        if !(1..=MAX_ROWS).contains(&retries) {
            let why = format!("retries has to be from 1 to {MAX_ROWS}");
            return Err(ApiError::bad_request(why));
        }
        let time = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let backoff = Backoff::exponential(time(base_ms), time(cap_ms));
        let uncapped = Backoff::exponential(time(base_ms), LONGEST_DURATION.into());
        let row = |retry| {
            let range = backoff.range(retry, Span::ZERO);
            WaitRow {
                retry,
                uncapped_ms: uncapped.ceiling(retry).as_millis_f64(),
                ceiling_ms: backoff.ceiling(retry).as_millis_f64(),
                expected_ms: (range.lo.as_millis_f64() + range.hi.as_millis_f64()) / 2.0,
            }
        };
        let rows: Vec<WaitRow> = (1..=retries).map(row).collect();
        let expected_ms = rows.iter().map(|row| row.expected_ms).sum();
        let fixed_ms = rows.iter().map(|row| row.ceiling_ms).sum();
        Ok(BackoffTable { rows, expected_ms, fixed_ms })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AmplificationAsk {
    rate: f64,
    retries: u32,
}

/// What retries do to the load when every attempt fails.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Amplification {
    /// Attempts of a call in the worst case.
    multiplier: u32,
    /// Requests a second in the worst case.
    amplified: f64,
    /// The highest multiple of the usual load in a simulated outage of 10 s.
    simulated: f64,
    /// The same with a budget of a tenth of the calls.
    with_budget: f64,
}

impl AmplificationAsk {
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if !(1.0..=MAX_RATE).contains(&self.rate) || self.retries > MAX_REPEATS {
            let why =
                format!("rate has to be from 1 to {MAX_RATE}, and retries from 0 to {MAX_REPEATS}");
            return Err(ApiError::bad_request(why));
        }
        Ok(())
    }

    pub(crate) fn compute(&self, watch: &Watch) -> Result<Amplification, ApiError> {
        let attempts = self.retries + 1;
        let policy = Policy::draft().attempts(attempts).build();
        let policy = policy.map_err(|wrong| ApiError::bad_request(wrong.to_string()))?;
        let multiplier = policy.worst_case().attempts;
        Ok(Amplification {
            multiplier,
            amplified: self.rate * f64::from(multiplier),
            simulated: self.peak("three-retries", attempts, watch)?,
            with_budget: self.peak("three-budgeted", attempts, watch)?,
        })
    }

    /// The scenario of the lesson, with this traffic and a processor of the same load.
    fn peak(&self, policy: &str, attempts: u32, watch: &Watch) -> Result<f64, ApiError> {
        let wrong = |why: String| ApiError::bad_request(why);
        let servers = (self.rate * 2.5 * 0.04).ceil().max(1.0);
        let sets = [
            format!("rate={}", self.rate),
            format!("backend.servers={servers}"),
            format!("backend.queue={}", servers * 10.0),
            format!("policy.{policy}.attempts={attempts}"),
        ];
        let sets: Result<Vec<Set>, _> = sets.iter().map(|set| Set::read(set)).collect();
        let sets = sets.map_err(|problem| wrong(problem.to_string()))?;
        let payments = BuiltIn::find("payments").ok_or_else(|| wrong("no scenario".to_owned()))?;
        let scenario = payments.read(&sets).map_err(|problem| wrong(problem.to_string()))?;
        let subject = scenario.subject(policy).map_err(wrong)?;
        let method = Choice::Quick(Detail::Coarse).method(&scenario, &subject).map_err(wrong)?;
        let settings = Settings { runs: 1, seed: 1, threads: 1 };
        Ok(simulate(&method, &settings, watch).mean(Metric::PeakRatio))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetAsk {
    multiplier: f64,
}

/// The budget that keeps the load below a multiple of the calls.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct BudgetFigures {
    /// Retries for each call.
    ratio: f64,
    /// Retries as a share of all requests.
    share: f64,
    /// The line of a policy file.
    toml: String,
}

impl BudgetAsk {
    pub(crate) fn figures(&self) -> Result<BudgetFigures, ApiError> {
        let Self { multiplier } = *self;
        if !(multiplier > 1.0 && multiplier <= 2.0) {
            let why = "multiplier has to be above 1 and at most 2: a budget allows at most one retry for each call";
            return Err(ApiError::bad_request(why));
        }
        // Without the rounding errors of 1.1 - 1.
        let ratio = ((multiplier - 1.0) * 1e9).round() / 1e9;
        let toml = format!("budget = {{ window = {{ ratio = {ratio} }} }}");
        let policy: Result<Policy, _> = toml::from_str(&toml);
        let policy = policy.map_err(|wrong| ApiError::bad_request(wrong.to_string()))?;
        let ratio = policy.budget().ratio().unwrap_or(ratio);
        Ok(BudgetFigures { ratio, share: ratio / (1.0 + ratio), toml })
    }
}
