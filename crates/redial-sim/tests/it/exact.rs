//! The parts of the model, one by one.

use proptest::prelude::*;
use redial_sim::Subject;
use redial_sim::measure::{Metric, Run};
use redial_sim::scenario::Scenario;
use redial_sim::simulate::{Choice, Settings, Watch, simulate};

use crate::helpers::{attempts, built_in, near, once, run, scenario};

#[test]
fn the_same_seed_is_the_same_run_on_any_number_of_threads() {
    let scenario = built_in("capacity-loss", &["duration=40s"]);
    let subject = scenario.subject("backoff").unwrap();
    let on = |threads, seed| {
        let method = Choice::Exact.method(&scenario, &subject).unwrap();
        simulate(&method, &Settings { runs: 6, seed, threads }, &Watch::default())
    };
    assert_eq!(on(1, 7), on(4, 7));
    assert_ne!(on(1, 7), on(1, 8));
}

#[test]
fn a_stopped_simulation_has_the_runs_that_were_made() {
    let (scenario, subject) = (built_in("blip", &[]), Subject::no_retry());
    let method = Choice::Exact.method(&scenario, &subject).unwrap();
    let watch = Watch::default();
    watch.stop();
    let summary = simulate(&method, &Settings { runs: 3, seed: 1, threads: 1 }, &watch);
    assert_eq!(summary.runs, 0);
    assert_eq!(summary.value(Metric::Calls), None);
}

/// One line for each part of the backend: the result of a hundred calls a second for ten seconds.
#[test]
fn the_parts_of_a_backend() {
    struct Case {
        backend: &'static str,
        policy: String,
        check: fn(&Run) -> bool,
    }
    let three = || attempts(3);
    let patient = || attempts(2) + "attempt_timeout = \"50ms\"\n";
    let case = |backend, policy, check| Case { backend, policy, check };
    let cases = [
        case("[backend]", three(), |run| run.success == 1.0 && run.attempts == run.calls),
        case("[backend]\nerrors = 1.0", three(), |run| {
            run.success == 0.0 && run.amplification == 3.0
        }),
        // One server, 5 ms, no queue, and calls 10 ms apart: all of them fit.
        case("[backend]\nservers = 1\nservice = \"5ms\"", three(), |run| run.amplification == 1.0),
        // 20 ms: every second call finds the server busy, and so does the retry 1 ms later.
        case("[backend]\nservers = 1\nservice = \"20ms\"", attempts(1), |run| {
            (0.49..0.51).contains(&run.success)
        }),
        case(
            "[backend]\nservers = 1\nservice = \"20ms\"\nwhen_full = \"hang\"",
            patient(),
            |run| run.success > 0.5 && run.completion_ms > 10_000.0,
        ),
        // The queue absorbs what arrives in pairs.
        case("[backend]\nservers = 2\nservice = \"20ms\"\nqueue = 10", attempts(1), |run| {
            run.success == 1.0
        }),
        // Work that takes longer than the timeout is done twice, without success.
        case("[backend]\nservers = 100\nservice = \"100ms\"", patient(), |run| {
            run.success == 0.0 && run.amplification == 2.0 && run.served_peak_ratio > 1.5
        }),
        case("[backend]\nservice = \"100ms\"\nconnections = 5", attempts(1), |run| {
            (0.49..0.53).contains(&run.success)
        }),
        case("[backend]\nlimit = { rate = 50, burst = 1 }", attempts(1), |run| {
            (0.49..0.52).contains(&run.success)
        }),
        case(
            "[outage]\nstart = \"0s\"\nduration = \"5s\"\nanswer = \"reset\"",
            attempts(1),
            |run| (0.49..0.51).contains(&run.success),
        ),
        case("[outage]\nstart = \"0s\"\nduration = \"5s\"\nanswer = \"hang\"", patient(), |run| {
            (0.49..0.52).contains(&run.success) && (1.49..1.51).contains(&run.amplification)
        }),
        case("[brownout]\nstart = \"0s\"\nduration = \"10s\"\nshare = 0.5", attempts(1), |run| {
            (0.4..0.6).contains(&run.success)
        }),
        case("[switched_off]\nstart = \"2s\"\nduration = \"5s\"", three(), |run| {
            run.calls.abs_diff(500) < 3 && run.success == 1.0
        }),
        case("[spike]\nstart = \"2s\"\nduration = \"1s\"\nfactor = 3.0", three(), |run| {
            run.calls.abs_diff(1200) < 5
        }),
    ];
    for Case { backend, policy, check } in cases {
        let it = scenario("10s", "arrivals = { constant = { rate = 100 } }", backend, &policy);
        let run = once(&it, "it", 3);
        assert!(check(&run), "{backend}: {:?}", Run { series: Default::default(), ..run });
    }
}

#[test]
fn capacity_loss_cold_cache_and_pause_reduce_capacity() {
    let served = |trouble: &str| {
        let backend = "[backend]\nservers = 10\nservice = \"100ms\"\nqueue = 10\n";
        let rest = format!("{backend}{trouble}");
        let it = scenario("20s", "arrivals = { constant = { rate = 95 } }", &rest, &attempts(1));
        once(&it, "it", 1).success
    };
    assert_eq!(served(""), 1.0);
    // Half of the capacity for half of the time.
    near(
        "loss",
        served("[capacity_loss]\nstart = \"5s\"\nduration = \"10s\"\nshare = 0.5"),
        0.76,
        0.03,
    );
    near(
        "cold",
        served("[cold_cache]\nstart = \"0s\"\nduration = \"20s\"\ncapacity = 0.2"),
        0.65,
        0.1,
    );
    // Requests that are queued during the pause are served afterwards.
    near("pause", served("[pause]\nstart = \"5s\"\nduration = \"5s\""), 0.765, 0.03);
}

#[test]
fn a_cancelled_request_is_not_served() {
    let success = |cancel: bool| {
        let scenario = built_in("pause", &[&format!("backend.cancel={cancel}")]);
        run(&scenario, "no-retry-1s", 4).mean(Metric::Success)
    };
    let (done, dropped) = (success(false), success(true));
    assert!(dropped > done + 0.1, "{dropped} {done}");
}

#[test]
fn a_write_whose_reply_is_lost_is_repeated_unless_it_is_keyed_or_unsafe() {
    let duplicates = |sets: &[&str], policy| {
        let run = run(&built_in("lost-replies", sets), policy, 2);
        (run.mean(Metric::Duplicates), run.mean(Metric::Success))
    };
    let (twice, success) = duplicates(&[], "careless");
    near("one in a hundred", twice, 300.0, 0.2);
    assert_eq!(success, 1.0);
    let (twice, success) = duplicates(&[], "standard-1s");
    assert_eq!(twice, 0.0);
    near("it reports them", 1.0 - success, 0.01, 0.15);
    let (twice, success) = duplicates(&["clients.keyed=true"], "standard-1s");
    // A new process has to earn the first retry after a timeout.
    assert!(twice == 0.0 && success > 0.9999, "{twice}, {success}");
}

#[test]
fn clients_that_ignore_hints_are_banned() {
    let ban = "backend.ban={after=5,duration=\"30s\"}";
    let success = |policy| run(&built_in("rate-limited", &[ban]), policy, 2).mean(Metric::Success);
    assert!(success("ignoring") < 0.5);
    assert_eq!(success("exact"), 1.0);
}

#[test]
fn slots_have_no_echo() {
    // The worst window after the spike, as a multiple of the limit.
    let echo = |hint: &str| {
        let scenario = built_in("rate-limited", &[&format!("backend.hint={hint}")]);
        let series = run(&scenario, "exact", 5).series;
        let after = (6_000.0 / series.window_ms) as usize;
        let worst = series.attempts[after..].iter().copied().fold(0.0, f64::max);
        worst * 1e3 / series.window_ms / 1_000.0
    };
    let (fixed, slots) = (echo("{fixed=\"5s\"}"), echo("\"slots\""));
    assert!(fixed > 1.7, "{fixed}");
    assert!(slots < 1.1, "{slots}");
}

#[test]
fn restarted_instances_forget_and_begin_together() {
    let deploy = built_in("deploy", &[]);
    let quiet = built_in("deploy", &["restart.share=0"]);
    let peak = |scenario: &Scenario| once(scenario, "no-retry", 1).peak_ratio;
    assert!(peak(&deploy) > 3.0 && peak(&quiet) < 1.2, "{} {}", peak(&deploy), peak(&quiet));
    // A bucket that starts full pays for retries at once; calls that park wait for a success.
    let peak = |policy| once(&deploy, policy, 1).peak_ratio;
    assert!(peak("full-bucket") > 1.4 * peak("standard"));
}

#[test]
fn one_bad_shard_harms_the_others_only_through_shared_guards() {
    let lost =
        |sets: &[&str]| run(&built_in("shard-down", sets), "breaker", 1).mean(Metric::HealthyLost);
    assert!(lost(&[]) > 0.5);
    assert!(lost(&["clients.guards=shard"]) < 0.02);
    let hot =
        |sets: &[&str]| run(&built_in("hot-key", sets), "breaker", 1).mean(Metric::HealthyLost);
    assert!(hot(&[]) > 0.2);
    assert!(hot(&["clients.guards=shard"]) < 0.01);
}

#[test]
fn a_caller_gives_up_on_an_instant_service_with_slow_dependencies() {
    let rest = "[backend]\ncalls = [\"leaf\"]\n[service.leaf]\nservice = \"5s\"";
    let policy = attempts(1) + "attempt_timeout = \"1s\"";
    let run =
        once(&scenario("5s", "arrivals = { constant = { rate = 10 } }", rest, &policy), "it", 1);
    assert_eq!((run.success, run.completion_ms < 6_100.0), (0.0, true));
}

#[test]
fn a_key_is_recognised_only_after_its_work_and_while_the_backend_answers() {
    let clients = "arrivals = { constant = { rate = 100 } }\nwork = \"unsafe\"\nkeyed = true";
    let failed = "[backend]\ncalls = [\"leaf\"]\n[service.leaf]\nerrors = 1.0";
    assert_eq!(once(&scenario("5s", clients, failed, &attempts(3)), "it", 1).success, 0.0);
    let down = "[backend]\nlost_replies = 1.0\n[outage]\nstart = \"1s\"\nduration = \"9s\"";
    let policy = attempts(2) + "attempt_timeout = \"1s\"";
    let run = once(&scenario("2s", clients, down, &policy), "it", 1);
    assert_eq!(run.success, 0.0, "no request is answered in an outage");
}

#[test]
fn a_restart_leaves_no_stale_events() {
    // All times are whole milliseconds, so that stale and current events coincide.
    let clients = "instances = 10\narrivals = { closed = { callers = 100, think = \"10ms\" } }";
    let rest = "[backend]\nerrors = 0.5\n[[restart]]\nstart = \"1s\"\nshare = 1.0\n\
                [[restart]]\nstart = \"1010ms\"\nshare = 1.0\n[[restart]]\nstart = \"1020ms\"\nshare = 1.0";
    let policy = attempts(3).replace("1ms", "10ms");
    let run = once(&scenario("2s", clients, rest, &policy), "it", 1);
    let ended: f64 = run.series.succeeded.iter().chain(&run.series.failed).sum();
    assert_eq!(ended, run.calls as f64);
}

#[test]
fn a_rate_that_changes_between_two_calls_is_applied() {
    let calls = |arrivals: &str, rest: &str| {
        let it = scenario("20s", &format!("arrivals = {arrivals}"), rest, &attempts(1));
        run(&it, "it", 20).mean(Metric::Calls)
    };
    let ramp = "{ ramp = { from = 0.01, to = 1000, duration = \"10s\" } }";
    near("ramp", calls(ramp, ""), 15_000.0, 0.01);
    let down = "{ ramp = { from = 1000, to = 0.01, duration = \"10s\" } }";
    near("down", calls(down, ""), 5_000.0, 0.01);
    let spike = "[spike]\nstart = \"10s\"\nduration = \"800ms\"\nfactor = 1000";
    near("spike", calls("{ constant = { rate = 1 } }", spike), 819.0, 0.01);
    let lull = "[spike]\nstart = \"5s\"\nduration = \"1s\"\nfactor = 1e-6";
    near("lull", calls("{ poisson = { rate = 100 } }", lull), 1_900.0, 0.02);
}

#[test]
fn a_pause_delays_requests_in_service() {
    let completion = |service: &str| {
        let backend = format!("[backend]\nservers = 1\nservice = \"{service}\"");
        let rest = format!("{backend}\n[pause]\nstart = \"1s\"\nduration = \"3s\"");
        let clients = "arrivals = { synchronised = { callers = 1 } }";
        once(&scenario("9s", clients, &rest, &attempts(1)), "it", 1).completion_ms
    };
    assert_eq!(completion("500ms"), 500.0);
    assert_eq!(completion("2s"), 5_000.0);
    assert_eq!(completion("5s"), 8_000.0);
}

#[test]
fn a_call_that_is_requeued_is_the_same_call() {
    let controllers = built_in("controllers", &[]);
    let run = once(&controllers, "control-plane", 1);
    assert_eq!((run.calls, run.success), (500, 1.0));
    assert!(run.amplification > 4.0);
}

#[test]
fn controllers_with_the_preset_send_least_and_converge_first() {
    let controllers = built_in("controllers", &[]);
    let preset = run(&controllers, "control-plane", 5);
    for loop_without_end in ["doubling", "full-jitter"] {
        let other = run(&controllers, loop_without_end, 5);
        for (figure, share) in [(Metric::Amplification, 0.99), (Metric::CompletionMs, 0.6)] {
            let (ours, theirs) = (preset.mean(figure), other.mean(figure));
            assert!(ours < share * theirs, "{figure}: {ours}, {loop_without_end} {theirs}");
        }
    }
}

#[test]
fn controllers_without_jitter_come_in_clusters_until_the_end() {
    let controllers = built_in("controllers", &[]);
    let (doubling, jittered) =
        (run(&controllers, "doubling", 5), run(&controllers, "full-jitter", 5));
    assert_eq!(doubling.mean(Metric::PeakRatio), 1.0);
    assert!(jittered.mean(Metric::PeakRatio) < 0.5);
    assert!(doubling.mean(Metric::CompletionMs) > 2.0 * jittered.mean(Metric::CompletionMs));
}

#[test]
fn a_closed_loop_sends_less_when_calls_take_longer() {
    let calls = |service: &str| {
        let clients = "arrivals = { closed = { callers = 100, think = { exponential = \"1s\" } } }";
        let it =
            scenario("100s", clients, &format!("[backend]\nservice = \"{service}\""), &attempts(1));
        once(&it, "it", 1).calls as f64
    };
    near("no time", calls("0s"), 10_000.0, 0.03);
    near("a second", calls("1s"), 5_000.0, 0.04);
}

#[test]
fn every_built_in_scenario_runs_and_teaches() {
    for built_in in redial_sim::scenario::BUILT_IN {
        let scenario =
            built_in.read(&[]).unwrap_or_else(|problem| panic!("{}: {problem}", built_in.name));
        assert!(scenario.teaches.len() > 200, "{} does not say what it teaches", built_in.name);
        assert!(scenario.policies.len() > 1, "{} compares nothing", built_in.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every call ends once, and no count is negative.
    #[test]
    fn every_call_ends_once(
        arrivals in prop_oneof![
            Just("{ constant = { rate = 300 } }"),
            Just("{ poisson = { rate = 300 } }"),
            Just("{ synchronised = { callers = 500, at = \"1s\" } }"),
            Just("{ closed = { callers = 200, think = \"300ms\" } }"),
        ],
        latency in prop_oneof![Just("\"0s\""), Just("{ exponential = \"5ms\" }")],
        servers in 1..20_u32,
        queue in 0..100_u32,
        shards in 1..4_u32,
        cancel: bool,
        lost in prop_oneof![Just(0.0), Just(0.2)],
        unsafe_work: bool,
        when_full in prop_oneof![Just("503"), Just("\"hang\"")],
        answer in prop_oneof![Just("503"), Just("\"hang\""), Just("\"connect\"")],
        restart: bool,
        pause: bool,
        count in 1..6_u32,
        seed: u64,
    ) {
        let work = if unsafe_work { "unsafe" } else { "idempotent" };
        let clients = format!("instances = 5\narrivals = {arrivals}\nlatency = {latency}\nwork = \"{work}\"");
        let mut rest = format!(
            "[backend]\nservers = {servers}\nservice = {{ exponential = \"20ms\" }}\nqueue = {queue}\n\
             shards = {shards}\ncancel = {cancel}\nlost_replies = {lost}\nwhen_full = {when_full}\n\
             [outage]\nstart = \"1s\"\nduration = \"1s\"\nanswer = {answer}\n"
        );
        if restart {
            rest += "[restart]\nstart = \"1500ms\"\nshare = 0.5\nburst = 3\n";
        }
        if pause {
            rest += "[pause]\nstart = \"2s\"\nduration = \"700ms\"\n";
        }
        let policy = format!(
            "attempts = {count}\nattempt_timeout = \"250ms\"\nbackoff = {{ base = \"20ms\", cap = \"1s\" }}\n"
        );
        let it = scenario("4s", &clients, &rest, &policy);
        let run = once(&it, "it", seed);
        let ended: f64 = run.series.succeeded.iter().chain(&run.series.failed).sum();
        prop_assert_eq!(ended, run.calls as f64);
        prop_assert!(run.attempts <= run.calls * u64::from(count));
        prop_assert!(run.attempts >= run.retries);
        prop_assert!((0.0..=1.0).contains(&run.success), "{}", run.success);
        prop_assert!((0.0..=1.0).contains(&run.goodput_lost), "{}", run.goodput_lost);
    }
}
