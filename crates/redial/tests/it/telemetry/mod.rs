//! What calls tell of themselves.

mod logs;
mod otel;
mod otel_grpc;
mod otel_http;
mod otlp;
mod spans;
