//! Retries, budgets and deadlines for services in any language: a proxy beside the service, which forwards its requests
//! under the policies of a file.
//!
//! The walk of a request goes one way: `threads`, `listen`, `serve`, `guard`, `route`, `stack`, `balance`, `pool`, `dial`.
//! There is no retry loop here: [`redial::http::RetryLayer`] retries.

mod access;
mod admin;
mod answer;
mod balance;
mod body;
mod clock;
mod control;
mod dial;
mod endpoint;
mod error;
mod guard;
mod io;
mod limits;
mod listen;
mod metrics;
mod names;
mod options;
mod pool;
mod proxy;
mod pulse;
mod resolve;
mod route;
mod serve;
mod shared;
mod snapshot;
mod sockets;
mod stack;
mod state;
mod store;
mod swap;
mod targets;
mod tend;
mod threads;
mod timer;
mod tls;
mod tunnel;
mod wire;

pub use admin::AdminPages;
pub use error::StartError;
pub use options::{Line, Log, Options, RenderMetrics, Source};
pub use proxy::Proxy;
pub use sockets::Sockets;
