//! Serialises nanoseconds as milliseconds, and [`NEVER`] as `null`.

use std::time::Duration;

use redial_core::{NEVER, Nanos, WorstCase, nanos_or_never};
use serde::{Serialize, Serializer};

struct Ms(Nanos);

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            NEVER => to.serialize_none(),
            nanos => to.serialize_f64(nanos as f64 / 1e6),
        }
    }
}

pub(super) fn one<S: Serializer>(nanos: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    Ms(*nanos).serialize(to)
}

pub(super) fn maybe<S: Serializer>(nanos: &Option<Nanos>, to: S) -> Result<S::Ok, S::Error> {
    nanos.map(Ms).serialize(to)
}

fn limit<S: Serializer>(limit: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    Ms(nanos_or_never(*limit)).serialize(to)
}

pub(super) fn lists<S: Serializer>(lists: &[Vec<Nanos>], to: S) -> Result<S::Ok, S::Error> {
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
