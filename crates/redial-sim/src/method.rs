//! How a policy is simulated: by which engine, and at which scale.

use redial_core::Span;

use crate::cohort::NotCountable;
use crate::measure::{Engine, Run};
use crate::number::count;
use crate::scale_model::{self, ScaleModel, scale_of};
use crate::scenario::{MOST_GUARDS, guards_over_limit, in_flight_over_limit};
use crate::watch::Watch;
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
    fn longest_tick(self) -> Span {
        match self {
            Self::Coarse => Span::from_millis(2),
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
        let cohorts = || cohort::Model::new(scenario, subject);
        let (model, notes) = match self {
            Self::Exact => {
                can_follow(scenario, subject)?;
                (Model::Exact, Vec::new())
            }
            Self::Cohort => (Model::cohort(cohorts().map_err(|why| why.to_string())?), Vec::new()),
            Self::Scale => Model::scale(scenario, subject, k, None)?,
            Self::Quick(detail) => Model::quick(scenario, subject, detail)?,
            Self::Auto => match is_dense.then(cohorts) {
                Some(Ok(model)) => (Model::cohort(model), Vec::new()),
                refused if is_large => {
                    Model::scale(scenario, subject, k, refused.and_then(Result::err))?
                }
                refused => (Model::Exact, reasons(refused.and_then(Result::err))),
            },
        };
        Ok(Method { scenario, subject, choice: self, model, notes })
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

/// A policy in a scenario, and how its runs are computed.
#[derive(Clone, Debug)]
pub struct Method<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) subject: &'a Subject,
    pub(crate) choice: Choice,
    model: Model<'a>,
    /// Why it is not done by cohorts, and what is distorted.
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum Model<'a> {
    Exact,
    Cohort(Box<cohort::Model<'a>>),
    Scale(Box<ScaleModel>),
}

/// Notes that say why it is not done by cohorts.
fn reasons(why: Option<NotCountable>) -> Vec<String> {
    why.iter().map(ToString::to_string).collect()
}

impl<'a> Model<'a> {
    fn cohort(model: cohort::Model<'a>) -> Self {
        Self::Cohort(Box::new(model))
    }

    /// Cohorts cost by the tick, and the exact engine by the call: a scenario with few calls is followed exactly.
    fn quick(
        scenario: &'a Scenario,
        subject: &'a Subject,
        detail: Detail,
    ) -> Result<(Self, Vec<String>), String> {
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
            Ok(model) if model.cells() <= QUICK_CELLS => Ok((Self::cohort(model), Vec::new())),
            refused => Self::scale(scenario, subject, k, refused.err()),
        }
    }

    /// With the notes.
    fn scale(
        scenario: &Scenario,
        subject: &Subject,
        k: u32,
        why: Option<NotCountable>,
    ) -> Result<(Self, Vec<String>), String> {
        let mut notes = reasons(why);
        if k == 1 {
            can_follow(scenario, subject)?;
            return Ok((Self::Exact, notes));
        }
        let model = ScaleModel::new(scenario, subject, k)?;
        notes.extend_from_slice(model.distortions());
        Ok((Self::Scale(Box::new(model)), notes))
    }
}

impl Method<'_> {
    /// The engine.
    pub fn engine(&self) -> Engine {
        match &self.model {
            Model::Exact => Engine::Exact,
            Model::Cohort(_) => Engine::Cohort,
            Model::Scale(model) => Engine::Scale(model.k()),
        }
    }

    /// The work of a run, as the number of calls that the exact engine would follow in the same time.
    pub fn work(&self) -> f64 {
        match &self.model {
            Model::Exact => self.scenario.calls(),
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
            Model::Exact => exact::run(self.scenario, self.subject, seed, watch),
            Model::Cohort(model) => model.run(seed, watch),
            Model::Scale(model) => model.run(seed, watch),
        }
    }
}
