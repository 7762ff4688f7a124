//! What a default should keep.

use std::time::Duration;

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Rate};
use redial_sim::bench::{
    Bar, Cell, CellResult, Entry, Family, Measure, Plan, Ranking, Score, Scores, Suite, bars,
    judged, outages, rank,
};
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject};

/// Of one run. A call at risk counts for more than a call of the whole run, or for less.
fn entry(name: &str, loss: f64, failed: f64) -> Entry {
    let score = Score {
        loss,
        failed,
        load: 1.5,
        attempts_per_call: 1.0 + failed,
        peak: 2.0,
        failure_ms: None,
        open: 0,
        p99_ms: 30.0,
        duplicates: 0.0,
        collapsed: failed > 0.5,
    };
    Entry { name: name.to_owned(), scores: Scores(vec![score]) }
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

fn check(family: Family, above: &[f64], peer: f64, missed: &[&str]) {
    let all = bars(family, &rankings(above, peer), "standard");
    let kept = |bar: &&Bar| bar.is_kept() != Some(true);
    let names: Vec<&str> = all.iter().filter(kept).map(|bar| bar.what.as_str()).collect();
    assert_eq!(names, missed, "{all:#?}");
}

#[test]
fn a_policy_keeps_a_bar_up_to_its_limit() {
    let attempts = "attempts per call";
    let mut above = vec![1.9];
    check(Family::Deadline, &above, 0.01, &[attempts]);
    above.push(2.1);
    let missed = ["cells lost to one attempt", "worst against one attempt", attempts];
    check(Family::Deadline, &above, 0.01, &missed);
    check(Family::Timeout, &above, 0.01, &[attempts]);
    above.extend([10.0; 6]);
    let missed = ["cells lost to one attempt", "worst against one attempt", "p95 regret", attempts];
    check(Family::Timeout, &above, 0.01, &missed);
    above.extend([10.0; 10]);
    let all = ["mean regret", "p95 regret", "mean regret, no peer has less"];
    check(Family::Timeout, &above, 0.01, &[&missed[..2], &all, &[attempts]].concat());
}

#[test]
fn no_peer_is_better() {
    let missed =
        ["mean regret, no peer has less", "own collapses", "own collapses, no peer has fewer"];
    let above = [0.0, 0.0, 45.0];
    let all = bars(Family::Deadline, &rankings(&above, 0.001), "standard");
    for what in missed {
        let bar = all.iter().find(|bar| bar.what == what).unwrap();
        assert_eq!(bar.is_kept(), Some(false), "{bar:?}");
    }
    let regret = all.iter().find(|bar| bar.what == missed[0]).unwrap();
    let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
    assert!(near(Some(regret.value), 0.0045) && near(regret.limit, 0.001), "{regret:?}");
    assert!(near(regret.at_risk, 0.009), "{regret:?}");
    let alone: Vec<Ranking> =
        rankings(&above, 0.0).into_iter().filter(|it| it.name == "standard").collect();
    assert_eq!(bars(Family::Deadline, &alone, "standard").len(), all.len() - 2, "without peers");
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
    assert_eq!(plan.total_runs(), 24.0);
    let all = outages(&plan, &Watch::default()).unwrap();
    let kinds: Vec<_> = all.iter().map(|it| (it.answer, it.clients)).collect();
    let clients = [10, 1_000, 100_000];
    let each = |answer| clients.map(|clients| (answer, clients));
    assert_eq!(kinds, [each("503"), each("refused")].concat());
    // A thousand clients make a call a second on average; where one makes several, the floor pays for fewer.
    for (outage, budgeted) in all.iter().zip([1.11, 1.85, 2.0].repeat(2)) {
        let expected = [1.0, 2.0, budgeted];
        for (value, expected) in outage.attempts_per_call.iter().zip(expected) {
            assert!((value - expected).abs() < 0.05, "{outage:?}");
        }
        let kept = outage.bar(2).unwrap().is_kept();
        assert_eq!(kept, (outage.clients <= 1_000).then_some(outage.clients == 10), "{outage:?}");
    }
    assert!(outages(&Plan { outages: false, ..plan }, &Watch::default()).unwrap().is_empty());
}
