//! From what was typed to what is run. Everything that can be wrong is found here, before any work begins.

use redial_sim::report::Question;
use redial_sim::report::count;
use redial_sim::scenario::{BUILT_IN, BuiltIn, Set};
use redial_sim::simulate::{Choice, Engine, Settings};
use redial_sim::{Scenario, Subject, cohort};

use super::{Args, CONTENTION};
use crate::failed::Failed;
use crate::policy;

/// About so many calls of each policy are simulated unless somebody says otherwise.
const CALLS: f64 = 5e6;
const MOST_RUNS: f64 = 20.0;
/// Nobody waits for a run that follows more calls than this one by one.
const MOST_FOLLOWED: f64 = 2e9;

/// What was asked for.
pub(super) struct Asked<'a> {
    args: &'a Args,
    name: &'a str,
    pub(super) text: String,
    pub(super) sets: Vec<Set>,
    pub(super) scenario: Scenario,
    pub(super) policies: Vec<String>,
}

impl<'a> Asked<'a> {
    pub(super) fn read(args: &'a Args, name: &'a str) -> Result<Self, Failed> {
        let text = source(name)?;
        let sets = args
            .sets
            .iter()
            .map(|set| Set::read(set).map_err(|problem| Failed::input("--set", problem)));
        let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
        let read =
            |sets: &[Set]| Scenario::read(&text, sets).map_err(|wrong| Failed::input(name, wrong));
        let mut scenario = read(&sets)?;
        match args.clients[..] {
            [] => {}
            [clients] => {
                sets.push(Set::clients(clients));
                scenario = read(&sets)?;
            }
            _ => {
                let why = "give it once; more than one are compared with --sweep clients=A,B";
                return Err(Failed::input("--clients", why));
            }
        }
        let own = &scenario.policies;
        let asked = if args.policies.is_empty() { own } else { &args.policies };
        let mut policies: Vec<String> = Vec::new();
        for policy in asked {
            if !policies.contains(policy) {
                policies.push(policy.clone());
            }
        }
        Ok(Self { args, name, text, sets, scenario, policies })
    }

    /// The policies, as they are in this scenario.
    pub(super) fn subjects(&self, scenario: &Scenario) -> Result<Vec<Subject>, Failed> {
        self.policies.iter().map(|name| subject(scenario, name)).collect()
    }

    pub(super) fn settings(&self, runs: u32) -> Settings {
        Settings {
            runs,
            seed: self.args.seed,
            threads: self.args.threads(),
            engine: self.args.engine,
        }
    }

    /// Which engine runs these policies in these scenarios: `mixed` if it is not the same for all.
    pub(super) fn engine<'b>(
        &self,
        all: impl Iterator<Item = (&'b Scenario, &'b Subject)> + Clone,
    ) -> Result<&'static str, Failed> {
        let choice = self.args.engine;
        for (scenario, subject) in all.clone() {
            let fits = cohort::fits(scenario, subject);
            if let (Choice::Cohort, Err(why)) = (choice, &fits) {
                return Err(Failed::input("--engine cohort", format!("{}: {why}", subject.name)));
            }
            let calls = scenario.calls();
            if calls > MOST_FOLLOWED && choice.engine(scenario, subject) == Engine::Exact {
                let why = match fits {
                    Err(why) => format!(
                        "{why}. Simulate less (a lower rate, fewer callers, a shorter duration), or without what \
                         cohorts cannot represent"
                    ),
                    Ok(()) => "leave out --engine exact: cohorts can represent it".to_owned(),
                };
                return Err(Failed::input(
                    self.name,
                    format!(
                        "{}: {} calls in a run are too many to be followed one by one (at most {}); {why}",
                        subject.name,
                        count(calls),
                        count(MOST_FOLLOWED)
                    ),
                ));
            }
        }
        let mut engines = all.map(|(scenario, subject)| choice.engine(scenario, subject).name());
        let first = engines.next().unwrap_or("exact");
        Ok(if engines.all(|engine| engine == first) { first } else { "mixed" })
    }

    /// Cohorts take as long for one call as for all of them.
    pub(super) fn runs(&self, engine: &str) -> u32 {
        let calls = if engine == "cohort" { 0.0 } else { self.scenario.calls() };
        self.args.runs.unwrap_or((CALLS / calls.max(1.0)).clamp(1.0, MOST_RUNS) as u32)
    }

    /// For a sweep whose cells make so many calls together. A map of single runs would be noise.
    pub(super) fn runs_of_cell(&self, calls: f64) -> u32 {
        self.args.runs.unwrap_or((10.0 * CALLS / calls.max(1.0)).clamp(4.0, MOST_RUNS) as u32)
    }

    pub(super) fn question<'b>(
        &'b self,
        settings: &Settings,
        engine: &'b str,
        command: &'b str,
    ) -> Question<'b> {
        Question {
            name: self.name,
            text: &self.text,
            sets: &self.sets,
            seed: settings.seed,
            runs: settings.runs,
            engine,
            command,
        }
    }

    /// What to type to get it again.
    pub(super) fn command(&self, runs: u32) -> String {
        let args = self.args;
        let mut words = vec!["redial".to_owned(), "sim".to_owned(), quote(self.name)];
        let mut flag = |flag: &str, value: &str| words.push(format!("--{flag} {}", quote(value)));
        if !args.policies.is_empty() {
            self.policies.iter().for_each(|policy| flag("policy", policy));
        }
        args.sets.iter().for_each(|set| flag("set", set));
        args.clients.iter().for_each(|clients| flag("clients", &clients.to_string()));
        args.sweeps.iter().for_each(|sweep| flag("sweep", sweep));
        args.metrics.iter().for_each(|metric| flag("metric", metric));
        match args.engine {
            Choice::Auto => {}
            Choice::Exact => flag("engine", "exact"),
            Choice::Cohort => flag("engine", "cohort"),
        }
        flag("seed", &args.seed.to_string());
        flag("runs", &runs.to_string());
        words.join(" ")
    }
}

/// The text of the scenario that an argument means: a built-in one by its name, or else a file.
pub(super) fn source(name: &str) -> Result<String, Failed> {
    if let Some(built_in) = BuiltIn::find(name) {
        return Ok(built_in.text.to_owned());
    }
    policy::read_file(name).map_err(|error| {
        if policy::looks_like_file(name) {
            return Failed::input(name, error);
        }
        let known = BUILT_IN.iter().map(|known| known.name).chain([CONTENTION]);
        let known = known.collect::<Vec<_>>().join(", ");
        Failed::input(name, format!("no scenario has this name ({known}), and as a file: {error}"))
    })
}

/// The scenario's own come first: a file that happens to have the same name must not take their place.
fn subject(scenario: &Scenario, name: &str) -> Result<Subject, Failed> {
    let wrong = |why: String| Failed::input(format_args!("--policy {name}"), why);
    match scenario.subject(name) {
        Ok(subject) => Ok(subject),
        Err(why) if scenario.policy.contains_key(name) => Err(wrong(why)),
        Err(_) => {
            let own = scenario.policy.keys().map(String::as_str).chain(["no-retry"]);
            let own = own.collect::<Vec<_>>().join(", ");
            let none = |why: String| match policy::looks_like_file(name) {
                true => wrong(why),
                false => wrong(format!("the scenario has no such policy ({own}), {why}")),
            };
            Subject::new(name, policy::load(name).map_err(none)?).map_err(wrong)
        }
    }
}

/// A word that a shell takes for one word.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
