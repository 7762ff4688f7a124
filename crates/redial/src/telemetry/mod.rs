//! What calls tell of themselves.

#[cfg(feature = "tracing")]
mod logs;
#[cfg(feature = "otel")]
pub(crate) mod otel;

#[cfg(feature = "tracing")]
pub use logs::Logs;
#[cfg(feature = "otel")]
pub use otel::Otel;
