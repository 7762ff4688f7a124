//! What a default should keep: hardly ever worse than one attempt, near the best everywhere, and cheap for a backend
//! that is down. Losses are by all calls of a run; those by the calls at risk are beside them.

use Limit::{AtMost, BestPeer};

use super::cell::Family;
use super::outage::Outage;
use super::rank::Ranking;
use super::score::Measure;
use crate::Subject;

const DEADLINE: &[Rule] = &[
    Rule::new("cells lost to one attempt", Unit::Share, lost_to_one, AtMost(0.01)),
    Rule::new("worst against one attempt", Unit::Points, worst_against_one, AtMost(0.02)),
    Rule::new("mean regret", Unit::Points, mean_regret, AtMost(0.005)),
    Rule::new("worst regret", Unit::Points, |it, by| it.by(by).worst_regret.0, AtMost(0.06)),
];

const TIMEOUT: &[Rule] = &[
    Rule::new("cells lost to one attempt", Unit::Share, lost_to_one, AtMost(0.03)),
    Rule::new("worst against one attempt", Unit::Points, worst_against_one, AtMost(0.07)),
    Rule::new("mean regret", Unit::Points, mean_regret, AtMost(0.015)),
    Rule::new("p95 regret", Unit::Points, |it, by| it.by(by).p95_regret, AtMost(0.06)),
];

const BOTH: &[Rule] = &[
    Rule::new("mean regret, no peer has less", Unit::Points, mean_regret, BestPeer),
    Rule::new("own collapses", Unit::Cells, own_collapses, AtMost(0.0)),
    Rule::new("own collapses, no peer has fewer", Unit::Cells, own_collapses, BestPeer),
    Rule::new("attempts per call", Unit::Attempts, |it, _| it.attempts_per_call, AtMost(1.06)),
];

/// The most attempts per call in an outage, with at most this many clients.
const OUTAGE: (f64, u32) = (1.2, 1_000);

/// What is read of a ranking, and what it may be.
struct Rule {
    what: &'static str,
    unit: Unit,
    read: fn(&Ranking, Measure) -> f64,
    limit: Limit,
}

enum Limit {
    AtMost(f64),
    /// No peer has less.
    BestPeer,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share of the cells.
    Share,
    /// A share of the calls, printed in points.
    Points,
    /// A number of cells.
    Cells,
    /// Attempts ÷ calls.
    Attempts,
}

/// A value of a policy, and what it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The name of the family, or `outage`.
    pub group: &'static str,
    /// What it limits.
    pub what: String,
    /// What the values are.
    pub unit: Unit,
    /// The value, by all calls of a run.
    pub value: f64,
    /// The value by the calls at risk, if it depends on which calls count.
    pub at_risk: Option<f64>,
    /// The highest value that keeps it; `None` if the value is only reported.
    pub limit: Option<f64>,
}

impl Bar {
    /// Whether the policy keeps it.
    pub fn is_kept(&self) -> Option<bool> {
        self.limit.map(|limit| self.value <= limit)
    }
}

/// The policy whose bars are shown: `standard`; without it, the only policy that is not a peer; else the only one.
pub fn judged(subjects: &[Subject]) -> Option<usize> {
    let no_retry = Subject::no_retry().name;
    let places = |wanted: fn(&str) -> bool| {
        let all = (0..subjects.len()).filter(|place| subjects[*place].name != no_retry);
        all.filter(|place| wanted(&subjects[*place].name)).collect::<Vec<_>>()
    };
    let choices =
        [places(|name| name == "standard"), places(|name| !is_peer(name)), places(|_| true)];
    choices.into_iter().find(|places| !places.is_empty()).filter(|it| it.len() == 1).map(|it| it[0])
}

/// The bars of a family, for the policy with this name.
pub fn bars(family: Family, rankings: &[Ranking], policy: &str) -> Vec<Bar> {
    let Some(own) = rankings.iter().find(|it| it.name == policy) else { return Vec::new() };
    let rules = match family {
        Family::Deadline => DEADLINE,
        Family::Timeout => TIMEOUT,
    };
    let bar = |rule: &Rule| {
        let value = |of: &Ranking| (rule.read)(of, Measure::WholeRun);
        let peers = rankings.iter().filter(|it| is_peer(&it.name));
        let limit = match rule.limit {
            AtMost(limit) => limit,
            BestPeer => peers.map(value).reduce(f64::min)?,
        };
        let by_calls = matches!(rule.unit, Unit::Share | Unit::Points);
        Some(Bar {
            group: family.name(),
            what: rule.what.to_owned(),
            unit: rule.unit,
            value: value(own),
            at_risk: by_calls.then(|| (rule.read)(own, Measure::AtRisk)),
            limit: Some(limit),
        })
    };
    rules.iter().chain(BOTH).filter_map(bar).collect()
}

impl Outage {
    /// The bar of the policy at this place of the plan.
    pub fn bar(&self, policy: usize) -> Option<Bar> {
        let (limit, most_clients) = OUTAGE;
        Some(Bar {
            group: "outage",
            what: format!("attempts per call, {} clients, {}", self.clients_text, self.answer),
            unit: Unit::Attempts,
            value: *self.attempts_per_call.get(policy)?,
            at_risk: None,
            limit: (self.clients <= most_clients).then_some(limit),
        })
    }
}

impl Rule {
    const fn new(
        what: &'static str,
        unit: Unit,
        read: fn(&Ranking, Measure) -> f64,
        limit: Limit,
    ) -> Self {
        Self { what, unit, read, limit }
    }
}

fn lost_to_one(of: &Ranking, by: Measure) -> f64 {
    of.by(by).loses_to_one as f64 / of.cells.max(1) as f64
}

fn worst_against_one(of: &Ranking, by: Measure) -> f64 {
    of.by(by).worst_against_one.0
}

fn mean_regret(of: &Ranking, by: Measure) -> f64 {
    of.by(by).mean_regret.value
}

fn own_collapses(of: &Ranking, _: Measure) -> f64 {
    of.own_collapses as f64
}

fn is_peer(name: &str) -> bool {
    name.starts_with("peer:")
}
