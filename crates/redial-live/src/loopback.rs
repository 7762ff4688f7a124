use redial_core::Nanos;
use redial_sim::Scenario;

use crate::caller::Once;
use crate::live::run;
use crate::record::Ended;
use crate::setting::{Error, Setting};

/// Few calls, each of 5 ms, for a third of a second.
const QUIET: &str = r#"
title = "A backend that nobody has to wait for"
duration = "300ms"
policies = ["no-retry"]
clients = { arrivals = { closed = { callers = 10, think = { exponential = "20ms" } } } }
backend = { service = "5ms" }
"#;

/// How much longer than the work itself a call takes on this machine, half of the time: the way there and back, the
/// threads on either side, and the timer of the server, which rounds up to a millisecond. A simulation is to have
/// half of it as the latency of either way.
///
/// # Errors
///
/// There is no traffic on loopback.
pub fn round_trip() -> Result<Nanos, Error> {
    let quiet = Scenario::read(QUIET, &[]).unwrap_or_else(|problem| unreachable!("{problem}"));
    let live = run(Setting::of(&quiet)?, |_| Once)?;
    let work = quiet.backend.service.mean() as Nanos;
    let mut more: Vec<Nanos> = live.log().ended.iter().map(Ended::took).collect();
    more.sort_unstable();
    Ok(more.get(more.len() / 2).map_or(0, |took| took.saturating_sub(work)))
}
