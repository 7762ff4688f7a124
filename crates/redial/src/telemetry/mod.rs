//! What calls tell of themselves.

#[cfg(feature = "otel")]
pub(crate) mod otel;

#[cfg(feature = "otel")]
pub use otel::Otel;
