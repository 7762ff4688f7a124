//! What would my retries do to a backend of my size? The visitor moves sliders, and the simulator computes the curves.
//!
//! A request is a story, the sliders that were moved, and the policies. It becomes the scenario and the parameters of a
//! `redial sim` command, which is a part of the answer and computes the same figures.

mod answer;
mod contestant;
mod download;
mod map;
mod runs;
mod sentence;
mod slider;
mod story;
mod workshop;

use std::sync::Arc;
use std::thread;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use redial_sim::measure::Summary;
use redial_sim::report::Case;
use redial_sim::simulate::{Choice, Detail, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};
use serde::{Deserialize, Serialize};

use self::answer::{Answer, PolicyAnswer};
pub(crate) use self::contestant::toml_of;
use self::contestant::{Contestant, Entrant, Known};
use self::runs::Runs;
use self::slider::{Positions, Setting};
use self::story::{STORIES, Step, Story, TOUR};
pub(crate) use self::workshop::Workshop;
use crate::app::App;
use crate::body::Body;
use crate::clock::Stopwatch;
use crate::error::ApiError;

/// A few policies with comments.
const MOST_BODY: usize = 300_000;

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
    pub(crate) workshop: Workshop,
    pub(crate) runs: Runs,
}

impl Playground {
    fn new() -> Self {
        let workshop = Workshop::new("playground");
        workshop.warm_up(|watch| {
            for quality in [Quality::Coarse, Quality::Full] {
                if let Ok(question) = Ask::opening(quality).question() {
                    question.answer(watch);
                }
            }
        });
        Self { workshop, runs: Runs::new() }
    }
}

/// What a visitor asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    #[serde(default)]
    visitor: String,
    story: String,
    #[serde(default)]
    sliders: Positions,
    /// Those of the story, if there are none.
    #[serde(default)]
    policies: Vec<Contestant>,
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
    pub(crate) entrants: Vec<Entrant>,
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
        if self.visitor.len() > 64 {
            return Err(ApiError::bad_request("visitor has at most 64 characters"));
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
        let own: Vec<Contestant> =
            story.policies.iter().map(|name| Contestant::named(name)).collect();
        let contestants = if self.policies.is_empty() { &own } else { &self.policies };
        if contestants.len() > contestant::MOST {
            let most = contestant::MOST;
            return Err(ApiError::bad_request(format!("at most {most} policies are compared")));
        }
        let entrants: Vec<Entrant> =
            contestants.iter().map(|it| it.enter(&setting)).collect::<Result<_, _>>()?;
        let names = entrants.iter().map(|entrant| entrant.name.as_str());
        let is_twice = |name: &str| names.clone().filter(|other| *other == name).count() > 1;
        if let Some(twice) = names.clone().find(|name| is_twice(name)) {
            return Err(ApiError::bad_request(format!("two policies are called {twice:?}")));
        }
        let question = Question { setting, entrants, seed: self.seed, quality: self.quality };
        for subject in question.subjects() {
            let method = self.quality.choice().method(&question.setting.scenario, subject);
            method.map_err(|why| ApiError::bad_request(format!("{}: {why}", subject.name)))?;
        }
        Ok(question)
    }
}

impl Question {
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.entrants.iter().filter_map(|entrant| entrant.subject.as_ref())
    }

    /// The policies in a scenario with other parameters.
    fn subjects_in(&self, scenario: &Scenario) -> Result<Vec<Subject>, ApiError> {
        let entrants = self.entrants.iter();
        let subjects =
            entrants.filter_map(|entrant| entrant.subject.as_ref().map(|it| (entrant, it)));
        let subjects = subjects.map(|(entrant, subject)| match entrant.is_own {
            true => scenario.accept(subject.clone()),
            false => scenario.subject(&subject.name),
        });
        subjects.collect::<Result<_, _>>().map_err(ApiError::bad_request)
    }

    /// Runs each policy once, at the same time.
    pub(crate) fn run(&self, watch: &Watch) -> Vec<(Case, f64)> {
        let settings =
            Settings { runs: 1, seed: self.seed, threads: 1, engine: self.quality.choice() };
        let run = |subject: &Subject| -> (Summary, f64) {
            let stopwatch = Stopwatch::start();
            (simulate(&self.setting.scenario, subject, &settings, watch), stopwatch.ms())
        };
        thread::scope(|scope| {
            let run = &run;
            let all: Vec<_> = self
                .subjects()
                .map(|subject| (subject, scope.spawn(move || run(subject))))
                .collect();
            let all = all.into_iter().filter_map(|(subject, thread)| {
                // A panic of the simulator is a defect, and its policy has no result.
                let (summary, took_ms) = thread.join().ok()?;
                Some((Case { subject: subject.clone(), summary }, took_ms))
            });
            all.collect()
        })
    }

    fn answer(&self, watch: &Watch) -> Answer {
        let stopwatch = Stopwatch::start();
        let scenario = &self.setting.scenario;
        let (cases, took): (Vec<Case>, Vec<f64>) = self.run(watch).into_iter().unzip();
        let picture = answer::picture(scenario, &cases);
        let mut results = cases.iter().zip(&picture.rows).zip(&took);
        let policies: Vec<PolicyAnswer> = self
            .entrants
            .iter()
            .map(|entrant| {
                let remarks = entrant.remarks.clone();
                let result = entrant.subject.as_ref().and_then(|_| results.next());
                match result {
                    Some(((case, points), took)) => {
                        PolicyAnswer { remarks, ..PolicyAnswer::of(scenario, case, points, *took) }
                    }
                    None => answer::without_result(&entrant.name, remarks),
                }
            })
            .collect();
        let figures: Vec<_> = policies
            .iter()
            .filter_map(|it| Some((it.name.as_str(), &it.result.as_ref()?.figures)))
            .collect();
        Answer {
            sentence: sentence::sentence(scenario, &figures),
            command: self.command(),
            point_ms: picture.point_ms,
            capacity: answer::capacity(scenario),
            steady: scenario.rate(),
            bands: answer::bands(scenario),
            notes: self.setting.notes.clone(),
            policies,
            wall_ms: stopwatch.ms(),
        }
    }

    /// The command that computes the same figures. It is always that of full quality.
    pub(crate) fn command(&self) -> String {
        self.command_with("--runs 1 --engine quick")
    }

    fn command_with(&self, flags: &str) -> String {
        let mut words = vec![format!("redial sim {}", self.setting.story.scenario)];
        let arguments = self.entrants.iter().filter(|entrant| entrant.subject.is_some());
        words.extend(arguments.map(|entrant| format!("--policy {}", entrant.argument)));
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
    let computed = playground.workshop.compute(ask.visitor()?, move |watch| question.answer(watch));
    computed.await.map(Json)
}

/// Everything that the page needs to draw its controls.
#[derive(Serialize)]
struct Description {
    stories: &'static [Story],
    tour: &'static [Step],
    policies: Vec<Known>,
    most_policies: usize,
    /// A policy to start from.
    own: String,
}

async fn describe() -> Json<Description> {
    Json(Description {
        stories: STORIES,
        tour: &TOUR,
        policies: contestant::known(),
        most_policies: contestant::MOST,
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
