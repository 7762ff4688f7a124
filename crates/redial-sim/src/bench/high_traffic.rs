//! Random scenarios with few processes that have much traffic. Those of [`random_cells`](super::random_cells) have as
//! many calls in all, but most of their processes make few of them, and know little when the trouble starts.

use std::time::Duration;

use redial_core::Span;

use super::cell::{Cell, Family, MOST_CALLS, Suite};
use super::draw::{between, service_time, spread, whole_ms};
use crate::{Scenario, Stream};
use redial_policy::Problem;

const PROCESSES: [f64; 2] = [1.0, 20.0];
/// Calls a second of each process.
const RATE: [f64; 2] = [200.0, 5_000.0];
const LOAD: [f64; 2] = [0.5, 0.9];
const SERVICE_MS: [f64; 2] = [3.0, 50.0];
/// The queue, as a multiple of the servers.
const QUEUE: [f64; 2] = [1.0, 20.0];
const DEADLINE_MS: [f64; 2] = [1_000.0, 10_000.0];
/// The deadline, as a multiple of the timeout of an attempt.
const TIMEOUTS_PER_DEADLINE: [f64; 2] = [4.0, 8.0];
/// How long the trouble lasts. The number of lengths and the number of kinds have no common divisor, so consecutive
/// scenarios combine each kind with each length.
const LENGTHS: [Span; 6] = [
    Span::from_millis(50),
    Span::from_millis(200),
    Span::from_secs(1),
    Span::from_secs(3),
    Span::from_secs(10),
    Span::from_secs(60),
];
/// A process has made calls for at least this long when the trouble starts.
const LEAST_START: Span = Span::from_secs(5);

/// The table of what goes wrong without its times.
type Trouble = fn(&mut Stream) -> (&'static str, String);

const KINDS: [(&str, Trouble); 5] = [
    ("refused", |_| ("outage", "answer = \"connect\"".to_owned())),
    ("outage", |_| ("outage", "answer = 503".to_owned())),
    ("errors", |it| ("brownout", format!("share = {:.2}\nanswer = 503", between(it, 0.2, 0.8)))),
    ("hang", |_| ("outage", "answer = \"hang\"".to_owned())),
    ("capacity-loss", |it| ("capacity_loss", format!("share = {:.2}", between(it, 0.3, 0.95)))),
];

/// The cells of `count` random scenarios in which each process makes at least 200 calls a second: each in both
/// families, with the same patience.
///
/// # Errors
///
/// A scenario is invalid.
pub fn high_traffic_cells(count: u32, seed: u64) -> Result<Vec<Cell>, Problem> {
    let mut cells = Vec::new();
    for number in 0..count {
        let (kind, trouble) = KINDS[number as usize % KINDS.len()];
        let length = LENGTHS[number as usize % LENGTHS.len()];
        let mut stream = Stream::new(seed).of(u64::from(number));
        let deadline_ms = spread(&mut stream, DEADLINE_MS);
        let timeout_ms =
            deadline_ms / between(&mut stream, TIMEOUTS_PER_DEADLINE[0], TIMEOUTS_PER_DEADLINE[1]);
        let deadline = whole_ms(deadline_ms);
        let text = text(&mut stream, kind, trouble, length, deadline);
        let scenario = Scenario::read(&text, &[])?;
        cells.extend(Family::ALL.map(|family| Cell {
            name: format!("{kind} {length} {number}"),
            kind,
            suite: Suite::HighTraffic,
            scenario: scenario.clone(),
            text: text.clone(),
            deadline,
            timeout: (family == Family::Timeout).then_some(whole_ms(timeout_ms)),
        }));
    }
    Ok(cells)
}

fn text(
    stream: &mut Stream,
    kind: &str,
    trouble: Trouble,
    length: Span,
    deadline: Duration,
) -> String {
    let deadline = Span::from(deadline);
    let start = LEAST_START.max(deadline);
    let duration = start + length + 2 * deadline;
    // A longer run has fewer processes with fewer calls, so that it can be simulated call by call.
    let most_rate = MOST_CALLS / duration.as_secs_f64();
    let most = (most_rate / RATE[0]).min(PROCESSES[1]);
    let processes = spread(stream, [PROCESSES[0], most + 1.0]).min(most) as u32;
    let each = spread(stream, [RATE[0], RATE[1].min(most_rate / f64::from(processes))]);
    let rate = each * f64::from(processes);
    let service_ms = spread(stream, SERVICE_MS);
    let busy = rate * service_ms / 1e3;
    let wanted = busy / between(stream, LOAD[0], LOAD[1]);
    let least = (busy / LOAD[1]).ceil();
    let servers = wanted.round().clamp(least, (busy / LOAD[0]).floor().max(least));
    let queue = (spread(stream, QUEUE) * servers) as u32;
    let service = service_time(stream, service_ms);
    let (table, fields) = trouble(stream);
    format!(
        "title = \"{kind}\"\nduration = \"{duration}\"\npolicies = [\"no-retry\"]\n\n\
         [clients]\ninstances = {processes}\narrivals = {{ poisson = {{ rate = {rate:.3} }} }}\n\n\
         [backend]\nservers = {servers}\nservice = {service}\nqueue = {queue}\n\n\
         [{table}]\nstart = \"{start}\"\nduration = \"{length}\"\n{fields}\n"
    )
}
