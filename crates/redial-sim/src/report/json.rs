//! The report as JSON. The order of the fields is that of the documentation. The same input gives the same bytes,
//! except for `wall_ms`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Case, Report, SimulationSetup};
use crate::measure::{Engine, Metric, Series, Summary};

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        question(&mut map, &self.question)?;
        let results = self.cases.iter().map(|case| Answer {
            policy: Some(&case.subject.name),
            summary: &case.summary,
            sentence: self.sentence(case),
            wanted: self.question.runs,
            series: self.series,
        });
        map.serialize_entry("verdict", &self.verdict())?;
        map.serialize_entry("servers", &self.scenario.backend.servers.map(|servers| servers.0))?;
        map.serialize_entry("results", &results.collect::<Vec<_>>())?;
        let events: u64 = self.cases.iter().map(|Case { summary, .. }| summary.events).sum();
        map.serialize_entry("events", &events)?;
        map.serialize_entry("wall_ms", &self.wall_ms)?;
        map.end()
    }
}

pub(super) fn question<M: SerializeMap>(
    map: &mut M,
    question: &SimulationSetup<'_>,
) -> Result<(), M::Error> {
    map.serialize_entry("scenario", question.name)?;
    map.serialize_entry("seed", &question.seed)?;
    map.serialize_entry("runs", &question.runs)?;
    map.serialize_entry("engine", question.engine.map_or("mixed", Engine::name))
}

/// The results of one policy, or of one cell of a sweep.
pub(super) struct Answer<'a> {
    pub(super) policy: Option<&'a str>,
    /// What the figures of a policy mean.
    pub(super) sentence: Option<String>,
    pub(super) summary: &'a Summary,
    /// The requested number of runs. A smaller actual number is included.
    pub(super) wanted: u32,
    pub(super) series: bool,
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(policy) = self.policy {
            map.serialize_entry("policy", policy)?;
            map.serialize_entry("sentence", &self.sentence)?;
        }
        let summary = self.summary;
        if summary.runs < self.wanted {
            map.serialize_entry("runs", &summary.runs)?;
        }
        for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::Collapse) {
            let spread = summary.value(metric);
            map.serialize_entry(metric.name(), &spread.map(|spread| spread.mean))?;
            map.serialize_entry(&format!("{metric}_sd"), &spread.map(|spread| spread.sd))?;
            if metric == Metric::Duplicates {
                collapse(&mut map, summary)?;
            }
        }
        map.serialize_entry("engine", summary.engine.name())?;
        map.serialize_entry("scale", &summary.engine.scale())?;
        map.serialize_entry("notes", &summary.notes)?;
        map.serialize_entry("events", &summary.events)?;
        if self.series {
            map.serialize_entry("series", &Curves(&summary.series))?;
        }
        map.end()
    }
}

fn collapse<M: SerializeMap>(map: &mut M, summary: &Summary) -> Result<(), M::Error> {
    let known = (summary.runs > 0).then_some(summary.collapse);
    let runs = f64::from(summary.runs);
    // Of a single run, as for the other figures.
    let sd = |share: f64| (share * (1.0 - share) * runs / (runs - 1.0).max(1.0)).sqrt();
    map.serialize_entry("collapse", &known.map(|share| share.value))?;
    map.serialize_entry("collapse_sd", &known.map(|share| sd(share.value)))?;
    map.serialize_entry("collapse_low", &known.map(|share| share.low))?;
    map.serialize_entry("collapse_high", &known.map(|share| share.high))
}

struct Curves<'a>(&'a Series);

impl Serialize for Curves<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("window_ms", &self.0.window_ms)?;
        self.0.rows().iter().try_for_each(|(name, row)| map.serialize_entry(name, row))?;
        map.end()
    }
}
