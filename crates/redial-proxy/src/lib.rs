//! Retries, budgets and deadlines for services in any language: a proxy beside the service, which forwards its requests
//! under the policies of a file.
//!
//! The modules are in the order in which a request meets them, and each depends only on those below it. There is no
//! retry loop here: [`redial::http::RetryLayer`] retries.

mod run;

mod admin;

mod caller;

mod shared;

mod access_log;

mod config;

mod layers;

mod responses;

mod upstream;

mod request_body;

mod headers;

mod net;

mod clock;
mod error;
mod limits;
mod log;

pub use admin::AdminPages;
pub use admin::metrics::{RenderMetrics, prometheus_builder};
pub use admin::page_server::PageServer;
pub use caller::passed_sockets::Sockets;
pub use error::StartError;
pub use log::{Line, Log};
pub use run::options::{Options, Source};
pub use run::proxy::Proxy;
