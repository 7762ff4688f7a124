//! What a default should keep.

use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Rate};
use redial_sim::bench::{
    Bound, Cell, CellResult, Family, Measure, OutageFigure, Plan, PolicyScores, Ranking, Score,
    Scores, Suite, Unit, bars, judged, outages, rank,
};
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject};

/// Of one run. A call at risk counts for more than a call of the whole run, or for less.
fn entry(name: &str, loss: f64, failed: f64) -> PolicyScores {
    let score = Score {
        loss,
        failed,
        load: 1.5,
        attempts_per_call: 1.0 + failed,
        peak: 1.497 + failed,
        failure_ms: None,
        open: 0,
        p99_ms: 30.0,
        duplicates: 0.0,
        collapsed: failed > 0.5,
    };
    PolicyScores { name: name.to_owned(), scores: Scores(vec![score]) }
}

/// A hundred cells in which one attempt loses a tenth of all calls, and half of those at risk. `standard` loses more, by
/// these points, in the first ones, and is as good in the others.
fn rankings(above: &[f64], peer: f64) -> Vec<Ranking> {
    let text = "duration = \"9s\"\npolicies = [\"no-retry\"]\nclients = { arrivals = { poisson = { rate = 9 } } }\n";
    let scenario = Scenario::read(&format!("title = \"it\"\n{text}"), &[]).unwrap();
    let cell = Cell {
        name: "it".to_owned(),
        kind: "test",
        suite: Suite::Random,
        scenario,
        text: text.to_owned(),
        deadline: Duration::from_secs(1),
        timeout: None,
    };
    let result = |place: usize| {
        let above = above.get(place).unwrap_or(&0.0) / 100.0;
        let oracle = entry("best", 0.5, 0.1);
        CellResult {
            cell: place,
            one_attempt: oracle.scores.clone(),
            oracle,
            policies: vec![
                entry("standard", 0.5 + 2.0 * above, 0.1 + above),
                entry("peer:it", 0.5 - peer, 0.1 + peer),
            ],
        }
    };
    let results: Vec<CellResult> = (0..100).map(result).collect();
    rank(&vec![cell; 100], &results, |_| true, Measure::WholeRun)
}

/// The bars of `standard` that are missed.
fn missed(suite: Suite, family: Option<Family>, above: &[f64]) -> Vec<String> {
    let all = bars(suite, family, &rankings(above, 0.01), "standard");
    all.into_iter().filter(|bar| bar.is_kept() != Some(true)).map(|bar| bar.what).collect()
}

/// One attempt makes 1.1 attempts per call here, with a peak of 1.597.
#[test]
fn a_policy_keeps_a_bar_up_to_its_limit() {
    let none: [&str; 0] = [];
    let (deadline, timeout) = (Some(Family::Deadline), Some(Family::Timeout));
    let check = |suite, family, above: &[f64], expected: &[&str]| {
        assert_eq!(missed(suite, family, above), expected, "{suite:?} {family:?} {above:?}");
    };
    let against = "worst against one attempt";
    check(Suite::Random, deadline, &[5.4; 3], &none);
    check(Suite::Random, deadline, &[5.6; 3], &[against]);
    check(Suite::Random, deadline, &[1.1; 5], &["cells lost to one attempt"]);
    check(Suite::Random, deadline, &[0.53; 100], &["mean regret"]);
    check(Suite::Random, timeout, &[18.4; 4], &none);
    check(Suite::Random, timeout, &[18.6], &[against]);
    let collapses = "own collapses";
    check(Suite::Random, timeout, &[45.0], &[against]);
    check(Suite::Random, timeout, &[45.0; 2], &["mean regret", against, collapses]);
    check(Suite::Random, timeout, &[1.1; 5], &["cells lost to one attempt"]);
    check(Suite::Random, timeout, &[0.86; 100], &["mean regret"]);
    check(Suite::Random, None, &[], &["attempts per call"]);
    check(Suite::BuiltIn, deadline, &[4.9; 8], &none);
    check(Suite::BuiltIn, deadline, &[5.1], &["worst regret"]);
    check(Suite::BuiltIn, deadline, &[0.41; 100], &["mean regret"]);
    check(Suite::BuiltIn, timeout, &[0.44; 100], &none);
    check(Suite::BuiltIn, timeout, &[0.46; 100], &["mean regret"]);
    check(Suite::BuiltIn, timeout, &[5.1], &["worst regret"]);
    check(Suite::BuiltIn, None, &[1.9; 100], &none);
    check(Suite::BuiltIn, None, &[2.1; 100], &["attempts per call"]);
    check(Suite::HighTraffic, None, &[0.29; 100], &none);
    check(Suite::HighTraffic, None, &[0.31; 100], &["mean regret", "mean peak"]);
    let regret = "mean regret of calls at risk";
    check(Suite::HighTraffic, None, &[0.76; 100], &["mean regret", regret, "mean peak"]);
    check(Suite::Named, deadline, &[5.1; 3], &none);
    check(Suite::Named, None, &[5.1; 100], &none);
}

#[test]
fn no_peer_is_better() {
    let missed = ["mean regret, no peer has less", "own collapses"];
    let above = [0.0, 0.0, 45.0];
    for suite in Suite::ALL {
        let all = bars(suite, Some(Family::Deadline), &rankings(&above, 0.001), "standard");
        for what in missed {
            let bar = all.iter().find(|bar| bar.what == what).unwrap();
            assert_eq!(bar.is_kept(), Some(false), "{bar:?}");
            assert_eq!(bar.group, format!("{}, deadline", suite.name()));
        }
        let regret = all.iter().find(|bar| bar.what == missed[0]).unwrap();
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        let limit = regret.bound.unwrap().value();
        assert!(near(regret.value, 0.0045) && near(limit, 0.001), "{regret:?}");
        assert!(near(regret.at_risk.unwrap(), 0.009), "{regret:?}");
        let mut alone = rankings(&above, 0.0);
        alone.retain(|it| it.name == "standard");
        let without_peers = bars(suite, Some(Family::Deadline), &alone, "standard");
        assert_eq!(without_peers.len(), all.len() - 1);
    }
}

#[test]
fn rankings_are_in_the_order_of_their_measure() {
    let all = rankings(&[0.1], 0.01);
    let order = |by: Measure| {
        let value = |name: &str| all.iter().find(|it| it.name == name).unwrap().by(by).mean_regret;
        value("standard").value < value("peer:it").value
    };
    assert!(order(Measure::WholeRun) && !order(Measure::AtRisk));
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["oracle", "standard", "peer:it"]);
}

#[test]
fn standard_is_judged_or_the_only_policy_that_is_not_a_peer() {
    for (names, judges) in [
        (&["no-retry", "web", "standard", "peer:aws"][..], Some(2)),
        (&["no-retry", "my.toml", "peer:aws"], Some(1)),
        (&["no-retry", "peer:aws"], Some(1)),
        (&["no-retry", "web", "player"], None),
        (&["no-retry", "peer:aws", "peer:grpc"], None),
        (&["no-retry"], None),
    ] {
        let subjects = names.iter().map(|name| Subject::new(*name, Policy::standard()).unwrap());
        assert_eq!(judged(&subjects.collect::<Vec<_>>()), judges, "{names:?}");
    }
}

#[test]
fn the_floor_of_a_budget_is_multiplied_by_the_number_of_clients() {
    let wait = Duration::from_millis(10);
    let twice = |budget| {
        let draft = Draft::bare(2).backoff(Backoff::exponential(wait, wait)).budget(budget);
        Subject::new("twice", draft.build().unwrap()).unwrap()
    };
    let floor = WindowBudget::ratio(0.1).floor(Rate::per_second(1));
    let subjects = [Subject::no_retry(), twice(Budget::None), twice(Budget::Window(floor))];
    let plan =
        Plan { cells: &[], outages: true, subjects: &subjects, runs: 1, seed: 1, threads: 2 };
    let all = outages(&plan, &Watch::default()).unwrap();
    let value = |what: &str, policy: usize| {
        let outage = all.iter().find(|outage| outage.what == what);
        outage.unwrap_or_else(|| panic!("{what}: {all:#?}")).values[policy]
    };
    // A thousand clients make a call a second on average; where one makes several, the floor pays for fewer.
    for answer in ["503", "refused"] {
        for (clients, budgeted) in [("10", 1.11), ("1,000", 1.85), ("100,000", 2.0)] {
            let what = format!("attempts per call, {answer}, {clients} clients");
            for (policy, expected) in [1.0, 2.0, budgeted].into_iter().enumerate() {
                let value = value(&what, policy);
                assert!((value - expected).abs() < 0.05, "{what}: {value}");
            }
        }
    }
    assert!((value("attempts per call, hanging, 1,000 clients", 1) - 2.0).abs() < 0.05);
    for part in ["first 10 s", "after 10 s"] {
        let what = format!("attempts per call, new processes, {part}");
        assert!((value(&what, 1) - 2.0).abs() < 0.05, "{what}");
    }
    for (policy, expected) in [0.0, 5.0].into_iter().enumerate() {
        let value = value("time to failure, outage, 10 s", policy);
        assert!((value - expected).abs() < 0.2, "half of the longest wait: {value}");
    }
    for (what, expected) in [("1 s", 0.972), ("3 s", 0.921)] {
        let value = value(&format!("success, small clients, {what}"), 0);
        assert!((value - expected).abs() < 0.005, "a second of 36, three of 38: {value}");
    }
    let flapping = value("success, flapping", 0);
    assert!((flapping - 0.88).abs() < 0.01, "12 s of 100: {flapping}");
    assert!(outages(&Plan { outages: false, ..plan }, &Watch::default()).unwrap().is_empty());
}

#[test]
fn the_bars_of_outages() {
    let plan = Plan { cells: &[], outages: true, subjects: &[], runs: 1, seed: 1, threads: 1 };
    let all = outages(&plan, &Watch::default()).unwrap();
    let most = |what: &str, limit: f64| (what.to_owned(), Some(Bound::AtMost(limit)));
    let least = |what: &str, limit: f64| (what.to_owned(), Some(Bound::AtLeast(limit)));
    let mut expected = Vec::new();
    for (answer, of_thousand) in [("503", 1.05), ("refused", 1.05), ("hanging", 1.1)] {
        let what = |clients: &str| format!("attempts per call, {answer}, {clients} clients");
        expected.push(most(&what("10"), 1.01));
        expected.push(most(&what("1,000"), of_thousand));
        expected.push((what("100,000"), None));
    }
    expected.extend([
        most("attempts per call, new processes, first 10 s", 1.5),
        most("attempts per call, new processes, after 10 s", 1.1),
        most("time to failure, outage, 10 s", 1_000.0),
        most("time to failure, outage, 60 s", 300.0),
        least("success, small clients, 1 s", 0.995),
        least("success, small clients, 3 s", 0.955),
        least("success, blip", 0.999),
        least("success, blip-synchronised", 0.999),
        least("success, flapping", 0.999),
        least("success, rate-limited", 0.999),
    ]);
    let bounds = all.into_iter().map(|outage| (outage.what, outage.bound));
    assert_eq!(bounds.collect::<Vec<_>>(), expected);
}

#[test]
fn outages_have_upper_and_lower_limits() {
    let outage = |bound, value| {
        let (what, column, unit) = ("it".to_owned(), ["", "it"], Unit::Attempts);
        OutageFigure { what, column, unit, bound, values: vec![0.0, value] }
    };
    for (bound, value, kept) in [
        (Some(Bound::AtMost(1.05)), 1.05, Some(true)),
        (Some(Bound::AtMost(1.05)), 1.06, Some(false)),
        (Some(Bound::AtLeast(0.999)), 0.999, Some(true)),
        (Some(Bound::AtLeast(0.999)), 0.998, Some(false)),
        (None, 3.5, None),
    ] {
        let bar = outage(bound, value).bar(1).unwrap();
        assert_eq!((bar.value, bar.is_kept()), (value, kept), "{bar:?}");
    }
}
