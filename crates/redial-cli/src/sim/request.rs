//! Turns arguments into scenarios, policies and settings. All input errors are found here, before any work begins.

use redial_policy::nearest;
use redial_sim::measure::Engine;
use redial_sim::report::SimulationSetup;
use redial_sim::scenario::{BUILT_IN, BuiltIn, Set};
use redial_sim::simulate::{Choice, Method, Settings};
use redial_sim::{Scenario, Subject};

use super::args::{Options, ScenarioOptions, SweepArgs};
use super::contention;
use crate::failed::Failed;
use crate::policy;
use crate::problem::plain_problem;

/// The number of simulated calls of each policy by default, or as much work of another engine.
const CALLS: f64 = 5e6;
const MOST_RUNS: f64 = 20.0;

pub(super) struct Request<'a> {
    name: &'a str,
    scenario_options: &'a ScenarioOptions,
    options: &'a Options,
    pub(super) text: String,
    pub(super) sets: Vec<Set>,
    pub(super) scenario: Scenario,
    pub(super) policies: Vec<String>,
}

impl<'a> Request<'a> {
    pub(super) fn read(
        name: &'a str,
        scenario_options: &'a ScenarioOptions,
        options: &'a Options,
    ) -> Result<Self, Failed> {
        let text = source(name)?;
        let sets = options
            .sets
            .iter()
            .map(|set| Set::read(set).map_err(|problem| Failed::input("--set", problem)));
        let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
        let read = |sets: &[Set]| scenario(name, &text, sets);
        let mut scenario = read(&sets)?;
        match scenario_options.clients[..] {
            [] => {}
            [clients] => {
                sets.push(Set::clients(clients));
                scenario = read(&sets)?;
            }
            _ => {
                let why = "may be given once; compare several with --sweep clients=A,B";
                return Err(Failed::input("--clients", why));
            }
        }
        let own = &scenario.policies;
        let names = if options.policies.is_empty() { own } else { &options.policies };
        let mut policies: Vec<String> = Vec::new();
        for policy in names {
            if !policies.contains(policy) {
                policies.push(policy.clone());
            }
        }
        Ok(Self { name, scenario_options, options, text, sets, scenario, policies })
    }

    /// The policies, as this scenario defines them.
    pub(super) fn subjects(&self, scenario: &Scenario) -> Result<Vec<Subject>, Failed> {
        self.policies.iter().map(|name| subject(scenario, name)).collect()
    }

    pub(super) fn settings(&self, runs: u32) -> Settings {
        Settings { runs, seed: self.options.seed, threads: self.options.threads() }
    }

    /// How these policies are simulated in these scenarios.
    pub(super) fn methods<'b>(
        &self,
        all: impl Iterator<Item = (&'b Scenario, &'b Subject)>,
    ) -> Result<Vec<Method<'b>>, Failed> {
        let choice = self.scenario_options.engine;
        let place = if choice == Choice::Cohort { "--engine cohort" } else { self.name };
        all.map(|(scenario, subject)| {
            let method = choice.method(scenario, subject);
            method.map_err(|why| Failed::input(place, format!("{}: {why}", subject.name)))
        })
        .collect()
    }

    pub(super) fn runs(&self, methods: &[Method<'_>]) -> u32 {
        let calls = methods.iter().map(Method::work).fold(1.0, f64::max);
        self.options.runs.unwrap_or((CALLS / calls).clamp(1.0, MOST_RUNS) as u32)
    }

    /// The runs of a cell, for a sweep whose runs simulate this many calls in all. A map of single runs would be noise.
    pub(super) fn runs_of_cell(&self, calls: f64) -> u32 {
        self.options.runs.unwrap_or((10.0 * CALLS / calls.max(1.0)).clamp(4.0, MOST_RUNS) as u32)
    }

    pub(super) fn question<'b>(
        &'b self,
        settings: &Settings,
        engine: Option<Engine>,
        command: &'b str,
    ) -> SimulationSetup<'b> {
        SimulationSetup {
            name: self.name,
            text: &self.text,
            sets: &self.sets,
            seed: settings.seed,
            runs: settings.runs,
            engine,
            command,
        }
    }

    /// The command that gives the same result.
    pub(super) fn command(&self, runs: u32, sweep: Option<&SweepArgs>) -> String {
        let Self { scenario_options, options, .. } = self;
        let mut words = vec!["redial".to_owned(), "sim".to_owned(), quote(self.name)];
        let mut flag = |flag: &str, value: &str| words.push(format!("--{flag} {}", quote(value)));
        if !options.policies.is_empty() {
            self.policies.iter().for_each(|policy| flag("policy", policy));
        }
        options.sets.iter().for_each(|set| flag("set", set));
        scenario_options.clients.iter().for_each(|clients| flag("clients", &clients.to_string()));
        if let Some(sweep) = sweep {
            sweep.sweeps.iter().for_each(|sweep| flag("sweep", sweep));
            sweep.metrics.iter().for_each(|metric| flag("metric", metric));
        }
        match scenario_options.engine {
            Choice::Auto => {}
            Choice::Exact => flag("engine", "exact"),
            Choice::Cohort => flag("engine", "cohort"),
            Choice::Scale => flag("engine", "scale"),
            Choice::Quick(_) => flag("engine", "quick"),
        }
        flag("seed", &options.seed.to_string());
        flag("runs", &runs.to_string());
        words.join(" ")
    }
}

/// The engine of all of these; `None` if they differ.
pub(super) fn common_engine(methods: &[Method<'_>]) -> Option<Engine> {
    let first = methods.first()?.engine();
    methods.iter().all(|method| method.engine() == first).then_some(first)
}

/// The text of the scenario that an argument names: a built-in one, or a file.
pub(super) fn source(name: &str) -> Result<String, Failed> {
    if let Some(built_in) = BuiltIn::find(name) {
        return Ok(built_in.text.to_owned());
    }
    policy::read_file(name).map_err(|error| {
        if policy::looks_like_file(name) {
            return Failed::input(name, error);
        }
        let known = || BUILT_IN.iter().map(|known| known.name).chain([contention::NAME]);
        let why = match nearest(name, known()) {
            Some(known) => format!("not a scenario; did you mean `{known}`?"),
            None => {
                let known = known().collect::<Vec<_>>().join(", ");
                format!("not a scenario ({known}), and cannot read it as a file: {error}")
            }
        };
        Failed::input(name, why)
    })
}

/// The scenario in this text, with some parameters set.
pub(super) fn scenario(name: &str, text: &str, sets: &[Set]) -> Result<Scenario, Failed> {
    Scenario::read(text, sets).map_err(|problem| {
        if problem.span.is_none() {
            return Failed::input(name, problem);
        }
        let shown = plain_problem(name, text, &problem);
        Failed::input(name, format_args!("not a valid scenario\n{shown}"))
    })
}

/// The scenario's own policies take precedence over files of the same name.
pub(super) fn subject(scenario: &Scenario, name: &str) -> Result<Subject, Failed> {
    let wrong = |why: String| Failed::input(format_args!("--policy {name}"), why);
    match scenario.subject(name) {
        Ok(subject) => Ok(subject),
        Err(why) if scenario.policy.contains_key(name) => Err(wrong(why)),
        Err(_) => {
            let own = scenario.policy.keys().map(String::as_str).chain(["no-retry"]);
            let own = own.collect::<Vec<_>>().join(", ");
            let none = |why: String| match policy::looks_like_file(name) {
                true => wrong(why),
                false => wrong(format!("not a policy of the scenario ({own}), {why}")),
            };
            let subject = Subject::new(name, policy::load(name).map_err(none)?);
            subject.and_then(|subject| scenario.accept(subject)).map_err(wrong)
        }
    }
}

/// Quotes a word for a shell.
pub(super) fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
