//! Metrics, traces and logs of calls.

pub(crate) mod logs;
mod meter;
mod meter_http;
mod otel;
mod otel_grpc;
mod otel_http;
mod otlp;
mod park;
mod publish;
pub(crate) mod scrape;
mod snapshot;
mod spans;
mod storm;
mod stress;
