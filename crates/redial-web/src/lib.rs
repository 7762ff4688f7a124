//! What does a retry storm look like, and is there one now? A page for people who do not read metrics: the live state of a
//! sidecar and a queue, and a playground that simulates policies.
//!
//! The server decides and simulates; the page (`app/`, built into `dist/`) only shows. Each part has its own routes under
//! `/api`: `playground`, `exercise`, `policies`, `queue` and `live`.

mod app;
mod assets;
mod clock;
mod error;
mod exercise;
mod live;
mod playground;
mod policies;
mod queue;
mod review;
mod security;
mod server;

pub use app::App;
pub use server::Web;
