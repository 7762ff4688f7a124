//! Log lines on stderr, for people or for programs. Each event is one line.

use std::time::SystemTime;

use serde::Serialize;

use crate::clock;
use crate::text::sanitise;

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// A line for each retry and for each failure that is final
    Text,
    /// A JSON object per line for each event
    Json,
    /// Nothing
    None,
}

/// A line of text, with its line feed.
pub(crate) fn text_line(text: &str) -> String {
    format!("redial: {}\n", sanitise(text))
}

/// An event as a JSON object, with its line feed. `event` and `time` (seconds since 1970) come before the fields.
pub(crate) fn json_line(event: &str, fields: impl Serialize) -> String {
    #[derive(Serialize)]
    struct Event<'a, T: Serialize> {
        event: &'a str,
        time: f64,
        #[serde(flatten)]
        fields: T,
    }
    let time = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = time.as_millis() as f64 / 1e3;
    let line = serde_json::to_string(&Event { event, time, fields });
    // Fields are objects, so this does not fail.
    line.unwrap_or_default() + "\n"
}
