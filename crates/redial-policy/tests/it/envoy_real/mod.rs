//! A real Envoy accepts exported configs, and makes the attempts that `redial explain` predicts.
//!
//! `cargo xtask test` installs Envoy and sets `REDIAL_TEST_ENVOY`.

mod proxy;
mod upstream;
mod waits;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::decide::{Class, RetryOn, Safety};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Preset};
use redial_policy::Format;
use redial_policy::file::{File, Named, Setting};
use redial_sim::explain::{Question, explain};

use crate::policies::files;
use proxy::Proxy;
use upstream::Upstream;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn file<'a>(policies: impl IntoIterator<Item = (&'a str, Policy)>) -> File {
    let named = |(name, policy): (&str, _)| Named {
        name: name.to_owned(),
        policy,
        setting: Setting::default(),
    };
    File { policies: policies.into_iter().map(named).collect(), ..File::default() }
}

fn exported(file: &File) -> String {
    Format::Envoy.write(file).unwrap().text
}

#[test]
fn envoy_accepts_the_presets() {
    let presets = Preset::ALL.map(|preset| (preset.name(), Policy::from(preset)));
    proxy::validate(&exported(&file(presets.clone()))).unwrap();
    for one in presets {
        proxy::validate(&exported(&file([one]))).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 60,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn envoy_accepts_every_file(file in files()) {
        let text = exported(&file);
        prop_assert_eq!(proxy::validate(&text), Ok(()), "{}", text);
    }
}

/// A call, and the outcome of its attempts.
struct Case {
    name: &'static str,
    policy: Draft,
    request: &'static str,
    outcome: &'static str,
    safety: Safety,
}

fn case(name: &'static str, policy: Draft, request: &'static str, outcome: &'static str) -> Case {
    Case { name, policy, request, outcome, safety: Safety::Idempotent }
}

fn cases() -> Vec<Case> {
    let draft = |attempts| {
        let quick = Backoff::exponential(ms(1), ms(5));
        Policy::draft().attempts(attempts).without_deadline().backoff(quick).budget(Budget::None)
    };
    let on = |on: RetryOn| draft(4).retry_on(on);
    let transport = RetryOn::nothing().class(Class::Connect).class(Class::Refused);
    let transport = transport.class(Class::Reset).class(Class::Timeout);
    let in_flight = Budget::Inflight(InflightBudget::default());
    let post = case("post", draft(4), "POST /503", "503");
    vec![
        case("one", draft(1), "GET /503", "503"),
        case("two", draft(2), "GET /503", "503"),
        case("three", draft(3), "GET /503", "503"),
        case("five", draft(5), "PUT /503", "503"),
        case("by-code", on(RetryOn::nothing().code(503)), "GET /503", "503"),
        case("by-class", on(RetryOn::nothing().class(Class::Overloaded)), "GET /503", "503"),
        case("other-code", on(RetryOn::nothing().code(500)), "GET /503", "503"),
        case("only-transport", on(transport.clone()), "GET /503", "503"),
        case("teapot", draft(4), "GET /418", "418"),
        case("throttled", draft(3), "GET /429", "429"),
        case("reset", on(transport.clone()), "GET /reset", "reset"),
        case("reset-not-listed", on(RetryOn::nothing().code(503)), "GET /reset", "reset"),
        case("hang", on(transport).attempt_timeout(ms(200)), "GET /hang", "timeout"),
        case("success", draft(4), "GET /200", "200"),
        case("cancelled", on(RetryOn::nothing().code(1)), "GET /grpc-1", "grpc:1"),
        case("cancelled-not-listed", on(RetryOn::nothing().code(14)), "GET /grpc-1", "grpc:1"),
        case("unavailable", on(RetryOn::nothing().code(14)), "GET /grpc-14", "grpc:14"),
        case("bounded", draft(4).budget(in_flight), "GET /503", "503"),
        Case { safety: Safety::Unsafe, ..post },
    ]
}

#[test]
fn an_upstream_sees_the_attempts_that_explain_predicts() {
    let cases = cases();
    let upstream = Upstream::start();
    let policies = cases.iter().map(|case| (case.name, case.policy.clone().build().unwrap()));
    let proxy = Proxy::start(&exported(&file(policies)), upstream.port());
    for case in &cases {
        proxy.call(case.request, case.name, "");
        let script = case.outcome.parse().unwrap();
        let question = Question { script, safety: case.safety, ..Question::default() };
        let explained = explain(&case.policy.clone().build().unwrap(), &question);
        let attempts = explained.steps.iter().filter(|step| step.outcome.is_some()).count();
        assert_eq!(upstream.seen(case.name), attempts, "{}", case.name);
    }
}

#[test]
fn a_post_with_a_key_is_retried() {
    let policy = Policy::draft().attempts(3).budget(Budget::None).without_deadline().require_key();
    let policy = policy.backoff(Backoff::exponential(ms(1), ms(5))).build().unwrap();
    let upstream = Upstream::start();
    let named = [("without", policy.clone()), ("with", policy.clone()), ("put", policy)];
    let proxy = Proxy::start(&exported(&file(named)), upstream.port());
    proxy.call("POST /503", "without", "");
    proxy.call("POST /503", "with", "idempotency-key: \"1\"\r\n");
    proxy.call("PUT /503", "put", "");
    assert_eq!(["without", "with", "put"].map(|name| upstream.seen(name)), [1, 3, 1]);
}

/// All calls fail at the same time, and only as many as the budget allows are retried.
#[test]
fn a_budget_bounds_the_retries_in_flight() {
    const CALLS: usize = 6;
    for floor in [1, 2, 4] {
        let budget = Budget::Inflight(InflightBudget::new(0.0, floor));
        let policy = Policy::draft().attempts(2).budget(budget).without_deadline();
        let policy = policy.backoff(Backoff::exponential(ms(1), ms(5))).build().unwrap();
        let upstream = Upstream::together(CALLS);
        let proxy = Proxy::start(&exported(&file([("p", policy)])), upstream.port());
        let floor = floor as usize;
        std::thread::scope(|scope| {
            for _ in 0..CALLS {
                scope.spawn(|| {
                    proxy.call("GET /together", "p", "");
                    upstream.call_ended(CALLS - floor);
                });
            }
        });
        assert_eq!(upstream.seen("p"), CALLS + floor);
    }
}
