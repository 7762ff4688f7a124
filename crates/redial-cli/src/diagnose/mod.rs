//! Is there a storm, and which layer causes it? A counter is the number of events since its process started; the
//! difference between two scrapes, some seconds apart, is what happens now.
//!
//! [`redial_core::storm`] alone defines what a storm is. This module does not wait and does no I/O: scrapes go in, a
//! [`Diagnosis`] comes out. It includes what could not be determined, so that a reader of "no storm" knows how certain
//! that is.

mod backlog;
mod names;
mod scrape;
mod symptom;
mod traffic;

use std::cmp::Reverse;

use redial_core::Span;
use redial_core::storm::{Flow, Level};

pub use scrape::Scrape;
pub use symptom::{ObservedSymptom, Symptom};

use scrape::Change;

/// The fewest attempts that can be called a storm: below it, some unlucky calls are enough for any ratio.
const FEW: u64 = 20;

/// What the name of a meter of workers begins with, where upstreams of the same process may be named like the queue.
pub const QUEUE_METER: &str = "queue ";

/// The kind of thing that a part of an endpoint's metrics describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagnosedKind {
    /// The requests that a Redial client sends to an upstream.
    Upstream,
    /// The requests that a Redial server receives.
    Server,
    /// The requests that an Envoy sends to a cluster.
    Cluster,
    /// A Redial queue.
    Queue,
    /// A budget that instances share.
    Fleet,
}

impl DiagnosedKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Upstream, Self::Server, Self::Cluster, Self::Queue, Self::Fleet];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::Queue => "queue",
            Self::Fleet => "fleet",
        }
    }

    /// The label that holds the name of the subject.
    fn label(self) -> &'static str {
        match self {
            Self::Cluster => "envoy_cluster_name",
            other => other.name(),
        }
    }
}

/// The findings about one upstream, server, cluster, queue or fleet.
#[derive(Clone, Debug)]
pub struct Diagnosed {
    /// Its kind.
    pub kind: DiagnosedKind,
    /// The value of its label.
    pub name: String,
    /// Its calls and attempts; `None` for kinds that make no calls.
    pub flow: Option<Flow>,
    /// Fresh calls relative to those of the baseline; `None` without a baseline.
    pub surge: Option<f64>,
    /// The multiplier that a queue's worker reports over its own, long window: a retry may come an hour after its job
    /// began, so that a ratio over some seconds means nothing.
    pub of_jobs: Option<f64>,
    /// The symptoms, the most important first.
    pub findings: Vec<ObservedSymptom>,
    /// What could not be determined about it.
    pub unknown: Vec<String>,
    /// Whether a counter has an impossible value, so that nothing follows from the counts.
    pub is_unreliable: bool,
}

impl Diagnosed {
    fn new(kind: DiagnosedKind, name: &str) -> Self {
        let (findings, unknown) = (Vec::new(), Vec::new());
        Self {
            kind,
            name: name.to_owned(),
            flow: None,
            surge: None,
            of_jobs: None,
            findings,
            unknown,
            is_unreliable: false,
        }
    }

    /// Records that a metric has an impossible value.
    fn mark_unreliable(&mut self, metric: &str, value: f64, why: &str) {
        self.is_unreliable = true;
        let why = format!("whether it is a storm: {metric} is {value}, which {why}");
        self.unknown.push(why);
    }

    /// Its level; `None` if no call began in that time, there were too few attempts to call it a storm, or the counts are
    /// unreliable.
    pub fn level(&self) -> Option<Level> {
        let flow = self.flow.filter(|flow| flow.calls > 0 && !self.is_unreliable)?;
        let level = self.of_jobs.map_or(flow.level(), |ratio| flow.level().min(Level::of(ratio)));
        (level == Level::Calm || flow.attempts >= FEW).then_some(level)
    }

    /// Whether it had no traffic, and there is nothing else to report.
    pub fn is_idle(&self) -> bool {
        let quiet = self.flow.is_some_and(|flow| flow.calls == 0 && flow.attempts == 0);
        quiet && self.findings.is_empty() && self.unknown.is_empty()
    }

    fn find(&mut self, symptom: Symptom, saw: impl Into<String>) {
        self.findings.push(ObservedSymptom::new(symptom, saw));
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The time between the two scrapes.
    pub over: Span,
    /// The worst first.
    pub subjects: Vec<Diagnosed>,
    /// What could not be determined about any of them.
    pub unknown: Vec<String>,
}

impl Diagnosis {
    /// The worst level; `None` if nothing could be judged.
    pub fn level(&self) -> Option<Level> {
        self.subjects.iter().filter_map(Diagnosed::level).max()
    }
}

/// Judges what happened between two scrapes. `before` is an earlier one: the time from it to `from` is the baseline.
pub fn diagnose(before: Option<&Scrape>, from: &Scrape, to: &Scrape) -> Diagnosis {
    let change = Change { from, to };
    let usual = before.map(|before| Change { from: before, to: from });
    let mut subjects = traffic::subjects(change, usual);
    subjects.extend(backlog::queues(change));
    subjects.extend(backlog::fleets(change));
    subjects.sort_by_cached_key(|subject| {
        let attempts = subject.flow.map_or(0, |flow| flow.attempts);
        (Reverse((subject.level(), !subject.findings.is_empty(), attempts)), subject.kind)
    });
    let mut unknown = unknown(&subjects, before.is_some());
    let repeated = from.repeated().max(to.repeated());
    if repeated > 0 {
        unknown.push(format!(
            "which of {repeated} duplicate samples is correct: the last one of each name and labels was taken"
        ));
    }
    Diagnosis { over: change.over(), subjects, unknown }
}

/// What these metrics cannot show for any subject.
fn unknown(subjects: &[Diagnosed], is_compared: bool) -> Vec<String> {
    let called = |subject: &&Diagnosed| subject.flow.is_some_and(|flow| flow.calls > 0);
    let called: Vec<_> = subjects.iter().filter(called).collect();
    let any = |test: &dyn Fn(&Diagnosed) -> bool| called.iter().any(|subject| test(subject));
    let is_envoy = |subject: &Diagnosed| subject.kind == DiagnosedKind::Cluster;
    let sees_no_retries = |subject: &Diagnosed| {
        !is_envoy(subject) && subject.flow.is_some_and(|flow| flow.inherited == 0)
    };
    let all = [
        (
            !called.is_empty() && !is_compared,
            "whether there are more calls than usual: --baseline 1m measures a minute before",
        ),
        (
            any(&sees_no_retries),
            "whether a layer above retries without an attempt header: only requests with one count as retries",
        ),
        (
            any(&is_envoy),
            "which requests to Envoy are retries of a layer above: it does not count requests by attempt, so they \
             count as calls",
        ),
        (!called.is_empty(), "what other instances do: each has its own endpoint"),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, what)| what.to_owned()).collect()
}
