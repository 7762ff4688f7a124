//! Sweeps.

use redial_core::{Span, Time};
use redial_sim::Scenario;
use redial_sim::measure::Metric;
use redial_sim::scenario::{Arrivals, BuiltIn, Pace, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate, simulate_all};
use redial_sim::sweep::{Axis, MOST_CELLS, Sweep};

fn values(text: &str) -> Vec<String> {
    Axis::read(text).unwrap().values
}

fn blip() -> &'static str {
    BuiltIn::find("blip").unwrap().text
}

#[test]
fn an_axis_is_a_list_or_a_range() {
    assert_eq!(values("outage.duration=1s, 2s,5s"), ["1s", "2s", "5s"]);
    assert_eq!(values("load=0.1..0.4:4"), ["0.1", "0.2", "0.3", "0.4"]);
    assert_eq!(values("clients.instances=1..10:4"), ["1", "4", "7", "10"]);
    assert_eq!(values("clients=1..2:5"), ["1", "2"], "integers stay integers");
    assert_eq!(values("outage=100ms..1s:4"), ["100ms", "400ms", "700ms", "1s"]);
    assert_eq!(values("rate=500..100:2"), ["500", "100"], "downwards too");
}

#[test]
fn an_invalid_axis_is_refused() {
    for (text, expected) in [
        ("load", "PATH=A,B,C or PATH=FROM..TO:STEPS"),
        ("=1,2", "PATH=A,B,C"),
        ("load=1,,2", "PATH=A,B,C"),
        ("load=1..2", "PATH=A,B,C"),
        ("load=1..2:many", "PATH=A,B,C"),
        ("load=1..2:1", "1 values, and 2 to 10000"),
        ("load=1..2:1000000", "1000000 values, and 2 to 10000"),
        ("load=little..much:3", "neither a number nor a duration"),
    ] {
        let problem = Axis::read(text).unwrap_err().to_string();
        assert!(problem.contains(expected) && problem.contains(text), "{problem}");
    }
}

#[test]
fn short_names_are_paths() {
    let cell = |axis: &str| {
        let sweep = Sweep::read(blip(), &[], Axis::read(axis).unwrap(), None).unwrap();
        sweep.cells()[0].clone()
    };
    let pace = |scenario: &Scenario| scenario.clients.arrivals.clone();
    assert_eq!(pace(&cell("rate=70,80")), Arrivals::Constant(Pace::Rate(70.0)));
    assert_eq!(cell("outage=70ms,80ms").outage[0].duration, Span::from_millis(70));
    assert_eq!(cell("clients=3,4").clients.instances, 3);
    assert_eq!(cell("policy.full.attempts=2,3").policy["full"].attempts(), 2);
    let limited = [Set::read("backend.servers=10").unwrap()];
    let sweep = Sweep::read(blip(), &limited, Axis::read("load=0.5,0.6").unwrap(), None).unwrap();
    assert_eq!(pace(&sweep.cells()[1]), Arrivals::Constant(Pace::Load(0.6)));
    let at_once = BuiltIn::find("blip-synchronised").unwrap().text;
    let sweep = |axis: &str| Sweep::read(at_once, &[], Axis::read(axis).unwrap(), None);
    assert_eq!(sweep("clients=20,30").unwrap().cells()[1].clients.arrivals.callers(), Some(30));
    assert!(sweep("load=0.5,0.6").unwrap_err().to_string().contains("not come at a rate"));
}

#[test]
fn cells_are_counted_and_checked_before_anything_runs() {
    let read = |x: &str, y: &str| {
        Sweep::read(blip(), &[], Axis::read(x).unwrap(), Some(Axis::read(y).unwrap()))
    };
    let sweep = read("rate=100,200,300", "outage=1s,2s").unwrap();
    assert_eq!((sweep.cells().len(), sweep.rows()), (6, 2));
    assert_eq!(sweep.calls(), 2.0 * 6.0 * (100.0 + 200.0 + 300.0));
    assert_eq!(sweep.cells()[4].outage[0].duration, Span::from_secs(2), "row by row");
    assert_eq!(sweep.cells()[4].rate(), Some(200.0));
    let many = read("rate=1..10000:10000", "outage=1s,2s").unwrap_err().to_string();
    assert!(many.contains("20000 cells") && many.contains(&MOST_CELLS.to_string()), "{many}");
    let wrong = read("rate=100,0", "outage=1s,2s").unwrap_err().to_string();
    assert!(wrong.contains("rate"), "{wrong}");
    let callers = BuiltIn::find("blip-synchronised").unwrap().read(&[]).unwrap();
    assert_eq!(callers.calls(), 1000.0);
}

#[test]
fn a_sweep_runs_every_cell_until_it_is_stopped() {
    let sweep = Sweep::read(blip(), &[], Axis::read("rate=50,100").unwrap(), None).unwrap();
    let full = Scenario::read(blip(), &[]).unwrap().subject("full").unwrap();
    let methods = sweep.cells().iter().map(|cell| Choice::Exact.method(cell, &full));
    let methods: Vec<_> = methods.collect::<Result<_, _>>().unwrap();
    let settings = Settings { runs: 2, seed: 3, threads: 2 };
    let watch = Watch::default();
    let done = &sweep.run(&methods, &settings, &watch)[0];
    let calls: Vec<f64> =
        done.iter().map(|it| it.as_ref().unwrap().mean(Metric::Calls).round()).collect();
    assert!(
        (299.0..=301.0).contains(&calls[0]) && (599.0..=601.0).contains(&calls[1]),
        "{calls:?}"
    );
    assert!(
        done.iter().flatten().all(|summary| summary.series.calls.is_empty()),
        "curves are dropped"
    );
    watch.stop();
    assert!(sweep.run(&methods, &settings, &watch)[0].iter().all(Option::is_none));
}

#[test]
fn policies_that_take_turns_have_the_results_of_single_runs() {
    let scenario = Scenario::read(blip(), &[]).unwrap();
    let subjects = ["full", "no-retry", "equal"].map(|name| scenario.subject(name).unwrap());
    let methods =
        subjects.each_ref().map(|subject| Choice::Auto.method(&scenario, subject).unwrap());
    let settings = Settings { runs: 3, seed: 5, threads: 2 };
    let watch = Watch::default();
    let all = simulate_all(&methods, &settings, &watch);
    assert_eq!(watch.runs_done().round(), 9.0);
    let alone = methods.map(|method| simulate(&method, &settings, &Watch::default()));
    assert_eq!(all, alone);
    assert!(simulate_all(&[], &settings, &watch).is_empty());
}

#[test]
fn short_names_can_be_set_and_only_paired_quotes_are_removed() {
    let read = |sets: &[&str]| {
        let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
        Scenario::read(blip(), &sets)
    };
    let set = read(&["rate=70", "outage=70ms", "clients=3"]).unwrap();
    assert_eq!(set.rate(), Some(70.0));
    assert_eq!((set.outage[0].duration, set.clients.instances), (Span::from_millis(70), 3));
    let whole = read(&["outage={ start = '1s', duration = '2s' }"]).unwrap();
    assert_eq!(whole.outage[0].start, Time::at(Span::SECOND));
    let closed = "clients.arrivals={ closed = { callers = 5, think = '1s' } }";
    assert_eq!(read(&[closed, "clients=700"]).unwrap().clients.arrivals.callers(), Some(700));
    let wrong = read(&[closed, "load=0.5"]).unwrap_err().to_string();
    assert!(wrong.contains("--set load=0.5") && wrong.contains("do not come at a rate"), "{wrong}");
    for (typed, title) in [
        ("title=a b \"c\"", "a b \"c\""),
        ("title=\"c\"", "c"),
        ("title='c'", "c"),
        ("title=\"a\" or \"b\"", "\"a\" or \"b\""),
        ("title=it's", "it's"),
    ] {
        assert_eq!(read(&[typed]).unwrap().title, title);
    }
    for open in ["title=\"c", "title='c", "title=\""] {
        assert!(Set::read(open).unwrap_err().to_string().contains("does not end"), "{open}");
    }
}

#[test]
fn two_axes_must_vary_two_parameters() {
    let read = |x: &str, y: &str| {
        Sweep::read(blip(), &[], Axis::read(x).unwrap(), Some(Axis::read(y).unwrap()))
    };
    for (x, y) in [("rate=1,2", "rate=3,4"), ("outage=1s,2s", "outage.duration=1s,2s")] {
        let wrong = read(x, y).unwrap_err().to_string();
        assert!(wrong.contains("vary the same parameter"), "{wrong}");
    }
    let wrong = read("rate=100,0", "outage=1s,2s").unwrap_err().to_string();
    assert!(wrong.contains("with --sweep rate=0") && !wrong.contains("--set"), "{wrong}");
}
