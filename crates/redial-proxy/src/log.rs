//! What the proxy logs.

/// Receives a line of log.
pub type Log = dyn Fn(Line) + Send + Sync;

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
