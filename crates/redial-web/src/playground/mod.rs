//! What would my retries do to a backend of my size? The visitor moves sliders, and the simulator computes the curves.
//!
//! A request is a story, the sliders that were moved, and the policies. It becomes the scenario and the parameters of a
//! `redial sim` command, which is a part of the answer and computes the same figures.

mod answer;
mod download;
mod map;
mod policy_choice;
mod runs;
mod sentence;
mod simulation_thread;
mod slider;
mod story;
mod work;

use std::sync::Arc;
use std::thread;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use redial_sim::measure::Summary;
use redial_sim::report::Case;
use redial_sim::simulate::{Choice, Detail, Method, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};
use serde::{Deserialize, Serialize};

use self::answer::{Answer, PolicyAnswer};
pub(crate) use self::policy_choice::toml_of;
use self::policy_choice::{KnownPolicy, PolicyChoice, ResolvedPolicy};
use self::runs::Runs;
pub(crate) use self::simulation_thread::SimulationThread;
use self::slider::{Positions, Setting};
use self::story::{STORIES, Story, TOUR, TourStep};
use crate::app::App;
use crate::body::Body;
use crate::clock::Stopwatch;
use crate::error::ApiError;

/// A few policies with comments.
const MOST_BODY: usize = 300_000;
const MAX_VISITOR_BYTES: usize = 64;

pub(crate) fn routes() -> Router<Arc<App>> {
    let playground = Arc::new(Playground::new());
    Router::new()
        .route("/playground", get(describe))
        .route("/simulate", post(simulation))
        .route("/simulate/svg", post(download::svg))
        .route("/simulate/json", post(download::json))
        .merge(runs::routes())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(Extension(playground))
}

/// What computes simulations.
#[derive(Debug)]
pub(crate) struct Playground {
    /// For what a visitor waits for.
    pub(crate) simulation_thread: SimulationThread,
    pub(crate) runs: Runs,
}

impl Playground {
    fn new() -> Self {
        let simulation_thread = SimulationThread::new("playground");
        simulation_thread.warm_up(|watch| {
            for quality in [Quality::Coarse, Quality::Full] {
                if let Ok(question) = Ask::opening(quality).question() {
                    drop(question.answer(watch));
                }
            }
        });
        Self { simulation_thread, runs: Runs::new() }
    }
}

/// What a visitor asks.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    #[serde(default)]
    visitor: String,
    story: String,
    #[serde(default)]
    sliders: Positions,
    /// Those of the story, if there are none.
    #[serde(default)]
    policies: Vec<PolicyChoice>,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    quality: Quality,
}

fn one() -> u64 {
    1
}

/// How much work a simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quality {
    /// While a slider moves.
    Coarse,
    #[default]
    Full,
}

impl Quality {
    fn choice(self) -> Choice {
        Choice::Quick(match self {
            Self::Coarse => Detail::Coarse,
            Self::Full => Detail::Full,
        })
    }
}

/// A checked question.
pub(crate) struct Question {
    pub(crate) setting: Setting,
    pub(crate) policies: Vec<ResolvedPolicy>,
    pub(crate) seed: u64,
    pub(crate) quality: Quality,
}

impl Ask {
    fn opening(quality: Quality) -> Self {
        Self {
            visitor: String::new(),
            story: STORIES[0].name.to_owned(),
            sliders: Positions::new(),
            policies: Vec::new(),
            seed: one(),
            quality,
        }
    }

    pub(crate) fn visitor(&self) -> Result<&str, ApiError> {
        if self.visitor.len() > MAX_VISITOR_BYTES {
            let why = format!("visitor has at most {MAX_VISITOR_BYTES} characters");
            return Err(ApiError::bad_request(why));
        }
        Ok(&self.visitor)
    }

    /// Checks everything that can be wrong.
    pub(crate) fn question(&self) -> Result<Question, ApiError> {
        let story = Story::find(&self.story).ok_or_else(|| {
            let known: Vec<&str> = STORIES.iter().map(|story| story.name).collect();
            ApiError::bad_request(format!("no story {:?}, only {}", self.story, known.join(", ")))
        })?;
        let setting = Setting::new(story, &self.sliders)?;
        let own: Vec<PolicyChoice> =
            story.policies.iter().map(|name| PolicyChoice::named(name)).collect();
        let choices = if self.policies.is_empty() { &own } else { &self.policies };
        if choices.len() > policy_choice::MAX_POLICIES {
            let most = policy_choice::MAX_POLICIES;
            return Err(ApiError::bad_request(format!("at most {most} policies are compared")));
        }
        let policies: Vec<ResolvedPolicy> =
            choices.iter().map(|it| it.resolve(&setting)).collect::<Result<_, _>>()?;
        let names = policies.iter().map(|policy| policy.name.as_str());
        let is_twice = |name: &str| names.clone().filter(|other| *other == name).count() > 1;
        if let Some(twice) = names.clone().find(|name| is_twice(name)) {
            return Err(ApiError::bad_request(format!("two policies are called {twice:?}")));
        }
        let question = Question { setting, policies, seed: self.seed, quality: self.quality };
        question.methods()?;
        Ok(question)
    }
}

impl Question {
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.policies.iter().filter_map(|policy| policy.subject.as_ref())
    }

    /// The policies in a scenario with other parameters.
    fn subjects_in(&self, scenario: &Scenario) -> Result<Vec<Subject>, ApiError> {
        let policies = self.policies.iter();
        let subjects = policies.filter_map(|policy| policy.subject.as_ref().map(|it| (policy, it)));
        let subjects = subjects.map(|(policy, subject)| match policy.is_own {
            true => scenario.accept(subject.clone()),
            false => scenario.subject(&subject.name),
        });
        subjects.collect::<Result<_, _>>().map_err(ApiError::bad_request)
    }

    fn methods(&self) -> Result<Vec<Method<'_>>, ApiError> {
        let subjects = self.subjects().map(|subject| (&self.setting.scenario, subject));
        work::methods(self.quality.choice(), subjects, 1, "use less traffic")
    }

    /// Runs each policy once, at the same time.
    pub(crate) fn run(&self, watch: &Watch) -> Result<Vec<(Case, f64)>, ApiError> {
        let settings = Settings { runs: 1, seed: self.seed, threads: 1 };
        let methods = self.methods()?;
        let run = |method: &Method<'_>| -> (Summary, f64) {
            let stopwatch = Stopwatch::start();
            (simulate(method, &settings, watch), stopwatch.ms())
        };
        let results = thread::scope(|scope| {
            let run = &run;
            let threads = methods.iter().map(|method| scope.spawn(move || run(method)));
            let all: Vec<_> = self.subjects().zip(threads).collect();
            let all = all.into_iter().filter_map(|(subject, thread)| {
                // A panic of the simulator is a defect, and its policy has no result.
                let (summary, took_ms) = thread.join().ok()?;
                Some((Case { subject: subject.clone(), summary }, took_ms))
            });
            all.collect()
        });
        Ok(results)
    }

    fn answer(&self, watch: &Watch) -> Result<Answer, ApiError> {
        let stopwatch = Stopwatch::start();
        let scenario = &self.setting.scenario;
        let (cases, took): (Vec<Case>, Vec<f64>) = self.run(watch)?.into_iter().unzip();
        let picture = answer::picture(scenario, &cases);
        let mut results = cases.iter().zip(&picture.rows).zip(&took);
        let policies: Vec<PolicyAnswer> = self
            .policies
            .iter()
            .map(|policy| {
                let remarks = policy.remarks.clone();
                let result = policy.subject.as_ref().and_then(|_| results.next());
                match result {
                    Some(((case, points), took)) => {
                        PolicyAnswer { remarks, ..PolicyAnswer::of(scenario, case, points, *took) }
                    }
                    None => answer::without_result(&policy.name, remarks),
                }
            })
            .collect();
        let figures: Vec<_> = policies
            .iter()
            .filter_map(|it| Some((it.name.as_str(), &it.result.as_ref()?.figures)))
            .collect();
        Ok(Answer {
            sentence: sentence::sentence(scenario, &figures),
            command: self.command(),
            point_ms: picture.point_ms,
            capacity: answer::capacity(scenario),
            steady: scenario.rate(),
            bands: answer::bands(scenario),
            notes: self.setting.notes.clone(),
            policies,
            wall_ms: stopwatch.ms(),
        })
    }

    /// The command that computes the same figures. It is always that of full quality.
    pub(crate) fn command(&self) -> String {
        self.command_with("--runs 1 --engine quick")
    }

    fn command_with(&self, flags: &str) -> String {
        let mut words = vec![format!("redial sim {}", self.setting.story.scenario)];
        let arguments = self.policies.iter().filter(|policy| policy.subject.is_some());
        words.extend(arguments.map(|policy| format!("--policy {}", policy.argument)));
        words.extend(self.setting.sets.iter().map(|set| format!("--set {}", quote(set))));
        words.push(format!("--seed {} {flags}", self.seed));
        words.join(" ")
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

async fn simulation(
    Extension(playground): Extension<Arc<Playground>>,
    Body(ask): Body<Ask>,
) -> Result<Json<Answer>, ApiError> {
    let question = ask.question()?;
    let computed =
        playground.simulation_thread.compute(ask.visitor()?, move |watch| question.answer(watch));
    computed.await?.map(Json)
}

/// Everything that the page needs to draw its controls.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct PlaygroundDescription {
    stories: &'static [Story],
    tour: &'static [TourStep],
    policies: Vec<KnownPolicy>,
    most_policies: usize,
    /// A policy to start from.
    own: String,
}

async fn describe() -> Json<PlaygroundDescription> {
    Json(PlaygroundDescription {
        stories: STORIES,
        tour: &TOUR,
        policies: policy_choice::known(),
        most_policies: policy_choice::MAX_POLICIES,
        own: OWN.to_owned(),
    })
}

/// The policy in the editor at first: a plain loop, whose findings show what is missing.
const OWN: &str = "\
attempts        = 4
attempt_timeout = \"150ms\"
backoff         = { base = \"100ms\", cap = \"2s\", jitter = \"none\" }
budget          = \"none\"
hedge           = \"none\"
stall           = \"none\"
";

/// The types of these responses and requests.
#[cfg(feature = "typescript")]
pub(crate) fn visit_types(types: &mut impl ts_rs::TypeVisitor) {
    types.visit::<PlaygroundDescription>();
    types.visit::<Ask>();
    types.visit::<Answer>();
    types.visit::<runs::RunStarted>();
    types.visit::<runs::RunStatus>();
}
