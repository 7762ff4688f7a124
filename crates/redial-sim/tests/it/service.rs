//! Servers, queues, and what requests cost: against formulas and by hand.

use proptest::prelude::*;
use redial_sim::measure::Metric;

use crate::helpers::{attempts, near, once, run, scenario};

const DISCIPLINES: [&str; 3] = ["fifo", "lifo", "processor-sharing"];

/// One attempt of every call, at this multiple of the capacity of 100 requests a second.
fn success_at(load: f64, rest: &str) -> f64 {
    let backend = "servers = 10\nservice = { exponential = \"100ms\" }\nqueue = 20";
    let clients = format!("arrivals = {{ poisson = {{ load = {load} }} }}");
    let it = scenario("300s", &clients, &format!("[backend]\n{backend}\n{rest}"), &attempts(1));
    run(&it, "it", 2).mean(Metric::Success)
}

/// With goodput x and load l as multiples of the capacity, and rejections at the cost c: x + c (l − x) = 1.
#[test]
fn rejections_reduce_the_capacity_by_their_cost() {
    for (load, cost) in [(2.0, 0.0), (2.0, 0.1), (1.5, 0.3), (4.0, 0.2)] {
        let expected = (1.0 - cost * load) / (1.0 - cost) / load;
        for discipline in DISCIPLINES {
            let rest = format!("discipline = \"{discipline}\"\nreject_cost = {cost}");
            let what = format!("{discipline}, load {load}, cost {cost}");
            let success = success_at(load, &rest);
            assert!((success - expected).abs() < 0.005, "{what}: {success}, not {expected}");
        }
    }
    assert!(success_at(12.0, "reject_cost = 0.1") < 0.01, "rejections alone need 1.2 capacities");
}

/// A limit admits a tenth of the capacity. The rest costs a quarter each: 0.1 + 0.25 × 1.9 of the capacity are in use,
/// so all that is admitted is served. At a load of 8 the rejections need 1.975 capacities.
#[test]
fn rejections_by_a_limit_are_work_too() {
    let limited =
        |load| success_at(load, "limit = { rate = 10, burst = 10 }\nreject_cost = 0.25") * load;
    near("admitted", limited(2.0), 0.1, 0.03);
    assert!(limited(8.0) < 0.03, "{}", limited(8.0));
}

/// A share p of the requests fails at the cost c, at twice the capacity: 1 / (1 − p + p c) capacities are let in.
#[test]
fn failures_cost_a_share_of_their_work() {
    for (share, cost) in [(0.5, 1.0), (0.5, 0.5), (0.2, 0.5), (1.0, 1.0)] {
        let expected = (1.0 - share) / (1.0 - share + share * cost) / 2.0;
        let fault = format!("[brownout]\nstart = \"0s\"\nduration = \"300s\"\nshare = {share}");
        let errors = format!("errors = {share}\nerror_cost = {cost}");
        for rest in [format!("{fault}\ncost = {cost}"), errors] {
            let success = success_at(2.0, &rest);
            assert!((success - expected).abs() < 0.01, "{rest}: {success}, not {expected}");
        }
    }
}

#[test]
fn a_failure_is_answered_after_its_work() {
    let ended = |rest: &str| {
        let backend = "[backend]\nservers = 1\nservice = \"1s\"\nqueue = 10";
        let fault = "[outage]\nstart = \"0s\"\nduration = \"9s\"";
        let rest = format!("{backend}\n{fault}\n{rest}");
        let clients = "arrivals = { synchronised = { callers = 3 } }";
        let policy = attempts(1) + "attempt_timeout = \"5s\"";
        let run = once(&scenario("9s", clients, &rest, &policy), "it", 1);
        assert_eq!((run.success, run.served_peak_ratio), (0.0, 0.0));
        run.completion_ms
    };
    assert_eq!(ended(""), 0.0);
    assert_eq!(ended("cost = 0.25"), 750.0);
    assert_eq!(ended("cost = 0.25\nanswer = \"hang\""), 5_000.0);
}

/// Calls at 0.1, 0.2 and 0.3 s, and a server that takes 250 ms for each: the p99 is the longest of them.
#[test]
fn the_discipline_decides_which_request_is_next() {
    let longest = |discipline: &str| {
        let backend = "[backend]\nservers = 1\nservice = \"250ms\"\nqueue = 10";
        let rest = format!("{backend}\ndiscipline = \"{discipline}\"");
        let clients = "arrivals = { constant = { rate = 10 } }";
        let run = once(&scenario("350ms", clients, &rest, &attempts(1)), "it", 1);
        assert_eq!((run.calls, run.success, run.completion_ms), (3, 1.0, 850.0));
        run.p99_ms
    };
    near("fifo", longest("fifo"), 550.0, 0.001);
    near("lifo", longest("lifo"), 650.0, 0.001);
    // The first has 100 ms alone, 50 in the next 100, and a third of the speed until 600. Then the second has got
    // 150 of its 250 ms and the third 100, at half the speed until 800, and the third ends alone at 850.
    near("sharing", longest("processor-sharing"), 600.0, 0.001);
}

#[test]
fn lifo_serves_callers_that_still_wait() {
    let success = |discipline: &str, cancel: bool| {
        let backend =
            "[backend]\nservers = 10\nservice = { exponential = \"100ms\" }\nqueue = 1000";
        let rest = format!("{backend}\ndiscipline = \"{discipline}\"\ncancel = {cancel}");
        let clients = "arrivals = { poisson = { load = 1.5 } }";
        let policy = attempts(1) + "attempt_timeout = \"1s\"";
        run(&scenario("100s", clients, &rest, &policy), "it", 2).mean(Metric::Success)
    };
    // Ten seconds of work are queued, and only the last second counts.
    assert!(success("fifo", false) < 0.15);
    assert!(success("lifo", false) > 0.6);
    assert!(success("lifo", true) > 0.6);
}

/// In a closed loop the throughput with shared servers depends only on the mean of the service time (BCMP). With
/// N callers that think for Z, and c servers that take S, the number n at the servers has the weight
/// N! / (N − n)! / Π min(i, c) × (S / Z)^n.
#[test]
fn shared_servers_have_the_throughput_of_the_product_form() {
    let (callers, servers, seconds) = (20, 2, 2_000.0);
    let (think, service) = (1.0, 0.1);
    let mut weights = vec![1.0];
    for n in 1..=callers {
        let next = weights[n - 1] * (callers - n + 1) as f64 / n.min(servers) as f64;
        weights.push(next * service / think);
    }
    let busy: f64 = weights.iter().zip(0..).map(|(weight, n)| weight * servers.min(n) as f64).sum();
    let calls = seconds * busy / weights.iter().sum::<f64>() / service;
    for time in [
        "\"100ms\"",
        "{ exponential = \"100ms\" }",
        "{ uniform = { from = \"0s\", to = \"200ms\" } }",
    ] {
        let rest = format!(
            "[backend]\nservers = {servers}\nservice = {time}\nqueue = 100\ndiscipline = \"processor-sharing\""
        );
        let clients = format!(
            "arrivals = {{ closed = {{ callers = {callers}, think = {{ exponential = \"1s\" }} }} }}"
        );
        let it = scenario("2000s", &clients, &format!("{rest}\n"), &attempts(1));
        near(time, once(&it, "it", 1).calls as f64, calls, 0.01);
    }
}

/// Three requests of a second each share one server, or two.
#[test]
fn shared_servers_lose_capacity_and_stand_still() {
    let ended = |servers: u32, rest: &str, policy: &str| {
        let backend = format!(
            "[backend]\nservers = {servers}\nservice = \"1s\"\nqueue = 10\ndiscipline = \"processor-sharing\"\ncancel = true"
        );
        let clients = "arrivals = { synchronised = { callers = 3 } }";
        let it = scenario("30s", clients, &format!("{backend}\n{rest}"), &(attempts(1) + policy));
        let run = once(&it, "it", 1);
        (run.completion_ms, run.success)
    };
    assert_eq!(ended(1, "", ""), (3_000.0, 1.0));
    assert_eq!(ended(2, "", ""), (1_500.0, 1.0));
    assert_eq!(ended(4, "", ""), (1_000.0, 1.0));
    assert_eq!(ended(1, "[pause]\nstart = \"1s\"\nduration = \"5s\"", ""), (8_000.0, 1.0));
    let loss = "[capacity_loss]\nstart = \"1s\"\nduration = \"9s\"\nshare = 0.5";
    assert_eq!(ended(2, loss, ""), (2_000.0, 1.0));
    let slow = "[slowdown]\nstart = \"0s\"\nduration = \"1s\"\nfactor = 3";
    assert_eq!(ended(1, slow, ""), (9_000.0, 1.0));
    // All of them are cancelled at once.
    assert_eq!(ended(1, "", "attempt_timeout = \"2s\""), (2_000.0, 0.0));
}

/// A server is shared by requests 250 ms apart that take 200 ms, and stands still for five seconds. The 20 requests of
/// that time are lost. If they are not cancelled, four seconds of work remain, for which the server has a fifth of
/// its time: all requests of the next 20 s are lost too.
#[test]
fn a_cancelled_request_leaves_its_share_to_the_others() {
    let success = |cancel: bool| {
        let rest = format!(
            "[backend]\nservers = 1\nservice = \"200ms\"\nqueue = 1000\ndiscipline = \"processor-sharing\"\n\
             cancel = {cancel}\n[pause]\nstart = \"5s\"\nduration = \"5s\""
        );
        let clients = "arrivals = { constant = { rate = 4 } }";
        let policy = attempts(1) + "attempt_timeout = \"400ms\"";
        once(&scenario("60s", clients, &rest, &policy), "it", 1).success
    };
    near("cancelled", success(true), 1.0 - 20.0 / 240.0, 0.01);
    near("not cancelled", success(false), 1.0 - 100.0 / 240.0, 0.02);
}

#[test]
fn the_service_time_grows_with_the_requests_in_service() {
    let service = "service = { base = \"1s\", per_request = \"10ms\" }";
    let ended = |callers: u32, backend: &str| {
        let clients = format!("arrivals = {{ synchronised = {{ callers = {callers} }} }}");
        let it = scenario("9s", &clients, &format!("[backend]\n{backend}"), &attempts(1));
        once(&it, "it", 1).completion_ms
    };
    assert_eq!(ended(1, service), 1_010.0);
    assert_eq!(ended(3, service), 1_030.0);
    // Each server has two requests, and the first alone starts without another.
    assert_eq!(ended(4, &format!("servers = 2\nqueue = 5\n{service}")), 1_020.0 + 1_020.0);
    // In a steady state latency = 1 s + 10 ms × rate × latency.
    let clients = "arrivals = { constant = { rate = 40 } }";
    let it = scenario("60s", clients, &format!("[backend]\n{service}"), &attempts(1));
    near("p99", once(&it, "it", 1).p99_ms, 1_000.0 / (1.0 - 0.4), 0.02);
    assert_eq!(it.backend.capacity(), 100.0);
    let it =
        scenario("60s", clients, &format!("[backend]\nservers = 100\n{service}"), &attempts(1));
    assert_eq!(it.backend.capacity(), 50.0);
}

#[test]
fn a_slowdown_multiplies_the_service_time() {
    let rest =
        "[backend]\nservice = \"1s\"\n[slowdown]\nstart = \"0s\"\nduration = \"5s\"\nfactor = 3";
    let clients = "arrivals = { synchronised = { callers = 1, at = \"4s\" } }";
    assert_eq!(once(&scenario("9s", clients, rest, &attempts(1)), "it", 1).completion_ms, 7_000.0);
    let rest = rest.replace("5s", "4s");
    assert_eq!(once(&scenario("9s", clients, &rest, &attempts(1)), "it", 1).completion_ms, 5_000.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every call ends once, and the backend serves no more than its capacity.
    #[test]
    fn every_call_ends_once(
        discipline in prop::sample::select(DISCIPLINES.as_slice()),
        time in prop_oneof![
            Just("{ exponential = \"20ms\" }"),
            Just("{ base = { uniform = { from = \"0s\", to = \"40ms\" } }, per_request = \"1ms\" }"),
        ],
        servers in 1..10_u32,
        queue in 0..50_u32,
        cancel: bool,
        reject_cost in prop_oneof![Just(0.0), Just(0.3)],
        cost in prop_oneof![Just(0.0), Just(0.7)],
        answer in prop_oneof![Just("503"), Just("\"hang\"")],
        fault in prop_oneof![
            Just("[restart]\nstart = \"1500ms\"\nshare = 0.5\nburst = 3"),
            Just("[pause]\nstart = \"2s\"\nduration = \"700ms\""),
            Just("[capacity_loss]\nstart = \"2s\"\nduration = \"700ms\"\nshare = 0.6"),
            Just("[cold_cache]\nstart = \"1s\"\nduration = \"2s\"\ncapacity = 0.3"),
            Just("[slowdown]\nstart = \"1s\"\nduration = \"2s\"\nfactor = 3"),
        ],
        unsafe_work: bool,
        seed: u64,
    ) {
        let work = if unsafe_work { "unsafe" } else { "idempotent" };
        let clients = format!("instances = 5\narrivals = {{ poisson = {{ rate = 300 }} }}\nwork = \"{work}\"");
        let rest = format!(
            "[backend]\nservers = {servers}\nservice = {time}\nqueue = {queue}\ndiscipline = \"{discipline}\"\n\
             cancel = {cancel}\nreject_cost = {reject_cost}\nbacklog = {queue}\n\
             [brownout]\nstart = \"1s\"\nduration = \"1s\"\nshare = 0.5\nanswer = {answer}\ncost = {cost}\n{fault}\n"
        );
        let policy =
            "attempts = 3\nattempt_timeout = \"250ms\"\nbackoff = { base = \"20ms\", cap = \"1s\" }\n";
        let run = once(&scenario("4s", &clients, &rest, policy), "it", seed);
        let ended: f64 = run.series.succeeded.iter().chain(&run.series.failed).sum();
        prop_assert_eq!(ended, run.calls as f64);
        // Draws vary: 30 standard deviations of the mean, and the requests in service at both ends.
        let served: f64 = run.series.served.iter().sum();
        let seconds = run.completion_ms.max(4_000.0) / 1e3;
        let most = seconds * f64::from(servers) / 0.02;
        prop_assert!(served <= most + 30.0 * most.sqrt() + f64::from(servers + queue), "{served} {most}");
    }
}
