//! What does a retry storm look like, and is there one now? A page for people who do not read metrics: the live state of a
//! sidecar and a queue, and a playground that simulates policies.
//!
//! The server decides and simulates; the page (`app/`, built into `dist/`) only shows. Each part has its own routes under
//! `/api`: `playground`, `exercise`, `policies`, `queue` and `live`.

// In the order in which a request meets them:
mod server;

mod connection;

mod security;

mod hosts;
mod token;

mod assets;

// The parts of the page:
mod hello;

mod live;

mod demo;

mod playground;

mod exercise;

mod policies;

mod queue;

// What they share:
mod about;
mod app;
mod body;
mod clock;
mod error;
mod review;
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
