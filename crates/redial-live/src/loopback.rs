use redial_core::Span;
use redial_sim::Scenario;

use crate::caller::Once;
use crate::live::run;
use crate::record::Ended;
use crate::setting::{Error, LiveScenario};

/// A few calls of 5 ms each, for 300 ms.
const QUIET: &str = r#"
title = "A backend without a queue"
duration = "300ms"
policies = ["no-retry"]
clients = { arrivals = { closed = { callers = 10, think = { exponential = "20ms" } } } }
backend = { service = "5ms" }
"#;

/// How much longer than its work a call takes on this machine, as a median: loopback, the threads on either side,
/// and the timer of the server, which rounds up to a millisecond. A simulation should use half of it as the latency
/// of each direction.
///
/// # Errors
///
/// Loopback traffic is not possible.
pub fn round_trip() -> Result<Span, Error> {
    let quiet = Scenario::read(QUIET, &[]).unwrap_or_else(|problem| unreachable!("{problem}"));
    let live = run(LiveScenario::of(&quiet)?, |_| Once)?;
    let work = Span::from_nanos_f64(quiet.backend.service.mean());
    let mut more: Vec<Span> = live.log().ended.iter().map(Ended::took).collect();
    more.sort_unstable();
    Ok(more.get(more.len() / 2).map_or(Span::ZERO, |took| *took - work))
}
