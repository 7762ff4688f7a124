//! Reading scenario files, and the error messages.

use redial_core::{Span, Time};
use redial_policy::{Position, PositionCursor};
use redial_sim::Scenario;
use redial_sim::scenario::Set;

const FILE: &str = "\
title = \"test\"
duration = \"10s\"
policies = [\"standard\", \"mine\", \"peer:envoy\", \"no-retry\"]

[clients]
instances = 10
arrivals = { poisson = { load = 0.5 } }

[backend]
servers = 10
service = { exponential = \"10ms\" }
queue = 100

[outage]
start = \"2s\"
duration = \"200ms\"

[policy.mine]
attempts = 2
";

/// The problem of a scenario, after its place.
fn problem(text: &str, sets: &[&str]) -> String {
    let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
    let problem = Scenario::read(text, &sets).unwrap_err();
    let Some(span) = problem.span else { return problem.to_string() };
    let Position { line, column, .. } = PositionCursor::new(text).go(span);
    format!("line {line}, column {column}: {problem}")
}

fn at(ms: u64) -> Time {
    Time::at(Span::from_millis(ms))
}

#[test]
fn a_scenario_file_is_read() {
    let scenario = Scenario::read(FILE, &[]).unwrap();
    assert_eq!(scenario.rate(), Some(500.0));
    assert_eq!(scenario.fault_span(), Some((at(2_000), at(2_200))));
    assert_eq!(scenario.subject("mine").unwrap().policy.attempts(), 2);
    assert!(scenario.subject("peer:envoy").unwrap().careless);
}

#[test]
fn any_parameter_can_be_set() {
    let set = |sets: &[&str]| {
        let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
        Scenario::read(FILE, &sets).unwrap()
    };
    assert_eq!(set(&["outage.duration=2s"]).outage[0].duration, Span::from_secs(2));
    assert_eq!(set(&["clients.arrivals.poisson.load=0.8"]).rate(), Some(800.0));
    assert_eq!(set(&["clients.arrivals={constant={rate=7}}"]).rate(), Some(7.0));
    assert_eq!(set(&["backend.service=20ms"]).backend.capacity(), 500.0);
    assert_eq!(set(&["policy.mine.attempts=5"]).subject("mine").unwrap().policy.attempts(), 5);
    assert_eq!(set(&["title=a b"]).title, "a b");
    let slow = |factor: &str| {
        set(&[&format!("slowdown={{start=\"1s\",duration=\"5s\",factor={factor}}}")])
    };
    assert_eq!(slow("2").fault_span(), Some((at(1_000), at(6_000))));
    assert_eq!(slow("1").fault_span(), set(&[]).fault_span());
    let twice =
        FILE.replace("[outage]", "[[outage]]") + "[[outage]]\nstart = \"5s\"\nduration = \"1s\"\n";
    let twice = twice.replace("[policy.mine]\nattempts = 2\n", "").replace("\"mine\", ", "");
    let sets = [Set::read("outage.share=0.5").unwrap(), Set::read("outage.1.start=6s").unwrap()];
    let outages = Scenario::read(&twice, &sets).unwrap().outage;
    assert_eq!(outages.iter().map(|it| it.share).collect::<Vec<_>>(), [0.5, 0.5]);
    assert_eq!(outages[1].start, at(6_000));
}

/// The load and the capacity that it needs.
const LIMITED: &str =
    "load = 0.5 } }\n\n[backend]\nservers = 10\nservice = { exponential = \"10ms\" }\nqueue = 100";

/// One line for each error.
#[test]
fn errors_name_their_place() {
    let cases = [
        ("queue = 100", "queu = 100", "line 12, column 1", "unknown field `queu`"),
        ("servers = 10", "servers = 0", "line 10, column 11", "from 1 to"),
        ("instances = 10", "instances = 1000000000000", "line 6, column 13", "from 1 to 25000000"),
        ("\"10ms\"", "\"10\"", "line 11", "a duration such as"),
        ("exponential = \"10ms\"", "exponential = \"0s\"", "line 11", "mean above zero"),
        (
            "exponential = \"10ms\"",
            "gamma = \"10ms\"",
            "line 11",
            "must be one of exponential, uniform, normal, lognormal, but is `gamma`",
        ),
        (
            "{ exponential = \"10ms\" }",
            "{ uniform = { from = \"2s\", to = \"1s\" } }",
            "line 11",
            "`from` has to be at most `to`",
        ),
        ("load = 0.5", "load = -1", "line 7", "above 0"),
        ("load = 0.5", "load = nan", "line 7", "above 0"),
        (
            "\"standard\", ",
            "\"standart\", ",
            "line 3, column 12",
            "no policy is called \"standart\"",
        ),
        (
            "start = \"2s\"",
            "start = \"20s\"",
            "line 15, column 9",
            "before the end of the run (10s)",
        ),
        ("servers = 10\n", "", "line 7", "the backend has no limit"),
        ("queue = 100", "calls = [\"b\"]", "", "there is no [service.b]"),
        ("attempts = 2", "attempts = 0", "line 18", "attempts"),
        ("attempts = 2", "attempts = 100000", "line 3", "at most 65535"),
        ("duration = \"10s\"", "duration = \"6d\"", "", "too short for this duration"),
        ("duration = \"10s\"", "duration = \"0s\"", "line 2", "above zero"),
        (
            "poisson = { load = 0.5 }",
            "closed = { callers = 50, think = { uniform = { from = \"0s\", to = \"0s\" } } }",
            "line 7",
            "would call without end",
        ),
        (
            "poisson = { load = 0.5 }",
            "closed = { callers = 5, think = \"1s\" }",
            "line 6",
            "more instances than callers",
        ),
    ];
    check(&cases);
}

#[test]
fn errors_of_the_work_of_a_backend_name_their_place() {
    check(&[
        ("queue = 100", "discipline = \"random\"", "line 12", "processor-sharing, but is `random`"),
        (LIMITED, "rate = 5 } }\n\n[backend]\ndiscipline = \"lifo\"", "line 10", "set servers"),
        (LIMITED, "rate = 5 } }\n\n[backend]\nreject_cost = 0.1", "line 10", "set servers"),
        ("queue = 100", "error_cost = 0.1", "line 12", "set errors and service"),
        ("duration = \"200ms\"", "duration = \"1s\"\ncost = 2.0", "line 17", "from 0 to 1"),
        (
            "duration = \"200ms\"",
            "duration = \"1s\"\ncost = 1.0\nanswer = \"connect\"",
            "line 17",
            "costs no work",
        ),
        (
            "{ exponential = \"10ms\" }",
            "{ base = \"10ms\", per_call = \"1ms\" }",
            "line 11",
            "unknown field `per_call`",
        ),
        ("{ exponential = \"10ms\" }", "{ base = \"10ms\" }", "line 11", "missing field"),
        (
            "queue = 100",
            "hint = \"slots\"\ndiscipline = \"processor-sharing\"",
            "line 12",
            "one request at a time",
        ),
    ]);
}

#[test]
fn errors_of_clients_and_endpoints_name_their_place() {
    check(&[
        (
            "instances = 10\narrivals = { poisson = { load = 0.5 } }",
            "instances = 2000000\narrivals = { closed = { callers = 4000000, think = \"1s\" } }",
            "line 3",
            "more than the 1000000 that fit",
        ),
        (
            "instances = 10",
            "instances = \"each\"",
            "line 6, column 13",
            "a fixed number of callers",
        ),
        ("instances = 10", "lifetime = 0", "line 6, column 12", "from 1 to"),
        ("instances = 10", "guards = \"endpoint\"", "line 6, column 10", "retry_to = \"same\""),
        (
            "instances = 10",
            "guards = \"endpoint\"\nretry_to = \"same\"",
            "line 6, column 10",
            "set backend.endpoints",
        ),
        (
            "instances = 10",
            "choose = \"two-choices\"",
            "line 6, column 10",
            "set backend.endpoints",
        ),
        ("instances = 10", "retry_to = \"any\"", "line 6, column 12", "set backend.endpoints"),
        ("instances = 10", "guards = \"shard\"", "line 6, column 10", "set backend.shards"),
        ("instances = 10", "requeue = \"0s\"", "line 6, column 11", "above zero"),
        ("instances = 10", "requeue = \"soon\"", "line 6, column 11", "a duration such as"),
        (
            "instances = 10",
            "others = [{ policy = \"mime\", share = 0.1 }]",
            "line 6, column 10",
            "no policy is called \"mime\"",
        ),
        (
            "instances = 10",
            "instances = 10\nothers = [{ policy = \"mine\", share = 0.96 }]",
            "line 7, column 10",
            "no instance with the policy under test",
        ),
        (
            "instances = 10",
            "instances = 10\nothers = [{ policy = \"mine\", share = 0.04 }]",
            "line 7, column 10",
            "0.04 of 10 instances",
        ),
        ("queue = 100", "endpoints = 4\nshards = 2", "line 12", "use only one of them"),
        ("queue = 100", "endpoints = 65", "line 12", "from 1 to 64"),
        (
            "duration = \"200ms\"",
            "duration = \"1s\"\nendpoint = 1",
            "line 17",
            "1 endpoints, from 0",
        ),
    ]);
}

/// What to replace, by what, and the expected place and message.
fn check(cases: &[(&str, &str, &str, &str)]) {
    for (from, to, place, what) in cases {
        let message = problem(&FILE.replacen(from, to, 1), &[]);
        assert!(message.contains(place), "{to}: no {place:?} in {message}");
        assert!(message.contains(what), "{to}: no {what:?} in {message}");
    }
}

#[test]
fn errors_name_the_set_parameter() {
    let message = problem(FILE, &["outage.duratoin=2s"]);
    assert!(
        message.contains("--set outage.duratoin=\"2s\"") && message.contains("unknown field"),
        "{message}"
    );
    let message = problem(FILE, &["clients.instances.x=2"]);
    assert!(message.contains("is not a table"), "{message}");
    let message = problem(FILE, &["backend.backlog=101"]);
    assert!(message.contains("backend.backlog: has to fit into the queue"), "{message}");
    for wrong in ["outage", "=2", "a..b=1", ".=1"] {
        assert!(Set::read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn cycles_and_unreachable_services_are_refused() {
    let cycle = FILE.replace("queue = 100", "queue = 100\ncalls = [\"a\"]")
        + "[service.a]\ncalls = [\"b\"]\n[service.b]\ncalls = [\"a\"]\n";
    assert!(problem(&cycle, &[]).contains("in a cycle"));
    let copies = FILE.replace("queue = 100", "calls = [\"a\"]") + "[service.a]\nendpoints = 2\n";
    assert!(problem(&copies, &[]).contains("only the backend has endpoints"));
    let alone = format!("{FILE}[service.a]\n");
    assert!(problem(&alone, &[]).contains("not called by any service"));
}

#[test]
fn more_than_fits_into_memory_is_refused_before_it_begins() {
    let closed = "clients={arrivals={closed={callers=25000000,think=\"1s\"}},latency=\"10ms\"}";
    let message = problem(FILE, &[closed]);
    assert!(message.contains("at most 20000000 fit into memory"), "{message}");
    let counts =
        FILE.replacen("instances = 10", "instances = 4000000\nchoose = \"two-choices\"", 1);
    let counts = counts.replacen("queue = 100", "endpoints = 63", 1);
    let message = problem(&counts, &["policies=[\"no-retry\"]"]);
    assert!(message.contains("252000000 counts"), "{message}");
}
