//! Which endpoint, which policy, whose guards: the client side of the exact engine.

use redial_sim::cohort;
use redial_sim::measure::Run;
use redial_sim::scale_model::ScaleModel;
use redial_sim::scenario::Scenario;
use redial_sim::simulate::{Choice, Watch};

use crate::helpers::{TENTH, attempts, near, once, read_sets, scenario};

/// Four endpoints, of which those with these numbers answer 503, and 100 calls a second for 100 s.
fn endpoints(clients: &str, faulty: &[u32], backend: &str, policy: &str) -> Run {
    let mut rest = format!("[backend]\nendpoints = 4\n{backend}\n");
    for endpoint in faulty {
        rest += "[[outage]]\nstart = \"0s\"\nduration = \"200s\"\n";
        rest += &format!("endpoint = {endpoint}\n");
    }
    let clients = format!("arrivals = {{ constant = {{ rate = 100 }} }}\n{clients}");
    once(&scenario("100s", &clients, &rest, policy), "it", 1)
}

#[test]
fn a_retry_goes_to_another_endpoint_unless_set_otherwise() {
    for choose in ["random", "round-robin", "two-choices"] {
        let success = |retry_to: &str, faulty: &[u32], count: u32| {
            let clients = format!("choose = \"{choose}\"\n{retry_to}");
            endpoints(&clients, faulty, "", &attempts(count)).success
        };
        // Every call finds the only good endpoint at its fourth attempt at the latest.
        assert_eq!(success("", &[0, 2, 3], 4), 1.0, "{choose}");
        assert_eq!(success("retry_to = \"another\"", &[1], 2), 1.0, "{choose}");
        near(choose, success("retry_to = \"same\"", &[1], 3), 0.75, 0.02);
    }
    // Chosen anew: 1 − (1/4)² and 1 − (3/4)⁴.
    let any = |faulty: &[u32], count| endpoints("retry_to = \"any\"", faulty, "", &attempts(count));
    near("one faulty", any(&[1], 2).success, 0.9375, 0.01);
    near("three faulty", any(&[0, 2, 3], 4).success, 0.684, 0.03);
    // When all have been tried, a fifth attempt goes to any but the last.
    assert_eq!(endpoints("", &[0, 1, 2, 3], "", &attempts(9)).amplification, 9.0);
}

#[test]
fn a_refused_hedge_tries_no_endpoint() {
    // The first attempt occupies the only place until its timeout, so no hedge is sent beside it. Of two endpoints the
    // second attempt tries the other one.
    let policy = attempts(2)
        + "attempt_timeout = \"300ms\"\nhedge = { after = \"100ms\" }\nconcurrency = 1\n";
    let clients = "arrivals = { constant = { rate = 1 } }";
    let rest = "[backend]\nendpoints = 2\nservice = \"5ms\"\n\
                [outage]\nstart = \"0s\"\nduration = \"200s\"\nendpoint = 0\nanswer = \"hang\"\n";
    let run = once(&scenario("100s", clients, rest, &policy), "it", 1);
    assert_eq!(run.success, 1.0);
    assert!(run.retries > 30, "{}", run.retries);
}

#[test]
fn taking_turns_loads_endpoints_evenly() {
    // Each endpoint can serve exactly a quarter of the calls.
    let backend = "servers = 1\nservice = \"40ms\"";
    let success = |choose: &str| {
        endpoints(&format!("choose = \"{choose}\""), &[], backend, &attempts(1)).success
    };
    assert_eq!(success("round-robin"), 1.0);
    assert!(success("random") < success("two-choices"));
    assert!(success("two-choices") < 0.8);
}

#[test]
fn two_choices_avoid_an_endpoint_that_hangs() {
    let success = |choose: &str| {
        let clients =
            format!("arrivals = {{ constant = {{ rate = 100 }} }}\nchoose = \"{choose}\"");
        let rest = "[backend]\nendpoints = 4\nservice = \"5ms\"\n\
                    [outage]\nstart = \"0s\"\nduration = \"100s\"\nendpoint = 0\nanswer = \"hang\"\n";
        let policy = attempts(1) + "attempt_timeout = \"1s\"\n";
        once(&scenario("100s", &clients, rest, &policy), "it", 1).success
    };
    near("random", success("random"), 0.75, 0.02);
    // One attempt hangs there for a second, and then another one is due.
    assert!(success("two-choices") > 0.97);
}

#[test]
fn guards_of_endpoints_are_apart() {
    let breaker =
        "breaker = { failure_ratio = 0.2, lookback = { time = \"10s\" }, open = \"5s\" }\n";
    let lost = |guards: &str| {
        let clients = format!("retry_to = \"same\"\nguards = \"{guards}\"");
        let run = endpoints(&clients, &[3], "", &(attempts(1) + breaker));
        run.healthy_lost.unwrap()
    };
    assert_eq!(lost("endpoint"), 0.0);
    assert!(lost("backend") > 0.5);
}

#[test]
fn instances_with_other_policies_run_beside_those_under_test() {
    let clients = "instances = 10\narrivals = { poisson = { rate = 1000 } }\n\
                   others = [{ policy = \"once\", share = 0.6 }, { policy = \"twice\", share = 0.3 }]";
    let rest = format!(
        "[backend]\nerrors = 0.5\n[policy.once]\n{}\n[policy.twice]\n{}",
        attempts(1),
        attempts(2)
    );
    let run = once(&scenario("100s", clients, &rest, &attempts(5)), "it", 1);
    near("own", run.own_success.unwrap(), 1.0 - 0.5_f64.powi(5), 0.01);
    near("all", run.success, 0.6 * 0.5 + 0.3 * 0.75 + 0.1 * 0.969, 0.01);
    near("attempts", run.amplification, 0.6 + 0.3 * 1.5 + 0.1 * 1.9375, 0.01);
    let alone = scenario("1s", "arrivals = { constant = { rate = 10 } }", "", &attempts(1));
    assert_eq!(once(&alone, "it", 1).own_success, None);
}

/// The budget of a process pays for one retry in its life.
fn one_retry() -> String {
    let budget = "budget = { window = { ratio = 0.0001, floor = \"0/s\", bootstrap = 1 } }";
    attempts(3).replace("budget = \"none\"", budget)
}

#[test]
fn an_instance_is_replaced_after_its_last_call() {
    let retries = |clients: &str, backend: &str| {
        let clients = format!("{clients}\narrivals = {{ constant = {{ rate = 100 }} }}");
        let policy = one_retry() + "attempt_timeout = \"200ms\"\n";
        let run = once(&scenario("10s", &clients, backend, &policy), "it", 1);
        (run.retries, run.calls)
    };
    let down = "[outage]\nstart = \"0s\"\nduration = \"60s\"";
    let (alone, calls) = retries("", down);
    assert_eq!(alone, 1);
    // The calls of several processes of an instance overlap while they wait.
    for backend in [down.to_owned(), format!("{down}\nanswer = \"hang\"")] {
        assert_eq!(retries("lifetime = 5", &backend).0, calls.div_ceil(5));
        assert_eq!(retries("lifetime = 1", &backend).0, calls);
        assert_eq!(retries("lifetime = 5\ninstances = 100", &backend).0, calls.div_ceil(5));
    }
}

fn players(instances: u32, callers: u32, policy: &str) -> Result<Scenario, String> {
    let text = format!(
        "title = \"test\"\nduration = \"20s\"\npolicies = [\"it\"]\n\
         [clients]\ninstances = {instances}\narrivals = {{ synchronised = {{ callers = {callers} }} }}\n\
         [outage]\nstart = \"0s\"\nduration = \"1s\"\n[policy.it]\n{policy}"
    );
    Scenario::read(&text, &[]).map_err(|problem| problem.to_string())
}

/// Whether the exact engine can follow them all.
fn follow(instances: u32, callers: u32, policy: &str) -> Result<(), String> {
    let scenario = players(instances, callers, policy)?;
    Choice::Exact.method(&scenario, &scenario.subject("it")?).map(drop)
}

#[test]
fn clients_with_one_call_need_no_ledger() {
    let many = 25_000_000;
    let read = |more: &str| follow(many, many, &format!("{TENTH}{more}"));
    assert!(read("attempts = 11").is_ok(), "the floor pays for 10 retries");
    let dear = "budget = { tokens = { capacity = 40, cost = 5, timeout_cost = 20 } }";
    let tokens = |attempts| TENTH.replace("budget = { window = {} }", dear) + attempts;
    assert!(follow(many, many, &tokens("attempts = 3")).is_ok(), "two timeouts are paid for");
    let overtaken = "hedge = { share = 0.3, overtaken = true }";
    let hedged = TENTH.replace("hedge = \"none\"", overtaken);
    assert!(follow(many, many, &hedged).is_ok(), "no other call overtakes");
    let stalls = TENTH.replace("stall = \"none\"", "stall = {}");
    assert!(follow(many, many, &stalls).is_ok(), "four attempts are too few");
    let without_deadline = "deadline = \"none\"\nbudget = \"none\"";
    assert!(follow(many, many, without_deadline).is_ok(), "nothing is hedged or held back");
    let state = [
        format!("{TENTH}attempts = 12"),
        format!("{TENTH}breaker = {{}}"),
        TENTH.replace("hedge = \"none\"", "hedge = { quantile = 0.9 }"),
        TENTH.replace("stall = \"none\"", "stall = { timeouts = 2 }"),
        TENTH.replace("park = \"none\"", "park = {}"),
        tokens("attempts = 4"),
    ];
    for policy in state {
        let message = follow(many, many, &policy).unwrap_err();
        assert!(message.contains("25M sets of guards"), "{policy}: {message}");
    }
    assert!(follow(many / 2, many, TENTH).is_err(), "two calls each");
    let cooling =
        |attempts: u32| format!("{TENTH}attempts = {attempts}\ncooldown = {{ every = \"30s\" }}");
    assert!(follow(many, many, &cooling(2)).is_ok(), "no cool-down refuses a first retry");
    assert!(follow(many, many, &cooling(3)).is_err());
    let text = include_str!("../../scenarios/fleet.toml");
    let players = |sets: &[&str]| Scenario::read(text, &read_sets(sets)).unwrap().clients.instances;
    assert_eq!((players(&[]), players(&["clients=500"])), (many, 500));
}

#[test]
fn a_budget_that_pays_for_every_retry_of_a_client_is_no_budget() {
    // The same with a ledger each: the breaker, which never opens, makes them necessary.
    let jitter = format!("backoff = {{ base = \"300ms\", jitter = \"equal\" }}\n{TENTH}");
    let run = |more: &str| {
        let Run { attempts, success, completion_ms, .. } =
            once(&players(2000, 2000, &format!("{jitter}{more}")).unwrap(), "it", 1);
        (attempts, success, completion_ms)
    };
    assert_eq!(run(""), run("breaker = { failure_ratio = 1.0, minimum_calls = 100 }"));
    assert_eq!(run("").1, 1.0);
}

#[test]
fn all_players_of_a_fleet_are_served_at_their_second_attempt() {
    let fleet = Scenario::read(include_str!("../../scenarios/fleet.toml"), &[]).unwrap();
    let run = |name: &str| {
        let mut subject = fleet.subject(name).unwrap();
        // The hint of the origin is paid for at once, so no player parks.
        subject.policy = subject.policy.edit().without_park().build().unwrap();
        cohort::Model::new(&fleet, &subject).unwrap().run(1, &Watch::default())
    };
    let (player, literal) = (run("player"), run("literal"));
    assert!(player.success > 0.99, "{}", player.success);
    assert_eq!(player.attempts, literal.attempts);
    assert!(player.peak_ratio < 0.02, "{} of all players in 50 ms", player.peak_ratio);
}

#[test]
fn a_failed_call_rests_as_a_key_of_a_reconciler_does() {
    let policy =
        attempts(1).replace("base = \"1ms\", cap = \"1ms\"", "base = \"1ms\", cap = \"1s\"");
    let clients = "requeue = \"rest\"\narrivals = { synchronised = { callers = 200 } }";
    let down = "[outage]\nstart = \"0s\"\nduration = \"30s\"";
    let run = once(&scenario("60s", clients, down, &policy), "it", 1);
    assert_eq!(run.success, 1.0);
    assert!((30_000.0..31_000.0).contains(&run.completion_ms), "{}", run.completion_ms);
    // 40 rests of 0.75 s on average, and the first attempt.
    near("attempts", run.amplification, 41.0, 0.02);
    let policy = policy.replace("attempts = 1", "attempts = 4");
    let more = once(&scenario("60s", clients, down, &policy), "it", 1).amplification;
    near("only a call that has not rested is retried", more, run.amplification + 3.0, 0.02);
}

#[test]
fn a_fleet_has_one_ledger_whatever_its_size() {
    let run = |instances: u32, more: &str| {
        let clients =
            format!("instances = {instances}\narrivals = {{ poisson = {{ rate = 500 }} }}");
        let faults = "[outage]\nstart = \"10s\"\nduration = \"10s\"\n\
                      [restart]\nstart = \"15s\"\nshare = 0.0";
        let it = scenario("30s", &clients, faults, &format!("{TENTH}{more}"));
        let Run { attempts, success, completion_ms, .. } = once(&it, "it", 1);
        (attempts, success, completion_ms)
    };
    let alone = run(1, "");
    assert_eq!(run(1000, "fleet = \"it\""), alone);
    assert_eq!(run(1_500_000, "fleet = \"it\""), alone);
    // Beside breakers of their own, which never open.
    let breaker = "breaker = { failure_ratio = 1.0, minimum_calls = 100 }";
    assert_eq!(run(1000, &format!("fleet = \"it\"\n{breaker}")), alone);
    assert!(run(1000, "").0 > alone.0 + 2_000, "the floor of a thousand ledgers");
}

#[test]
fn cohorts_have_the_ledger_of_a_fleet_and_none_where_it_never_refuses() {
    let fleet = "instances = 1000\narrivals = { poisson = { rate = 2000 } }";
    let players = "instances = \"each\"\narrivals = { synchronised = { callers = 20000 } }";
    let faults = "[outage]\nstart = \"0s\"\nduration = \"500ms\"";
    for (clients, more) in [(fleet, "fleet = \"it\""), (players, "")] {
        let it = scenario("20s", clients, faults, &format!("{TENTH}{more}"));
        let subject = it.subject("it").unwrap();
        let model = cohort::Model::new(&it, &subject).unwrap();
        let (counted, followed) = (model.run(1, &Watch::default()), once(&it, "it", 1));
        near(clients, counted.amplification, followed.amplification, 0.01);
        near(clients, counted.success, followed.success, 0.08);
    }
}

#[test]
fn a_scale_model_divides_the_floor_of_a_fleet() {
    let clients = "instances = 1000\narrivals = { poisson = { rate = 5000 } }";
    let faults = "[outage]\nstart = \"10s\"\nduration = \"10s\"";
    let policy = "fleet = \"it\"\nbudget = { window = { floor = \"500/s\" } }";
    let it = scenario("30s", clients, faults, policy);
    let model = ScaleModel::new(&it, &it.subject("it").unwrap(), 10).unwrap();
    let (model, whole) = (model.run(1, &Watch::default()), once(&it, "it", 1));
    near("retries", model.retries as f64, whole.retries as f64, 0.05);
}
