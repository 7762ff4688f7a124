//! What does a retry storm look like, and is there one now? A page for people who do not read metrics: the live state of a
//! sidecar and a queue, and a playground that simulates policies.
//!
//! The server decides and simulates; the page (`app/`, built into `dist/`) only shows. Each part has its own routes under
//! `/api`: `playground`, `exercise`, `policies`, `queue` and `live`.

mod about;
mod app;
mod assets;
mod body;
mod clock;
mod connection;
mod demo;
mod error;
mod exercise;
mod hello;
mod hosts;
mod live;
mod playground;
mod policies;
mod queue;
mod review;
mod security;
mod server;
mod token;
#[cfg(feature = "typescript")]
mod typescript;

pub use app::App;
pub use demo::{Demo, DemoError, DemoFault};
pub use hosts::check_host;
pub use live::{
    Live, LiveState, Moment, Sample, Stopped, StormVerdict, UpstreamSample, UpstreamState,
};
pub use server::{BindError, Listen, Web};
pub use token::Token;
#[cfg(feature = "typescript")]
pub use typescript::typescript;
