//! What the program around a proxy provides.

use std::path::PathBuf;
use std::sync::Arc;

use redial_policy::file::File;

use crate::admin::metrics::RenderMetrics;
use crate::caller::passed_sockets::Sockets;
use crate::log::Log;

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

/// A file that may change.
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Reads and checks it. The error is shown as it is.
    pub read: Box<dyn Fn() -> Result<File, String> + Send + Sync>,
}
