//! The retry metrics of gRPC clients, as in the gRPC proposals A66 and A96.

use std::borrow::Cow;
use std::sync::OnceLock;

use opentelemetry::metrics::{Histogram, Meter};
use opentelemetry::{KeyValue, global};
use redial_core::Span;

use super::scope;

/// The metrics of one channel.
pub(super) struct Grpc {
    target: Cow<'static, str>,
    meter: Option<Meter>,
    instruments: OnceLock<Instruments>,
}

struct Instruments {
    retries: Histogram<u64>,
    transparent_retries: Histogram<u64>,
    hedges: Histogram<u64>,
    retry_delay: Histogram<f64>,
}

/// The latency buckets of A66.
const LATENCY: [f64; 41] = [
    0.0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005,
    0.006, 0.008, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16,
    0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

impl Grpc {
    pub(super) fn new(target: Cow<'static, str>, meter: Option<Meter>) -> Self {
        Self { target, meter, instruments: OnceLock::new() }
    }

    /// The host and port of the target, if it has them.
    pub(super) fn server(&self) -> Option<(&str, u16)> {
        let (_, path) = self.target.rsplit_once('/').unwrap_or(("", &self.target));
        let (host, port) = path.rsplit_once(':')?;
        Some((host, port.parse().ok()?))
    }

    /// Records one call. Counts of zero are not recorded.
    pub(super) fn record(&self, method: &str, tally: &Tally) {
        let to = self.instruments.get_or_init(|| Instruments::new(self.meter.as_ref()));
        let labels = [
            KeyValue::new("grpc.method", method.to_owned()),
            KeyValue::new("grpc.target", self.target.clone()),
        ];
        for (count, histogram) in [
            (tally.retries, &to.retries),
            (tally.transparent, &to.transparent_retries),
            (tally.hedges, &to.hedges),
        ] {
            if count > 0 {
                histogram.record(count, &labels);
            }
        }
        to.retry_delay.record(tally.idle.as_secs_f64(), &labels);
    }
}

impl Instruments {
    fn new(meter: Option<&Meter>) -> Self {
        let global = || global::meter_with_scope(scope());
        let meter = meter.cloned().unwrap_or_else(global);
        let count = |name: &'static str, unit: &'static str, what: &'static str, most: &[f64]| {
            let instrument = meter.u64_histogram(name).with_unit(unit).with_description(what);
            instrument.with_boundaries(most.to_vec()).build()
        };
        let few = [1.0, 2.0, 3.0, 4.0, 5.0];
        let several = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0];
        Self {
            retries: count(
                "grpc.client.call.retries",
                "{retry}",
                "Number of retries during the client call.",
                &few,
            ),
            transparent_retries: count(
                "grpc.client.call.transparent_retries",
                "{transparent_retry}",
                "Number of transparent retries during the client call.",
                &several,
            ),
            hedges: count(
                "grpc.client.call.hedges",
                "{hedge}",
                "Number of hedges during the client call.",
                &few,
            ),
            retry_delay: meter
                .f64_histogram("grpc.client.call.retry_delay")
                .with_unit("s")
                .with_description(
                    "Total time of delay while there is no active attempt during the client call.",
                )
                .with_boundaries(LATENCY.to_vec())
                .build(),
        }
    }
}

/// The retries of one call, as gRPC counts them.
#[derive(Default)]
pub(super) struct Tally {
    retries: u64,
    hedges: u64,
    transparent: u64,
    /// The time between attempts without one in flight.
    idle: Span,
}

impl Tally {
    pub(super) fn sent(
        &mut self,
        number: u32,
        waited: Option<Span>,
        hedge: bool,
        transparent: bool,
    ) {
        self.transparent += u64::from(transparent);
        self.hedges += u64::from(hedge);
        self.retries += u64::from(number > 1 && !hedge && !transparent);
        self.idle += waited.unwrap_or_default();
    }
}
