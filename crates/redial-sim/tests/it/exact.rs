//! The figures of the literature, and the parts of the model one by one.

use redial_sim::measure::Summary;
use redial_sim::scenario::{BuiltIn, Scenario, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};

fn run(scenario: &Scenario, policy: &str, runs: u32) -> Summary {
    let subject = scenario.subject(policy).unwrap();
    let settings = Settings { runs, seed: 1, threads: 2, engine: Choice::Exact };
    simulate(scenario, &subject, &settings, &Watch::default())
}

fn built_in(name: &str, sets: &[&str]) -> Scenario {
    let sets: Vec<Set> = sets.iter().map(|set| Set::read(set).unwrap()).collect();
    BuiltIn::find(name).unwrap().read(&sets).unwrap()
}

#[test]
fn show() {
    for name in ["blip", "blip-synchronised"] {
        let scenario = built_in(name, &[]);
        for policy in &scenario.policies {
            let s = run(&scenario, policy, 5);
            println!(
                "{name} {policy}: attempts {:.3} peak {:.2} served {:.2} success {:.4} recover {:.0} waiting {} collapse {:?}",
                s.mean("amplification"),
                s.mean("peak_ratio"),
                s.mean("served_peak_ratio"),
                s.mean("success"),
                s.mean("recover_ms"),
                s.mean("waiting_max"),
                s.collapse
            );
        }
    }
    let three = |extra: &str| {
        format!(
            r#"
title = "t"
duration = "100s"
policies = ["retries"]
[clients]
instances = 100
arrivals = {{ constant = {{ rate = 1000 }} }}
[policy.retries]
attempts = 4
deadline = "none"
backoff = {{ base = "1ms", cap = "1ms", growth = "constant", jitter = "none" }}
{extra}
"#
        )
    };
    for (name, budget) in [
        ("3 retries", "budget = \"none\""),
        (
            "window",
            "budget = { window = { ratio = 0.1, floor = \"0/s\", ttl = \"10s\", bootstrap = 5 } }",
        ),
        ("breaker", "budget = { throttling = { capacity = 10, ratio = 0.111 } }"),
    ] {
        for rate in [0.05, 0.5] {
            let text = format!("{}\n[backend]\nerrors = {rate}", three(budget));
            let scenario = Scenario::read(&text, &[]).unwrap();
            let s = run(&scenario, "retries", 3);
            println!("{name} {rate}: {:.4} / {:.4}", s.mean("amplification"), s.mean("success"));
        }
    }
    for clients in [10, 100, 1000] {
        let text = format!(
            "{}\n[backend]\nerrors = 0.5",
            three(
                "budget = { window = { ratio = 0.1, floor = \"0/s\", ttl = \"10s\", bootstrap = 5 } }"
            )
        );
        let sets = [
            format!("clients.instances={clients}"),
            "clients.arrivals={constant={rate=100}}".into(),
        ];
        let sets: Vec<Set> = sets.iter().map(|s| Set::read(s).unwrap()).collect();
        let scenario = Scenario::read(&text, &sets).unwrap();
        println!("{clients}: {:.4}", run(&scenario, "retries", 3).mean("amplification"));
    }
    let full = |r: u32, rate: f64| {
        format!(
            r#"
title = "t"
duration = "2000s"
window = "1s"
policies = ["retries"]
[clients]
arrivals = {{ poisson = {{ rate = {rate} }} }}
[backend]
servers = 1
service = {{ exponential = "100ms" }}
queue = 100
backlog = 100
[policy.retries]
attempts = {}
attempt_timeout = "3s"
deadline = "none"
backoff = {{ base = "1ns", cap = "1ns", growth = "constant", jitter = "none" }}
budget = "none"
"#,
            r + 1
        )
    };
    for (r, rates) in [(1, vec![4.5, 4.9, 5.1, 8.0]), (4, vec![1.5, 1.9, 3.0])] {
        for rate in rates {
            let scenario = Scenario::read(&full(r, rate), &[]).unwrap();
            let s = run(&scenario, "retries", 40);
            println!(
                "R={r} {rate}: recover {:?} collapse {:?} success {}",
                s.value("recover_ms"),
                s.collapse,
                s.mean("success")
            );
        }
    }
    for errors in [0.1, 0.5, 1.0] {
        let text = format!(
            r#"
title = "t"
duration = "10s"
policies = ["four"]
[clients]
arrivals = {{ constant = {{ rate = 1000 }} }}
[backend]
calls = ["b"]
[service.b]
calls = ["c"]
[service.c]
errors = {errors}
[policy.four]
attempts = 4
deadline = "none"
backoff = {{ base = "1ms", cap = "1ms", growth = "constant", jitter = "none" }}
budget = "none"
"#
        );
        let scenario = Scenario::read(&text, &[]).unwrap();
        println!("{errors}: {:.4}", run(&scenario, "four", 2).mean("amplification"));
    }
}
