//! Random scenarios, so that a policy cannot be tuned to the ones that are known.

use std::fmt::Write as _;
use std::time::Duration;

use redial_core::Span;

use super::cell::{Cell, Family, Suite};
use crate::scenario::Z99;
use crate::{Scenario, Stream};
use redial_policy::Problem;

/// A run has about this many calls at most: the number of servers, and with it the rate, is lowered until it does.
const MOST_CALLS: f64 = 15_000.0;
const LEAST_SERVERS: f64 = 5.0;
const LOAD: [f64; 2] = [0.3, 0.95];
const SERVERS: [f64; 2] = [LEAST_SERVERS, 500.0];
const SERVICE_MS: [f64; 2] = [5.0, 200.0];
/// The queue, as a multiple of what the servers work off while callers wait for an attempt.
const QUEUE: [f64; 2] = [0.5, 20.0];
const INSTANCES: [f64; 2] = [1.0, 1000.0];
/// The timeout of an attempt, as a multiple of the service time.
const TIMEOUT: [f64; 2] = [3.0, 50.0];
/// The deadline, as a multiple of the timeout.
const DEADLINE: [f64; 2] = [3.0, 10.0];
/// How long the trouble lasts, as a multiple of the deadline.
const TROUBLE: [f64; 2] = [0.2, 6.0];

/// What goes wrong, with a name.
type Kind = (&'static str, fn(&mut Draw) -> String);

const KINDS: [Kind; 17] = [
    ("random-errors", |it| it.brownout(0.05, 0.6, "503", 0.0)),
    ("refusals", |it| it.brownout(0.5, 1.0, "\"connect\"", 0.0)),
    ("hangs", |it| it.brownout(0.05, 1.0, "\"hang\"", 0.0)),
    ("capacity-loss", |it| {
        let share = it.between(0.3, 0.9);
        it.fault("capacity_loss", &format!("share = {share:.2}"))
    }),
    ("pause", |it| it.fault("pause", "")),
    ("spike", |it| {
        let factor = it.between(1.5, 4.0);
        it.fault("spike", &format!("factor = {factor:.2}"))
    }),
    ("cold-cache", |it| {
        let capacity = it.between(0.1, 0.6);
        it.fault("cold_cache", &format!("capacity = {capacity:.2}"))
    }),
    ("rate-limit", Draw::rate_limit),
    ("shard", |it| {
        it.shards = it.whole(4.0, 16.0);
        let answer = it.one_of(&["503", "\"hang\"", "\"connect\""]);
        it.fault("outage", &format!("shard = 0\nanswer = {answer}"))
    }),
    ("endpoint", |it| {
        it.endpoints = it.whole(2.0, 6.0);
        let answer = it.one_of(&["503", "\"hang\"", "\"connect\""]);
        it.fault("outage", &format!("endpoint = 0\nanswer = {answer}"))
    }),
    ("deploy", |it| {
        let share = it.between(0.1, 1.0);
        format!("[restart]\nstart = \"{}\"\nshare = {share:.2}\nburst = 5\n", it.start)
    }),
    ("lost-replies", |it| {
        it.lost_replies = it.between(0.01, 0.15);
        String::new()
    }),
    ("heavy-tail", |it| {
        it.heavy_tail = true;
        String::new()
    }),
    ("errors-and-capacity", |it| {
        let errors = it.brownout(0.05, 0.4, "503", 0.0);
        let share = it.between(0.2, 0.7);
        errors + &it.fault("capacity_loss", &format!("share = {share:.2}"))
    }),
    ("hangs-and-spike", |it| {
        let hangs = it.brownout(0.02, 0.2, "\"hang\"", 0.0);
        let factor = it.between(1.2, 2.0);
        hangs + &it.fault("spike", &format!("factor = {factor:.2}"))
    }),
    ("costly-errors", |it| it.brownout(0.05, 0.6, "503", 1.0)),
    ("shedding", |it| {
        it.sheds = true;
        let factor = it.between(1.3, 3.0);
        it.fault("spike", &format!("factor = {factor:.2}"))
    }),
];

/// The cells of `count` random scenarios: each in both families, with the same patience.
///
/// # Errors
///
/// A scenario is invalid.
pub fn random_cells(count: u32, seed: u64) -> Result<Vec<Cell>, Problem> {
    let mut cells = Vec::new();
    for number in 0..count {
        let (name, make) = KINDS[number as usize % KINDS.len()];
        let mut draw = Draw::new(Stream::new(seed).of(u64::from(number)));
        let trouble = make(&mut draw);
        let text = draw.text(name, &trouble);
        let scenario = Scenario::read(&text, &[])?;
        cells.extend(Family::ALL.map(|family| Cell {
            name: format!("{name} {number}"),
            kind: name,
            suite: Suite::Random,
            scenario: scenario.clone(),
            text: text.clone(),
            deadline: draw.deadline,
            timeout: (family == Family::Timeout).then_some(draw.timeout),
        }));
    }
    Ok(cells)
}

/// The conditions of a random scenario.
struct Draw {
    stream: Stream,
    load: f64,
    service_ms: f64,
    timeout: Duration,
    deadline: Duration,
    start: Span,
    trouble: Span,
    servers: u32,
    instances: u32,
    shards: u32,
    endpoints: u32,
    lost_replies: f64,
    heavy_tail: bool,
    sheds: bool,
    limit: Option<f64>,
}

impl Draw {
    fn new(stream: Stream) -> Self {
        let mut it = Self {
            stream,
            load: 0.0,
            service_ms: 0.0,
            timeout: Duration::ZERO,
            deadline: Duration::ZERO,
            start: Span::ZERO,
            trouble: Span::ZERO,
            servers: 0,
            instances: 0,
            shards: 1,
            endpoints: 1,
            lost_replies: 0.0,
            heavy_tail: false,
            sheds: false,
            limit: None,
        };
        it.load = it.between(LOAD[0], LOAD[1]);
        it.service_ms = it.spread(SERVICE_MS);
        let timeout_ms = it.service_ms * it.spread(TIMEOUT);
        let deadline_ms = timeout_ms * it.between(DEADLINE[0], DEADLINE[1]);
        it.timeout = whole_ms(timeout_ms);
        it.deadline = whole_ms(deadline_ms);
        let deadline = Span::from(it.deadline);
        it.start = deadline * 2;
        it.trouble = Span::from_nanos_f64(deadline.as_nanos_f64() * it.spread(TROUBLE));
        let most = MOST_CALLS / (it.load / it.service_ms * it.duration().as_nanos_f64() / 1e6);
        let servers = it.spread(SERVERS).min(most).max(LEAST_SERVERS);
        it.servers = servers as u32;
        it.instances = it.spread(INSTANCES) as u32;
        it
    }

    /// As long again as the trouble, and at least three times as long as callers wait.
    fn duration(&self) -> Span {
        self.start + 2 * self.trouble + 3 * Span::from(self.deadline)
    }

    /// Calls a second.
    fn rate(&self) -> f64 {
        self.load * f64::from(self.servers) * 1e3 / self.service_ms
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        between(&mut self.stream, low, high)
    }

    fn spread(&mut self, range: [f64; 2]) -> f64 {
        spread(&mut self.stream, range)
    }

    fn whole(&mut self, low: f64, high: f64) -> u32 {
        self.between(low, high + 1.0) as u32
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.stream.between(0, all.len() as u64 - 1) as usize]
    }

    fn brownout(&mut self, low: f64, high: f64, answer: &str, cost: f64) -> String {
        let share = self.between(low, high);
        let cost = if cost > 0.0 { format!("\ncost = {cost:.1}") } else { String::new() };
        self.fault("brownout", &format!("share = {share:.2}\nanswer = {answer}{cost}"))
    }

    fn rate_limit(&mut self) -> String {
        self.limit = Some(self.between(1.0, 1.3));
        let factor = self.between(1.3, 3.0);
        self.fault("spike", &format!("factor = {factor:.2}"))
    }

    fn fault(&self, name: &str, fields: &str) -> String {
        let (start, duration) = (self.start, self.trouble);
        format!("[{name}]\nstart = \"{start}\"\nduration = \"{duration}\"\n{fields}\n")
    }

    fn service(&mut self) -> String {
        let mean = self.service_ms;
        if self.heavy_tail {
            let times = self.between(8.0, 40.0);
            return lognormal(mean, times);
        }
        service_time(&mut self.stream, mean)
    }

    fn text(&mut self, name: &str, trouble: &str) -> String {
        let places = self.shards.max(self.endpoints);
        let servers = (self.servers / places).max(1);
        let patience_ms = Span::from(self.timeout).as_millis_f64();
        // A server that sheds has a short queue.
        let times = self.spread(QUEUE) * patience_ms / self.service_ms;
        let queue = f64::from(servers) * if self.sheds { 1.0 } else { times };
        // Servers were divided among the places, so the capacity may have changed by rounding.
        let rate = self.rate() * f64::from(servers * places) / f64::from(self.servers);
        let window = (self.duration() / 200).max(Span::MILLISECOND);
        let mut text = format!(
            "title = \"{name}\"\nduration = \"{}\"\nwindow = \"{window}\"\npolicies = [\"no-retry\"]\n\n\
             [clients]\ninstances = {}\narrivals = {{ poisson = {{ rate = {rate:.3} }} }}\n",
            self.duration(),
            self.instances,
        );
        if self.shards > 1 {
            text.push_str("keys = { uniform = { keys = 10000 } }\n");
        }
        let service = self.service();
        let _ = write!(
            text,
            "\n[backend]\nservers = {servers}\nservice = {service}\nqueue = {}\n",
            queue as u32
        );
        let more = [
            (self.shards > 1, format!("shards = {}\n", self.shards)),
            (self.endpoints > 1, format!("endpoints = {}\n", self.endpoints)),
            (self.lost_replies > 0.0, format!("lost_replies = {:.3}\n", self.lost_replies)),
            (self.sheds, format!("reject_cost = {:.2}\n", self.between(0.1, 0.3))),
        ];
        more.into_iter().filter(|(is_set, _)| *is_set).for_each(|(_, line)| text.push_str(&line));
        if let Some(limit) = self.limit {
            let limit = rate * limit;
            let after = Span::from(self.deadline) / 8;
            let _ = write!(
                text,
                "limit = {{ rate = {limit:.3}, burst = {} }}\nhint = {{ fixed = \"{after}\" }}\n",
                (limit / 10.0).max(1.0) as u32
            );
        }
        let _ = write!(text, "\n{trouble}");
        text
    }
}

pub(super) fn between(stream: &mut Stream, low: f64, high: f64) -> f64 {
    low + (high - low) * stream.unit()
}

/// Every order of magnitude is equally likely.
pub(super) fn spread(stream: &mut Stream, [low, high]: [f64; 2]) -> f64 {
    low * (high / low).powf(stream.unit())
}

/// One of three distributions with this mean, in milliseconds.
pub(super) fn service_time(stream: &mut Stream, mean: f64) -> String {
    match stream.between(0, 2) {
        0 => format!("\"{}\"", time(mean)),
        1 => format!("{{ exponential = \"{}\" }}", time(mean)),
        _ => lognormal(mean, 4.0),
    }
}

pub(super) fn whole_ms(ms: f64) -> Duration {
    Duration::from_millis((ms.round() as u64).max(1))
}

fn time(ms: f64) -> String {
    Span::from_nanos_f64(ms * 1e6).to_string()
}

/// With this mean, and a 99th percentile of this many times the median.
fn lognormal(mean: f64, times: f64) -> String {
    let sigma = times.ln() / Z99;
    let median = mean / (sigma * sigma / 2.0).exp();
    let (median, p99) = (time(median), time(median * times));
    format!("{{ lognormal = {{ median = \"{median}\", p99 = \"{p99}\" }} }}")
}
