//! Recording every call through the `metrics` facade would cost more than the call. So calls update our own counters, and
//! the totals are published to the installed recorder at intervals.
//!
//! A histogram accepts only values, not totals: it gets the mean of what a bucket gained since the last publish, as often
//! as the bucket gained. An exporter with the same bounds ([`buckets`]) then shows the same counts and sums as if every
//! value had been recorded; with other bounds, values are off by at most the width of a bucket.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use redial_core::{Stop, Time};

use super::counts::{self, Sums};
use super::meter::Meter;
use super::names::{self, MetricDescription};
use super::server::ServerMeter;
use super::snapshot::GuardSums;
use super::storm::Reading;
use super::times::{BOUNDS, Bucket, SECONDS};
use crate::clock::{Ambient, Clock};

const METADATA: Metadata<'static> = Metadata::new("redial", Level::INFO, Some("redial"));

static PER_CALL: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0];

/// The histograms and the upper bounds of their buckets, for the exporter.
///
/// ```
/// use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
///
/// let mut exporter = PrometheusBuilder::new();
/// for (name, bounds) in redial::telemetry::buckets() {
///     exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), bounds).unwrap();
/// }
/// ```
pub fn buckets() -> [(&'static str, &'static [f64]); 4] {
    [
        (names::PER_CALL.name, &PER_CALL),
        (names::DELAY.name, &SECONDS),
        (names::DURATION.name, &SECONDS),
        (names::PARKED_TIME.name, &SECONDS),
    ]
}

type Publish = fn(&dyn Recorder);

/// What else is published, by the modules that count it.
static ALSO: Mutex<Vec<Publish>> = Mutex::new(Vec::new());

/// Publishes by `publish`, too, whenever the numbers of meters are published.
#[cfg(any(feature = "fleet", feature = "idempotency"))]
pub(crate) fn also(publish: Publish) {
    ALSO.lock().unwrap_or_else(PoisonError::into_inner).push(publish);
}

/// What has been published to one recorder, for programs that do not install a global recorder; see
/// [`Registry::publish_to`](super::Registry::publish_to).
#[derive(Default)]
pub struct Publisher {
    described: bool,
    upstreams: HashMap<String, Upstream>,
    servers: HashMap<String, [Counter; 2]>,
}

impl Publisher {
    pub(super) fn publish(
        &mut self,
        recorder: &dyn Recorder,
        meters: &[(Meter, Reading)],
        servers: &[ServerMeter],
    ) {
        if !std::mem::replace(&mut self.described, true) {
            names::describe(recorder);
        }
        let also = ALSO.lock().unwrap_or_else(PoisonError::into_inner).clone();
        also.into_iter().for_each(|publish| publish(recorder));
        for (meter, reading) in meters {
            let make = || Upstream::new(recorder, meter.upstream());
            known(&mut self.upstreams, meter.upstream(), make).publish(recorder, meter, reading);
        }
        for server in servers {
            let attempt = |attempt| {
                let labels = [("server", server.server()), ("attempt", attempt)];
                recorder.register_counter(&key(names::SERVED, &labels), &METADATA)
            };
            let make = || [attempt("first"), attempt("retry")];
            set(known(&mut self.servers, server.server(), make), &server.requests());
        }
    }
}

fn known<'a, T>(
    all: &'a mut HashMap<String, T>,
    name: &str,
    make: impl FnOnce() -> T,
) -> &'a mut T {
    all.entry(name.to_owned()).or_insert_with(make)
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// The handles of one upstream in the recorder.
struct Upstream {
    calls: Vec<Counter>,
    attempts: Counter,
    retries: Vec<Counter>,
    stops: Vec<Counter>,
    exhausted: Counter,
    moved: Vec<Counter>,
    hints: Vec<Counter>,
    nonstandard_hints: Counter,
    per_call: PublishedHistogram,
    delays: PublishedHistogram,
    parked_time: PublishedHistogram,
    answered: PublishedHistogram,
    failed: PublishedHistogram,
    in_flight: Gauge,
    parked: Gauge,
    amplification: Gauge,
    multiplier: Gauge,
    level: Gauge,
    /// Set once there is a budget.
    balance: Option<Gauge>,
    /// Set once there is a breaker.
    breaker: Option<Vec<Gauge>>,
}

const STATES: [&str; 3] = ["closed", "open", "half-open"];

impl Upstream {
    fn new(recorder: &dyn Recorder, upstream: &str) -> Self {
        let own = |metric| key(metric, &[("upstream", upstream)]);
        let with = |metric, name, value| key(metric, &[("upstream", upstream), (name, value)]);
        let counter = |key: Key| recorder.register_counter(&key, &METADATA);
        let counters = |metric, name, values: &[&'static str]| {
            values.iter().map(|value| counter(with(metric, name, *value))).collect::<Vec<_>>()
        };
        let gauge = |metric| recorder.register_gauge(&own(metric), &METADATA);
        let histogram =
            |key: Key| PublishedHistogram::new(recorder.register_histogram(&key, &METADATA));
        let reasons: Vec<_> = (0..counts::REASONS).map(counts::reason).collect();
        Self {
            calls: counters(names::CALLS, "origin", &["fresh", "retried"]),
            attempts: counter(own(names::ATTEMPTS)),
            retries: counters(names::RETRIES, "reason", &reasons),
            stops: counters(names::STOPS, "reason", &Stop::ALL.map(Stop::name)),
            exhausted: counter(own(names::EXHAUSTED)),
            moved: counters(names::BREAKER_MOVED, "to", &STATES),
            hints: counters(names::HINTS, "result", &["honoured", "ignored", "unreadable"]),
            nonstandard_hints: counter(own(names::NONSTANDARD_HINTS)),
            per_call: histogram(own(names::PER_CALL)),
            delays: histogram(own(names::DELAY)),
            parked_time: histogram(own(names::PARKED_TIME)),
            answered: histogram(with(names::DURATION, "outcome", "success")),
            failed: histogram(with(names::DURATION, "outcome", "failure")),
            in_flight: gauge(names::INFLIGHT),
            parked: gauge(names::PARKED),
            amplification: gauge(names::AMPLIFICATION),
            multiplier: gauge(names::MULTIPLIER),
            level: gauge(names::LEVEL),
            balance: None,
            breaker: None,
        }
    }

    fn publish(&mut self, recorder: &dyn Recorder, meter: &Meter, reading: &Reading) {
        let sums = meter.0.counts.sum();
        self.count(&sums);
        self.in_flight.set(sums.in_flight as f64);
        self.amplification.set(reading.flow.amplification().unwrap_or(1.0));
        self.multiplier.set(reading.flow.multiplier().unwrap_or(1.0));
        self.level.set(f64::from(reading.level as u8));
        self.publish_guards(recorder, meter, Ambient::now());
    }

    fn count(&mut self, sums: &Sums) {
        set(&self.calls, &sums.calls);
        self.attempts.absolute(sums.attempts);
        set(&self.retries, &sums.retries);
        set(&self.stops, &sums.stops);
        self.exhausted.absolute(sums.exhausted);
        set(&self.moved, &sums.moved);
        set(&self.hints, &sums.hints);
        self.nonstandard_hints.absolute(sums.nonstandard_hints);
        let last = sums.per_call.len() - 1;
        let attempts = |index| (index as u64, if index < last { index as u64 } else { u64::MAX });
        self.per_call.update(&sums.per_call, 1.0, attempts);
        for (histogram, buckets) in [
            (&mut self.delays, &sums.delays),
            (&mut self.parked_time, &sums.parked),
            (&mut self.answered, &sums.answered),
            (&mut self.failed, &sums.failed),
        ] {
            histogram.update(buckets, 1e9, range);
        }
    }

    /// Publishes the sum of all budgets, each counted once, and the numbers of parked calls and of breakers in each state.
    fn publish_guards(&mut self, recorder: &dyn Recorder, meter: &Meter, now: Time) {
        let GuardSums { balance, breakers, parked } = GuardSums::of(meter, now);
        self.parked.set(parked as f64);
        let gauge = |metric, more: &[(&'static str, &'static str)]| {
            let labels = [&[("upstream", meter.upstream())], more].concat();
            recorder.register_gauge(&key(metric, &labels), &METADATA)
        };
        if let Some(balance) = balance {
            self.balance.get_or_insert_with(|| gauge(names::BALANCE, &[])).set(balance as f64);
        }
        if let Some(states) = breakers {
            let make = || STATES.map(|state| gauge(names::BREAKER, &[("state", state)])).to_vec();
            let gauges = self.breaker.get_or_insert_with(make);
            gauges.iter().zip(states).for_each(|(gauge, breakers)| gauge.set(f64::from(breakers)));
        }
    }
}

/// A histogram, and what has been recorded in it.
struct PublishedHistogram {
    histogram: Histogram,
    recorded: Vec<Bucket>,
}

impl PublishedHistogram {
    fn new(histogram: Histogram) -> Self {
        Self { histogram, recorded: Vec::new() }
    }

    /// `range` returns the least and the greatest value of a bucket. Values are divided by `unit`.
    fn update(&mut self, buckets: &[Bucket], unit: f64, range: impl Fn(usize) -> (u64, u64)) {
        self.recorded.resize(buckets.len(), Bucket::default());
        for (index, (bucket, recorded)) in buckets.iter().zip(&mut self.recorded).enumerate() {
            let gained = bucket.count.saturating_sub(recorded.count);
            if gained == 0 {
                continue;
            }
            // The sum may already include durations that are not counted yet, so that the mean lies outside of the
            // bucket. The rest follows with the next publish.
            let (least, most) = range(index);
            let mean = (bucket.sum.saturating_sub(recorded.sum) / gained).clamp(least, most);
            self.histogram
                .record_many(mean as f64 / unit, usize::try_from(gained).unwrap_or(usize::MAX));
            recorded.count += gained;
            recorded.sum = recorded.sum.saturating_add(mean.saturating_mul(gained));
        }
    }
}

/// The durations that fall into a bucket, in nanoseconds.
fn range(bucket: usize) -> (u64, u64) {
    let least = bucket.checked_sub(1).map_or(0, |below| BOUNDS[below].as_nanos() + 1);
    (least, BOUNDS.get(bucket).map_or(u64::MAX, |bound| bound.as_nanos()))
}

fn set(counters: &[Counter], values: &[u64]) {
    for (counter, value) in counters.iter().zip(values) {
        counter.absolute(*value);
    }
}

fn key(metric: MetricDescription, labels: &[(&'static str, &str)]) -> Key {
    let label = |(name, value): &(&'static str, &str)| Label::new(*name, (*value).to_owned());
    Key::from_parts(metric.name, labels.iter().map(label).collect::<Vec<_>>())
}
