//! The score of policies.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::Policy;
use redial_sim::bench::{
    Bound, Cell, CellResult, Family, Measure, OutageFigure, Plan, PolicyScores, Score, Scores,
    Suite, Unit, bench, candidates, rank,
};
use redial_sim::report::BenchReport;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject};

/// A second of outage in which nothing is served; a call takes a millisecond.
const OUTAGE: &str = r#"
title = "A call every millisecond, and a second of outage"
duration = "6s"
policies = ["no-retry"]
clients = { arrivals = { constant = { rate = 1000 } } }
backend = { service = "1ms" }
outage = { start = "2s", duration = "1s" }
"#;

fn cell(text: &str, deadline: Duration, timeout: Option<Duration>) -> Cell {
    let scenario = Scenario::read(text, &[]).unwrap();
    let suite = Suite::Named;
    let (name, text) = ("it".to_owned(), text.to_owned());
    Cell { name, kind: "test", suite, scenario, text, deadline, timeout }
}

fn once_after(wait: Duration) -> Subject {
    use redial_core::schedule::{Backoff, Jitter};
    let backoff = Backoff::exponential(wait, wait).jitter(Jitter::None);
    let policy = redial_core::Draft::bare(2).backoff(backoff).build().unwrap();
    Subject::new(format!("once after {wait:?}"), policy).unwrap()
}

fn result(cell: &Cell, subjects: &[Subject], threads: usize) -> CellResult {
    let cells = std::slice::from_ref(cell);
    let plan = Plan { cells, outages: false, subjects, runs: 2, seed: 3, threads };
    bench(&plan, &Watch::default()).unwrap().remove(0)
}

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn calls_at_risk_are_those_that_begin_until_one_attempt_has_recovered() {
    let subjects = [Subject::no_retry(), once_after(MS(600)), once_after(MS(1500))];
    let result = result(&cell(OUTAGE, MS(2000), None), &subjects, 1);
    let losses: Vec<f64> = result.policies.iter().map(|entry| entry.scores.loss()).collect();
    // A retry after 600 ms finds the backend up again if its call began in the last 600 ms of the outage.
    assert_eq!(losses[0], 1.0);
    assert!((losses[1] - 0.4).abs() < 0.002, "{losses:?}");
    assert_eq!(losses[2], 0.0);
    // Every call at risk was tried twice; the retries of the last ones arrive after the trouble.
    let load = |place: usize| result.policies[place].scores.load();
    assert_eq!(load(0), 1.0);
    assert!((load(1) - 1.4).abs() < 0.06, "{}", load(1));
    assert_eq!(result.one_attempt, result.policies[0].scores, "the same seeds");
    assert!(
        result.oracle.scores.load() < 1.6,
        "no oracle may double the load: {:?}",
        result.oracle
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let cells: Vec<Cell> =
        [300, 2000].map(|deadline| cell(OUTAGE, MS(deadline), Some(MS(100)))).to_vec();
    let subjects = [once_after(MS(100))];
    let of = |threads| {
        let plan =
            Plan { cells: &cells, outages: false, subjects: &subjects, runs: 2, seed: 3, threads };
        let results = bench(&plan, &Watch::default()).unwrap();
        let entries = results.into_iter().map(|it| (it.one_attempt, it.oracle, it.policies));
        entries.collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(2));
}

#[test]
fn every_policy_has_the_patience_of_the_cell() {
    let own = Policy::draft().attempt_timeout(MS(150)).deadline(MS(2000)).build().unwrap();
    let own = Subject::new("own", own).unwrap();
    let times = |cell: &Cell| {
        let policy = cell.with_patience(&own).unwrap().policy;
        (policy.deadline(), policy.attempt_timeout())
    };
    let wall = |deadline: u64| cell(OUTAGE, MS(deadline), None);
    assert_eq!(times(&wall(5000)), (Some(MS(5000)), Some(MS(150))), "it cuts attempts off itself");
    assert_eq!(times(&wall(100)), (Some(MS(100)), None));
    let cut = cell(OUTAGE, MS(5000), Some(MS(1000)));
    assert_eq!(times(&cut), (Some(MS(5000)), Some(MS(1000))));
}

#[test]
fn the_oracle_is_chosen_among_many_varied_policies() {
    for timeout in [None, Some(MS(400))] {
        let cell = cell(OUTAGE, MS(2000), timeout);
        let all = candidates(&cell);
        assert!(all.len() >= 60, "{}", all.len());
        let names: BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for (place, one) in all.iter().enumerate() {
            assert_eq!(one.policy.deadline(), Some(MS(2000)), "{}", one.name);
            assert!(all[..place].iter().all(|it| it.policy != one.policy), "{}", one.name);
        }
    }
}

fn scores(losses: &[f64], collapsed: bool) -> Scores {
    let score = Score {
        loss: 0.0,
        failed: 0.0,
        load: 1.2,
        attempts_per_call: 1.0,
        peak: 2.0,
        failure_ms: None,
        open: 7,
        p99_ms: 30.0,
        duplicates: 0.0,
        collapsed,
    };
    let of = |loss: &f64| Score {
        loss: *loss,
        failed: loss / 10.0,
        attempts_per_call: 1.0 + loss,
        peak: 1.0 + loss,
        failure_ms: (*loss > 0.4).then_some(loss * 100.0),
        ..score
    };
    Scores(losses.iter().map(of).collect())
}

fn entry(name: &str, losses: &[f64], collapsed: bool) -> PolicyScores {
    PolicyScores { name: name.to_owned(), scores: scores(losses, collapsed) }
}

/// Two cells: retrying helps in the first, and does harm in the second.
fn results() -> Vec<CellResult> {
    vec![
        CellResult {
            cell: 0,
            one_attempt: scores(&[0.30, 0.32], false),
            oracle: entry("best", &[0.0, 0.02], false),
            policies: vec![entry("eager", &[0.05, 0.07], false), entry("shy", &[0.2, 0.2], false)],
        },
        CellResult {
            cell: 1,
            one_attempt: scores(&[0.1, 0.1], false),
            oracle: entry("other", &[0.12, 0.14], false),
            policies: vec![entry("eager", &[0.9, 0.5], true), entry("shy", &[0.1, 0.08], false)],
        },
    ]
}

#[test]
fn regret_and_capture_follow_their_formulas() {
    let (results, cells) = (results(), [None, Some(MS(9))].map(|it| cell(OUTAGE, MS(50), it)));
    let all = rank(&cells, &results, |_| true, Measure::AtRisk);
    let of = |name: &str| all.iter().find(|it| it.name == name).unwrap();
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    let eager = of("eager");
    for (figures, times) in [(&eager.at_risk, 1.0), (&eager.whole_run, 0.1)] {
        near(figures.mean_regret.value, (0.05 + 0.6) / 2.0 * times);
        near(figures.p95_regret, 0.6 * times);
        near(figures.worst_regret.0, 0.6 * times);
        near(figures.worst_against_one.0, 0.6 * times);
        assert_eq!((figures.worst_regret.1, figures.worst_against_one.1), (1, 1));
        assert_eq!(figures.loses_to_one, 1);
    }
    near(eager.mean_capture.unwrap(), 0.25 / 0.30);
    near(eager.attempts_per_call, (1.06 + 1.7) / 2.0);
    near(eager.peak, (1.06 + 1.7) / 2.0);
    near(eager.worst_peak, 1.7);
    near(eager.failure_ms.unwrap(), 70.0);
    assert_eq!(of("shy").failure_ms, None, "cells without failed calls do not count");
    assert_eq!((eager.open, eager.most_open), (7.0, 7.0));
    assert_eq!(eager.own_collapses, 1);
    near(eager.collapse.value, 0.5);
    let shy = of("shy");
    near(shy.at_risk.mean_regret.value, 0.19 / 2.0);
    assert_eq!((shy.at_risk.loses_to_one, shy.own_collapses), (0, 0));
    assert_eq!(
        of("oracle").at_risk.worst_regret.1,
        1,
        "one attempt is better than the oracle there"
    );
    near(of("oracle").at_risk.mean_regret.value, 0.03 / 2.0);
    assert_eq!(
        all.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["oracle", "shy", "eager"]
    );
    assert_eq!(rank(&cells, &results, |it| it.timeout.is_some(), Measure::AtRisk)[0].name, "shy");
}

#[test]
fn differences_are_paired() {
    let (own, other) = (scores(&[0.5, 0.7, 0.9], false), scores(&[0.4, 0.6, 0.8], false));
    let above = own.loss_above(&other);
    assert!((above.value - 0.1).abs() < 1e-9 && above.margin < 1e-9, "{above:?}");
}

#[test]
fn reports_show_policies_and_cells() {
    let (results, cells) = (results(), [None, Some(MS(9))].map(|it| cell(OUTAGE, MS(50), it)));
    let subjects = ["eager", "<i>"].map(|name| Subject::new(name, Policy::standard()).unwrap());
    let plan =
        Plan { cells: &cells, outages: false, subjects: &subjects, runs: 2, seed: 1, threads: 1 };
    let report = BenchReport {
        plan,
        results,
        outages: Vec::new(),
        command: "redial sim --bench",
        wall_ms: 1.0,
    };
    let (heads, rows) = report.cells();
    assert_eq!(heads.len(), rows[0].len());
    assert_eq!(rows[1][1..6], ["50ms, attempts 9ms", "10.0", "13.0", "70.0 ✗", "9.0"]);
    let of = |by| report.table(Suite::Named, None, by).rows.remove(1);
    assert_eq!(of(Measure::AtRisk)[..4], ["shy", "9.5 ±0.0", "19.0", "19.0"]);
    assert_eq!(of(Measure::WholeRun)[..5], ["shy", "0.9 ±0.0", "1.9", "1.9", "it, deadline"]);
    assert_eq!(
        report.table(Suite::Named, Some(Family::Deadline), Measure::AtRisk).rows[1][4],
        "it"
    );
    assert_eq!(report.bar_table(), None, "neither is the default");
    let standing = report.standings().remove(0);
    assert_eq!(
        standing.verdict,
        "In 2 cells shy comes closest to the best policy for each (0.9 points more of the calls lost, on average); eager costs \
         the most load (1.38 attempts per call; shy makes 1.15); eager collapses where one attempt does not."
    );
    let names: Vec<&str> = standing.lines.iter().map(|line| line[0].as_str()).collect();
    assert_eq!(names, ["policy", "shy", "eager"]);
    let html = report.html();
    assert!(html.contains("&lt;i&gt;") && !html.contains("<i>"), "{html}");
    assert_eq!(report.svg().matches("class=\"name\"").count(), 4, "a title and three panels");
}

#[test]
fn suites_have_tables_of_their_own() {
    let named = cell(OUTAGE, MS(50), None);
    let cells = [
        Cell { suite: Suite::Random, ..named.clone() },
        Cell { suite: Suite::HighTraffic, ..named },
    ];
    let subjects = ["standard", "shy"].map(|name| Subject::new(name, Policy::standard()).unwrap());
    let plan =
        Plan { cells: &cells, outages: true, subjects: &subjects, runs: 2, seed: 1, threads: 1 };
    let outage = |what: &str, unit, bound, value| {
        let (what, column) = (what.to_owned(), ["some", "thing"]);
        OutageFigure { what, column, unit, bound, values: vec![value, value] }
    };
    let mut results = results();
    for result in &mut results {
        result.policies[0].name = "standard".to_owned();
    }
    let outages = vec![
        outage("long", Unit::Milliseconds, Some(Bound::AtMost(300.0)), 1_500.0),
        outage("short", Unit::Success, Some(Bound::AtLeast(0.999)), 0.9995),
    ];
    let command = "redial sim --bench";
    let report = BenchReport { plan, results, outages, command, wall_ms: 1.0 };
    let tables = report.tables();
    let titles: Vec<&str> = tables.iter().map(|(title, _)| title.as_str()).collect();
    let high = titles.iter().filter(|title| title.starts_with("High traffic. "));
    assert_eq!((titles.len(), high.count()), (14, 6), "{titles:#?}");
    let standings = report.standings().into_iter().map(|it| it.verdict).collect::<Vec<_>>();
    assert!(standings[0].starts_with("In 1 random cell standard comes "), "{standings:#?}");
    assert!(standings[1].starts_with("In 1 high-traffic cell shy comes "), "{standings:#?}");
    let (heads, rows) = {
        let table = &tables.iter().find(|(title, _)| title.starts_with("High")).unwrap().1;
        (table.columns.iter().map(|it| it.name.join(" ")).collect::<Vec<_>>(), &table.rows)
    };
    let value = |head: &str| {
        let row = rows.iter().find(|row| row[0] == "standard").unwrap();
        &row[heads.iter().position(|it| it == head).unwrap()]
    };
    assert_eq!(value("mean regret"), "6.0 ±0.0", "only the second cell: {heads:?}");
    assert_eq!((value("mean peak"), value("time to failure")), (&"1.70".into(), &"70 ms".into()));
    assert_eq!((value("calls open"), value("most open")), (&"7".into(), &"7".into()));
    let (_, bars) = report.bar_table().unwrap();
    let row = |what: &str| bars.rows.iter().find(|row| row[0] == what).unwrap()[1..4].to_vec();
    assert_eq!(row("high traffic: mean peak"), ["1.700", "≤ 1.600", "no"]);
    assert_eq!(row("random, deadline: mean regret"), ["0.50", "≤ 0.52", "yes"]);
    assert_eq!(row("outage: long"), ["1.5 s", "≤ 300 ms", "no"]);
    assert_eq!(row("outage: short"), ["99.95 %", "≥ 99.90 %", "yes"]);
    assert!(bars.rows.iter().all(|row| !row[0].starts_with("built-in")), "{:#?}", bars.rows);
    assert_eq!(report.svg().matches("class=\"name\"").count(), 7, "a title and six panels");
}

#[test]
fn a_stopped_bench_has_the_cells_that_were_completed() {
    let watch = Watch::default();
    watch.stop();
    let cells = [cell(OUTAGE, MS(50), None)];
    let plan = Plan { cells: &cells, outages: false, subjects: &[], runs: 1, seed: 1, threads: 1 };
    assert!(bench(&plan, &watch).unwrap().is_empty());
}

#[test]
fn closed_loops_are_scored_by_goodput() {
    let text = r#"
title = "Callers that wait for a backend that is down for half of the run"
duration = "20s"
policies = ["no-retry"]
clients = { arrivals = { closed = { callers = 100, think = "100ms" } } }
backend = { service = "1ms" }
outage = { start = "5s", duration = "10s" }
"#;
    // In the outage 100 callers would make 10 calls a second each; the retry slows them down without any success.
    let result =
        result(&cell(text, MS(2000), None), &[Subject::no_retry(), once_after(MS(500))], 1);
    for entry in &result.policies {
        assert!(
            (entry.scores.loss() - 1.0).abs() < 0.05,
            "{}: {}",
            entry.name,
            entry.scores.loss()
        );
    }
}

/// Two attempts half a second apart, and a second of outage at a call every millisecond.
#[test]
fn failed_calls_have_a_time_and_open_calls_are_counted() {
    let subjects = [Subject::no_retry(), once_after(MS(500))];
    let result = result(&cell(OUTAGE, MS(2000), None), &subjects, 1);
    let [one, twice] = [0, 1].map(|place| &result.policies[place].scores);
    assert_eq!((one.failure_ms(), one.open()), (Some(0.0), 1.0));
    assert_eq!(twice.failure_ms(), Some(500.0), "both attempts fail at once");
    assert!((500.0..=503.0).contains(&twice.open()), "{}", twice.open());
    assert!((twice.peak() - 2.0).abs() < 0.05, "first attempts and retries: {}", twice.peak());
    assert_eq!(one.peak(), 1.0);
}

/// One attempt with a timeout fails often even when nothing is wrong. The trouble is over when it is as good as that.
#[test]
fn with_a_timeout_one_attempt_recovers_to_what_it_usually_achieves() {
    let text = OUTAGE.replace("\"1ms\"", "{ exponential = \"50ms\" }");
    let cut = result(&cell(&text, MS(500), Some(MS(100))), &[], 1);
    // In the outage all calls fail; if the whole rest of the run counted, it would be a third.
    assert!(cut.one_attempt.loss() > 0.9, "{:?}", cut.one_attempt);
}

#[test]
fn calls_before_a_short_trouble_do_not_dilute_its_loss() {
    let text =
        OUTAGE.replace("rate = 1000", "rate = 10").replace("start = \"2s\"", "start = \"2070ms\"");
    let short = result(&cell(&text, MS(500), None), &[], 1);
    assert_eq!(short.one_attempt.loss(), 1.0, "{:?}", short.one_attempt);
}

#[test]
fn some_scenarios_and_patiences_have_no_cells() {
    let of = |text: &str| Cell::of("it", "test", &Scenario::read(text, &[]).unwrap(), text);
    // 500 times ten milliseconds are longer than the three seconds that are left after the outage.
    assert_eq!(of(OUTAGE).unwrap().len(), 4);
    let again = OUTAGE.replace("rate = 1000 } }", "rate = 1000 } }, requeue = \"1s\"");
    assert!(of(&again).unwrap_err().contains("until they succeed"));
}

#[test]
fn every_preset_and_peer_fits_every_built_in_cell() {
    let scenario = Scenario::read(OUTAGE, &[]).unwrap();
    let presets = redial_core::Preset::ALL.map(|preset| preset.name().to_owned());
    let peers = redial_sim::peers::Peer::all().map(|peer| format!("peer:{}", peer.name));
    for name in presets.into_iter().chain(peers) {
        let subject = scenario.subject(&name).unwrap();
        for cell in Cell::built_in().unwrap() {
            cell.with_patience(&subject).unwrap_or_else(|why| panic!("{}: {why}", cell.name));
        }
    }
}
