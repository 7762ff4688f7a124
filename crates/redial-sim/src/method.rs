//! How a policy is simulated: by which engine, and at which scale.

use std::fmt::{self, Display};

use redial_core::{MS, Nanos};

use crate::cohort::Refused;
use crate::measure::Run;
use crate::report::count;
use crate::scale_model::{self, ScaleModel, scale_of};
use crate::scenario::{MOST_GUARDS, guards_over_limit, in_flight_over_limit};
use crate::simulate::Watch;
use crate::{Scenario, Subject, cohort, exact};

/// Which engine to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Cohorts where they fit and are faster, else the exact engine; a scale model if that would follow more than
    /// [`MOST_CALLS_FOLLOWED`].
    #[default]
    Auto,
    /// The exact engine.
    Exact,
    /// Cohorts.
    Cohort,
    /// A scale model, with at most [`scale_model::MOST_CALLS`] in a run, and guards that fit into memory.
    Scale,
    /// In a moment and in little memory, for a person who moves a slider: cohorts where they fit, else a scale model with
    /// few calls.
    Quick(Detail),
}

/// How much work [`Choice::Quick`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// For a picture that is replaced at once: longer ticks, fewer calls.
    Coarse,
    /// For figures.
    Full,
}

impl Detail {
    /// The most calls of a run that are followed one by one.
    pub fn most_calls(self) -> f64 {
        match self {
            Self::Coarse => 20_000.0,
            Self::Full => 100_000.0,
        }
    }

    /// The longest tick of the cohorts. Amplification and success are the same with both; a peak is lower by a few
    /// percent in long ticks.
    fn longest_tick(self) -> Nanos {
        match self {
            Self::Coarse => 2 * MS,
            Self::Full => cohort::LONGEST_TICK,
        }
    }
}

/// The most sets of guards of [`Choice::Quick`], of two kilobytes each.
const QUICK_GUARDS: f64 = 10_000.0;
/// The most cells of cohorts of [`Choice::Quick`], of up to 40 bytes each.
const QUICK_CELLS: u64 = 1_000_000;

/// [`Choice::Auto`] follows at most this many calls of a run one by one: about ten seconds of work.
pub const MOST_CALLS_FOLLOWED: f64 = 3e7;
/// The most calls of a run that the exact engine can follow.
pub const MOST_EXACT_CALLS: f64 = 2e9;
/// A tick of the cohorts takes about as long as this many calls of the exact engine.
const CALLS_PER_TICK: f64 = 4.0;

impl Choice {
    /// How this policy is simulated in this scenario.
    ///
    /// # Errors
    ///
    /// It is not possible with this choice. The message says what to change.
    pub fn method<'a>(
        self,
        scenario: &'a Scenario,
        subject: &'a Subject,
    ) -> Result<Method<'a>, String> {
        let calls = scenario.calls();
        let is_dense = calls > CALLS_PER_TICK * cohort::ticks(scenario, subject) as f64;
        let guards = guards_over_limit(scenario, &subject.policy);
        let is_large = calls > MOST_CALLS_FOLLOWED
            || in_flight_over_limit(scenario).is_some()
            || guards.is_some();
        let for_guards = guards.map_or(1.0, |sets| sets as f64 / MOST_GUARDS as f64);
        let k = scale_of(scenario, scale_model::MOST_CALLS).max(scale_model::round_up(for_guards));
        let model = || cohort::Model::new(scenario, subject);
        match self {
            Self::Exact => {
                can_follow(scenario, subject)?;
                Ok(Method::exact(scenario, subject, None::<Refused>))
            }
            Self::Cohort => model().map(Method::cohort).map_err(|why| why.to_string()),
            Self::Scale => Method::scale(scenario, subject, k, None),
            Self::Quick(detail) => Method::quick(scenario, subject, detail),
            Self::Auto => match is_dense.then(model) {
                Some(Ok(model)) => Ok(Method::cohort(model)),
                refused if is_large => {
                    Method::scale(scenario, subject, k, refused.and_then(Result::err))
                }
                refused => Ok(Method::exact(scenario, subject, refused.and_then(Result::err))),
            },
        }
    }
}

/// Refuses more calls than the exact engine can follow.
fn can_follow(scenario: &Scenario, subject: &Subject) -> Result<(), String> {
    if let Some(sets) = guards_over_limit(scenario, &subject.policy) {
        return Err(format!(
            "{} sets of guards, with those of replaced processes whose calls are under way, do not fit into memory: omit \
             --engine exact, or use fewer clients, a longer clients.lifetime, a shorter deadline, or a lower rate",
            count(sets as f64)
        ));
    }
    let (calls, in_flight) = (scenario.calls(), in_flight_over_limit(scenario));
    let what = match in_flight {
        _ if calls > MOST_EXACT_CALLS => {
            format!("{} calls in a run (at most {})", count(calls), count(MOST_EXACT_CALLS))
        }
        Some(calls) => format!("{} calls in flight", count(calls as f64)),
        None => return Ok(()),
    };
    Err(format!("{what} are too many for the exact engine: omit --engine exact, or lower the rate"))
}

/// How the runs of a policy are computed.
#[derive(Clone, Debug)]
pub struct Method<'a> {
    model: Model<'a>,
    /// Why it is not done by cohorts, and what is distorted.
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum Model<'a> {
    Exact(&'a Scenario, &'a Subject),
    Cohort(Box<cohort::Model<'a>>),
    Scale(Box<ScaleModel>),
}

impl<'a> Method<'a> {
    /// By the exact engine, for this reason.
    pub(crate) fn exact(
        scenario: &'a Scenario,
        subject: &'a Subject,
        why: Option<impl Display>,
    ) -> Self {
        let notes = why.iter().map(ToString::to_string).collect();
        Self { model: Model::Exact(scenario, subject), notes }
    }

    fn cohort(model: cohort::Model<'a>) -> Self {
        Self { model: Model::Cohort(Box::new(model)), notes: Vec::new() }
    }

    /// Cohorts cost by the tick, and the exact engine by the call: a scenario with few calls is followed exactly.
    fn quick(scenario: &'a Scenario, subject: &'a Subject, detail: Detail) -> Result<Self, String> {
        let sets = f64::from(scenario.clients.instances) * f64::from(scenario.guards_each());
        let for_guards = match scenario.keeps_state(&subject.policy) {
            true => scale_model::round_up(sets / QUICK_GUARDS),
            false => 1,
        };
        let k = scale_of(scenario, detail.most_calls()).max(for_guards);
        if k == 1 {
            return Self::scale(scenario, subject, k, None);
        }
        match cohort::Model::with_longest_tick(scenario, subject, detail.longest_tick()) {
            Ok(model) if model.cells() <= QUICK_CELLS => Ok(Self::cohort(model)),
            refused => Self::scale(scenario, subject, k, refused.err()),
        }
    }

    fn scale(
        scenario: &'a Scenario,
        subject: &'a Subject,
        k: u32,
        why: Option<Refused>,
    ) -> Result<Self, String> {
        if k == 1 {
            can_follow(scenario, subject)?;
            return Ok(Self::exact(scenario, subject, why));
        }
        let model = ScaleModel::new(scenario, subject, k)?;
        let notes = why.iter().map(ToString::to_string);
        let notes = notes.chain(model.distortions().iter().cloned()).collect();
        Ok(Self { model: Model::Scale(Box::new(model)), notes })
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        match &self.model {
            Model::Exact(..) => Engine::Exact,
            Model::Cohort(_) => Engine::Cohort,
            Model::Scale(model) => Engine::Scale(model.k()),
        }
    }

    /// The work of a run, as the number of calls that the exact engine would follow in the same time.
    pub fn work(&self) -> f64 {
        match &self.model {
            Model::Exact(scenario, _) => scenario.calls(),
            Model::Cohort(model) => model.ticks() as f64 * CALLS_PER_TICK,
            Model::Scale(model) => model.calls(),
        }
    }

    /// Why it is not done by cohorts, and what is distorted.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs it once.
    pub(crate) fn run(&self, seed: u64, watch: &Watch) -> Run {
        match &self.model {
            Model::Exact(scenario, subject) => exact::run(scenario, subject, seed, watch),
            Model::Cohort(model) => model.run(seed, watch),
            Model::Scale(model) => model.run(seed, watch),
        }
    }
}

/// An engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// [`exact`].
    #[default]
    Exact,
    /// [`cohort`].
    Cohort,
    /// [`exact`], for a [scale model](scale_model) 1:k.
    Scale(u32),
}

impl Engine {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Cohort => "cohort",
            Self::Scale(_) => "scale",
        }
    }

    /// By how much the scenario was divided.
    pub fn scale(self) -> u32 {
        if let Self::Scale(k) = self { k } else { 1 }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(k) => write!(f, "exact engine, a scale model 1:{k}"),
            other => write!(f, "{} engine", other.name()),
        }
    }
}
