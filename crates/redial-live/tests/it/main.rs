//! Real traffic, on a small scale. Assertions must not depend on the speed of the machine: a reply may be late at
//! any time, but never early.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod backend;
mod endless;
mod figures;
mod hedge;
mod lag;
mod setting;
mod traffic;

use redial_core::{Span, Time};
use redial_live::{Error, LiveScenario};
use redial_sim::Scenario;
use redial_sim::scenario::Set;

const MS: Span = Span::MILLISECOND;

fn at(ms: u64) -> Time {
    Time::at(ms * MS)
}

/// A few callers that call often, for 300 ms.
const CALM: &str = r#"
title = "Twenty callers"
duration = "300ms"
policies = ["no-retry"]
clients = { arrivals = { closed = { callers = 20, think = { exponential = "20ms" } } } }
backend = { servers = 8, service = "8ms", queue = 200 }
"#;

fn scenario(sets: &[&str]) -> Scenario {
    let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
    Scenario::read(CALM, &sets).unwrap()
}

fn try_setting(sets: &[&str]) -> Result<LiveScenario, Error> {
    LiveScenario::of(&scenario(sets))
}

/// With these parameters set to other values.
fn setting(sets: &[&str]) -> LiveScenario {
    try_setting(sets).unwrap()
}
