//! Turns arguments into scenarios, policies and settings. All input errors are found here, before any work begins.

use std::io::{self, Write as _};

use redial_policy::nearest;
use redial_sim::measure::Engine;
use redial_sim::report::SimulationSetup;
use redial_sim::scenario::{BUILT_IN, BuiltIn, Set};
use redial_sim::simulate::{Choice, Method, Settings};
use redial_sim::{Scenario, Subject};

use super::args::{Options, ScenarioOptions, SweepArgs};
use super::contention;
use super::setting::Numbers;
use crate::failed::Failed;
use crate::foreign::Loaded;
use crate::policy;
use crate::problem::plain_problem;
use crate::text::sanitise;

/// The number of simulated calls of each policy by default, or as much work of another engine.
const CALLS: f64 = 5e6;
const MOST_RUNS: f64 = 20.0;

/// Where a scenario comes from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A built-in one, or a file.
    Named(&'a str),
    /// Flags.
    Setting(Numbers),
}

impl Source<'_> {
    fn name(self) -> String {
        match self {
            Self::Named(name) => name.to_owned(),
            Self::Setting(numbers) => numbers.flags(),
        }
    }

    /// The text of its file.
    pub(super) fn text(self) -> Result<String, Failed> {
        match self {
            Self::Named(name) => source(name),
            Self::Setting(numbers) => numbers.text(),
        }
    }
}

pub(super) struct Request<'a> {
    source: Source<'a>,
    /// In messages and in JSON.
    name: String,
    scenario_options: &'a ScenarioOptions,
    options: &'a Options,
    pub(super) text: String,
    pub(super) sets: Vec<Set>,
    pub(super) scenario: Scenario,
    pub(super) policies: Vec<String>,
}

impl<'a> Request<'a> {
    pub(super) fn read(
        source: Source<'a>,
        scenario_options: &'a ScenarioOptions,
        options: &'a Options,
    ) -> Result<Self, Failed> {
        let (text, name) = (source.text()?, source.name());
        let sets = options
            .sets
            .iter()
            .map(|set| Set::read(set).map_err(|problem| Failed::input("--set", problem)));
        let mut sets = sets.collect::<Result<Vec<_>, _>>()?;
        let read = |sets: &[Set]| scenario(&name, &text, sets);
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
        warn_of_losses(&scenario, &policies)?;
        Ok(Self { source, name, scenario_options, options, text, sets, scenario, policies })
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
        let place = if choice == Choice::Cohort { "--engine cohort" } else { &self.name };
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
            name: &self.name,
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
        let scenario = match self.source {
            Source::Named(name) => quote(name),
            Source::Setting(_) => self.name.clone(),
        };
        let mut words = vec!["redial".to_owned(), "sim".to_owned(), scenario];
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
            let Loaded { named, checks_safety, foreign } = Loaded::read(name).map_err(none)?;
            // Some systems have no limit of attempts.
            let most = named.policy.attempts().min(Subject::MOST_ATTEMPTS);
            let policy = match foreign {
                Some(_) => named.policy.edit().attempts(most).build(),
                None => Ok(named.policy),
            };
            let policy = policy.map_err(|invalid| wrong(invalid.to_string()))?;
            let subject = Subject::new(name, policy);
            let subject = subject.map(|it| Subject { careless: !checks_safety, ..it });
            subject.and_then(|subject| scenario.accept(subject)).map_err(wrong)
        }
    }
}

/// Names the fields of other systems' configs that the simulated policies do not have as they are. What cannot be read is
/// reported later.
pub(super) fn warn_of_losses(scenario: &Scenario, names: &[String]) -> io::Result<()> {
    let loaded = |name: &String| match scenario.subject(name) {
        Ok(_) => None,
        Err(_) => Loaded::read(name).ok().map(|loaded| (sanitise(name), loaded)),
    };
    for (name, Loaded { named, foreign, .. }) in names.iter().filter_map(loaded) {
        let Some(foreign) = foreign else { continue };
        let mut parts = Vec::new();
        match foreign.losses().count() {
            0 => {}
            1 => parts.push("one field is not the same".to_owned()),
            lost => parts.push(format!("{lost} fields are not the same")),
        }
        if named.policy.attempts() > Subject::MOST_ATTEMPTS {
            parts.push(format!("simulated with {} attempts", Subject::MOST_ATTEMPTS));
        }
        if !parts.is_empty() {
            let (format, parts) = (foreign.format.name(), parts.join(", "));
            let explain = format!("redial explain --policy {}", quote(&name));
            writeln!(io::stderr(), "{name}: a config of {format}; {parts}; see `{explain}`")?;
        }
    }
    Ok(())
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
