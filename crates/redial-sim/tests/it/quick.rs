//! What a person sees while moving a slider has to be quick and small, and as good as what takes longer.

use redial_sim::measure::{Engine, Metric};
use redial_sim::scenario::{BuiltIn, Scenario, Set};
use redial_sim::simulate::{Choice, Detail, Settings, Watch, simulate};

fn collapse(sets: &[&str]) -> Scenario {
    let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
    BuiltIn::find("collapse").unwrap().read(&sets).unwrap()
}

fn engine(scenario: &Scenario, policy: &str, detail: Detail) -> Engine {
    let subject = scenario.subject(policy).unwrap();
    Choice::Quick(detail).method(scenario, &subject).unwrap().engine()
}

#[test]
fn few_calls_are_followed_and_many_are_counted_or_scaled() {
    let few = collapse(&["rate=1000", "clients=10"]);
    assert_eq!(engine(&few, "loop", Detail::Full), Engine::Exact);
    assert_eq!(engine(&few, "standard", Detail::Full), Engine::Exact);
    let many = collapse(&["rate=100000000"]);
    assert_eq!(engine(&many, "loop", Detail::Full), Engine::Cohort);
    assert_eq!(engine(&many, "standard", Detail::Full), Engine::Scale(20_000));
    assert_eq!(engine(&many, "standard", Detail::Coarse), Engine::Scale(100_000));
}

#[test]
fn the_work_and_the_guards_are_bounded() {
    for sets in [
        &["rate=1000", "clients=1000000"][..],
        &["rate=100000000", "clients=25000000"],
        &["rate=1000000000"],
        &["rate=1000", "clients=10000"],
    ] {
        let scenario = collapse(sets);
        for (name, detail) in [("standard", Detail::Full), ("peer:envoy", Detail::Coarse)] {
            let subject = scenario.subject(name).unwrap();
            let method = Choice::Quick(detail).method(&scenario, &subject).unwrap();
            assert!(method.work() <= detail.most_calls(), "{sets:?} {name}: {}", method.work());
            let clients = f64::from(scenario.clients.instances);
            let k = f64::from(method.engine().scale());
            assert!(clients / k <= 10_000.0, "{sets:?} {name}: {clients} / {k}");
        }
    }
}

#[test]
fn a_quick_result_is_that_of_the_accurate_engine() {
    let scenario =
        collapse(&["rate=50000", "backend.servers=571", "backend.queue=21429", "clients=500"]);
    for policy in ["loop", "standard"] {
        let subject = scenario.subject(policy).unwrap();
        let run = |engine: Choice| {
            let method = engine.method(&scenario, &subject).unwrap();
            simulate(&method, &Settings { runs: 1, seed: 1, threads: 1 }, &Watch::default())
        };
        let exact = run(Choice::Exact);
        for detail in [Detail::Coarse, Detail::Full] {
            let quick = run(Choice::Quick(detail));
            assert_eq!(quick.collapse.value, exact.collapse.value, "{policy} {detail:?}");
            for (metric, most) in [(Metric::Amplification, 0.05), (Metric::Success, 0.01)] {
                let (quick, exact) = (quick.mean(metric), exact.mean(metric));
                assert!(
                    (quick - exact).abs() <= most * exact.max(1.0),
                    "{policy} {detail:?} {metric}: {quick} {exact}"
                );
            }
        }
    }
}
