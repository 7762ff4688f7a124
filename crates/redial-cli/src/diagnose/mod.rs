//! Is there a storm, and whose? Counters say how often something has ever happened. Two looks at them, some seconds
//! apart, say what happens now.
//!
//! What a storm is says [`redial_core::storm`], and nothing else does here. Nothing waits or reads here either: looks go
//! in, a [`Diagnosis`] comes out, with what could not be known in it, because whoever reads "no storm" wants to know how
//! sure that is.

mod names;
mod others;
mod scrape;
mod symptom;
mod traffic;

use std::cmp::Reverse;

use redial_core::Nanos;
use redial_core::storm::{Flow, Level};

pub use scrape::Scrape;
pub use symptom::{Finding, Symptom};

use scrape::Change;

/// Fewer attempts than this are no storm, whatever their ratio is: some unlucky calls are enough for one.
const FEW: u64 = 20;

/// What a part of an endpoint's metrics is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What a client of ours sends.
    Upstream,
    /// What a server of ours gets.
    Server,
    /// What an Envoy sends.
    Cluster,
    /// A queue of ours.
    Queue,
    /// A budget that instances share.
    Fleet,
}

impl Kind {
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

    /// The label that names one.
    fn label(self) -> &'static str {
        match self {
            Self::Cluster => "envoy_cluster_name",
            other => other.name(),
        }
    }
}

/// What was found about one of them.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// As its label says.
    pub name: String,
    /// What went through it; `None` for what makes no calls.
    pub flow: Option<Flow>,
    /// How many times the fresh calls of the time before there were; `None` without a time before.
    pub surge: Option<f64>,
    /// What a queue's program says about the multiplier over its own, long window: a retry of a job may come an hour after
    /// it, so that what comes in some seconds is no ratio.
    pub of_jobs: Option<f64>,
    /// What to do something about, the most important first.
    pub findings: Vec<Finding>,
    /// What could not be known about it.
    pub unknown: Vec<String>,
    /// Whether what was counted cannot be, so that nothing follows from it.
    pub is_unreliable: bool,
}

impl Subject {
    fn new(kind: Kind, name: &str) -> Self {
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

    /// Nothing can be said about it, because a metric has a value that it cannot have.
    fn distrust(&mut self, metric: &str, value: f64, may_be: &str) {
        self.is_unreliable = true;
        let why = format!("whether it is a storm: {metric} is {value}, which {may_be}");
        self.unknown.push(why);
    }

    /// How bad it is; `None` if nothing began in that time, too little was sent to call it a storm, or what was counted
    /// cannot be.
    pub fn level(&self) -> Option<Level> {
        let flow = self.flow.filter(|flow| flow.calls > 0 && !self.is_unreliable)?;
        let level = self.of_jobs.map_or(flow.level(), |ratio| flow.level().min(Level::of(ratio)));
        (level == Level::Calm || flow.attempts >= FEW).then_some(level)
    }

    /// Whether nothing went through it, and there is nothing else to say about it.
    pub fn is_idle(&self) -> bool {
        let quiet = self.flow.is_some_and(|flow| flow.calls == 0 && flow.attempts == 0);
        quiet && self.findings.is_empty() && self.unknown.is_empty()
    }

    fn find(&mut self, symptom: Symptom, saw: impl Into<String>) {
        self.findings.push(Finding::new(symptom, saw));
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// From the first look that counts to the last one.
    pub over: Nanos,
    /// The worst first.
    pub subjects: Vec<Subject>,
    /// What could not be known about any of them.
    pub unknown: Vec<String>,
}

impl Diagnosis {
    /// The worst that there is; `None` if nothing could be judged.
    pub fn level(&self) -> Option<Level> {
        self.subjects.iter().filter_map(Subject::level).max()
    }
}

/// Judges what happened between two looks. `before` is an earlier one than both: what happened from there to `from` is
/// what is usual.
pub fn diagnose(before: Option<&Scrape>, from: &Scrape, to: &Scrape) -> Diagnosis {
    let change = Change { from, to };
    let usual = before.map(|before| Change { from: before, to: from });
    let mut subjects = traffic::subjects(change, usual);
    subjects.extend(others::queues(change));
    subjects.extend(others::fleets(change));
    subjects.sort_by_cached_key(|subject| {
        let attempts = subject.flow.map_or(0, |flow| flow.attempts);
        (Reverse((subject.level(), !subject.findings.is_empty(), attempts)), subject.kind)
    });
    let mut unknown = unknown(&subjects, before.is_some());
    let repeated = from.repeated().max(to.repeated());
    if repeated > 0 {
        unknown.push(format!(
            "which of {repeated} samples is meant that stand there twice with the same labels; the last one was taken"
        ));
    }
    Diagnosis { over: change.over(), subjects, unknown }
}

/// What no look at these metrics can tell about any of them.
fn unknown(subjects: &[Subject], is_compared: bool) -> Vec<String> {
    let called = |subject: &&Subject| subject.flow.is_some_and(|flow| flow.calls > 0);
    let called: Vec<_> = subjects.iter().filter(called).collect();
    let any = |test: &dyn Fn(&Subject) -> bool| called.iter().any(|subject| test(subject));
    let is_envoy = |subject: &Subject| subject.kind == Kind::Cluster;
    let hears_nothing = |subject: &Subject| {
        !is_envoy(subject) && subject.flow.is_some_and(|flow| flow.inherited == 0)
    };
    let all = [
        (
            !called.is_empty() && !is_compared,
            "whether there are more calls than usual: --baseline 1m looks for a minute before",
        ),
        (
            any(&hears_nothing),
            "whether a layer above retries without saying so: only a request with an attempt header counts as a retry",
        ),
        (
            any(&is_envoy),
            "whose retries come to Envoy: it does not count requests by attempt, so those of the layers above are \
             calls here",
        ),
        (!called.is_empty(), "what other instances do: each has an endpoint of its own"),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, what)| what.to_owned()).collect()
}
