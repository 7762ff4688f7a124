use redial_sim::exact;
use redial_sim::measure::{Run, Summary};
use redial_sim::scenario::{BuiltIn, Scenario, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};

pub(crate) fn run(scenario: &Scenario, policy: &str, runs: u32) -> Summary {
    let subject = scenario.subject(policy).unwrap();
    let method = Choice::Exact.method(scenario, &subject).unwrap();
    simulate(&method, &Settings { runs, seed: 1, threads: 2 }, &Watch::default())
}

pub(crate) fn once(scenario: &Scenario, policy: &str, seed: u64) -> Run {
    exact::run(scenario, &scenario.subject(policy).unwrap(), seed, &Watch::default())
}

pub(crate) fn built_in(name: &str, sets: &[&str]) -> Scenario {
    BuiltIn::find(name).unwrap().read(&read_sets(sets)).unwrap()
}

pub(crate) fn read_sets(sets: &[&str]) -> Vec<Set> {
    sets.iter().map(|set| Set::read(set).unwrap()).collect()
}

/// A scenario from its parts. `policy` is named "it".
pub(crate) fn scenario(duration: &str, clients: &str, rest: &str, policy: &str) -> Scenario {
    let text = format!(
        "title = \"test\"\nduration = \"{duration}\"\npolicies = [\"it\"]\n\
         [clients]\n{clients}\n[policy.it]\n{policy}\n{rest}\n"
    );
    Scenario::read(&text, &[]).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// A policy that makes this many attempts, 1 ms apart, without other limits.
pub(crate) fn attempts(count: u32) -> String {
    format!(
        "attempts = {count}\ndeadline = \"none\"\nbudget = \"none\"\nstall = \"none\"\n\
         backoff = {{ growth = \"constant\", base = \"1ms\", cap = \"1ms\", jitter = \"none\" }}\n"
    )
}

/// A budget of a tenth of the calls, and neither hedges nor calls held back: the rest of a policy is up to the test.
pub(crate) const TENTH: &str =
    "budget = { window = {} }\nhedge = \"none\"\nstall = \"none\"\npark = \"none\"\n";

#[track_caller]
pub(crate) fn near(what: &str, found: f64, expected: f64, relative: f64) {
    let off = (found - expected).abs() / expected.abs();
    assert!(off <= relative, "{what} is {found}, and should be {expected} within {relative}");
}
