//! What the program around a proxy provides.

use std::path::PathBuf;
use std::sync::Arc;

use redial_policy::file::File;

use crate::sockets::Sockets;

/// What the program around a proxy provides.
#[derive(Default)]
pub struct Options {
    /// Listeners that were opened before this process started.
    pub sockets: Sockets,
    /// Where the file comes from, if its changes are to be followed.
    pub source: Option<Source>,
    /// Receives the access log and events, on threads that serve no requests.
    pub log: Option<Arc<Log>>,
    /// Renders all metrics of the process, if the program has a recorder of its own. The proxy adds those of endpoints.
    pub metrics: Option<Arc<RenderMetrics>>,
}

/// Receives a line of log.
pub type Log = dyn Fn(Line) + Send + Sync;

/// Publishes and renders metrics in the text format of Prometheus.
pub type RenderMetrics = dyn Fn() -> String + Send + Sync;

/// Something to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A request, in the format of the file, with a line feed.
    Access(String),
    /// A change of the proxy's state.
    Event {
        /// A word that does not change.
        name: &'static str,
        /// One sentence.
        message: String,
    },
}

/// A file that may change.
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Reads and checks it. The error is shown as it is.
    pub read: Box<dyn Fn() -> Result<File, String> + Send + Sync>,
}
