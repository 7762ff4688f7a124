//! Serialises lengths of time as milliseconds, and `None` as `null`.

use std::time::Duration;

use redial_core::{Span, WorstCase};
use serde::{Serialize, Serializer};

struct Ms(Span);

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0.as_millis_f64())
    }
}

pub(super) fn one<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    Ms(*span).serialize(to)
}

pub(super) fn maybe<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
    span.map(Ms).serialize(to)
}

fn limit<S: Serializer>(limit: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    maybe(&limit.map(Span::from), to)
}

pub(super) fn lists<S: Serializer>(lists: &[Vec<Span>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(lists.iter().map(|list| list.iter().copied().map(Ms).collect::<Vec<_>>()))
}

#[derive(Serialize)]
#[serde(remote = "WorstCase")]
pub(super) struct WorstCaseMs {
    attempts: u32,
    in_flight: u32,
    #[serde(rename = "elapsed_ms", serialize_with = "limit")]
    elapsed: Option<Duration>,
    #[serde(rename = "elapsed_with_hints_ms", serialize_with = "limit")]
    elapsed_with_hints: Option<Duration>,
}
