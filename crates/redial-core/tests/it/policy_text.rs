//! Policies as text, and the errors for invalid text.

use proptest::prelude::*;
use redial_core::admit::budget::{
    Budget, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::admit::{BreakerRule, CoolDownRule, RateRule, StallRule, ThrottleRule};
use redial_core::decide::{Class, Failure, RetryOn};
use redial_core::schedule::{Backoff, HedgeRule, HintRule, Jitter, TooLong};
use redial_core::{Policy, Preset, Rate, Span};

use crate::support::{MS, NS, SECOND, ms, policy, spans};

#[test]
fn a_policy_file_is_read() {
    let read: Policy = toml::from_str(
        r#"
        attempts        = 4
        attempt_timeout = "150ms"
        deadline        = "2s"
        backoff         = { base = "100ms", cap = "2s", jitter = "full" }
        budget          = { window = { ratio = 0.1, floor = "10/s", ttl = "10s" } }
        hedge           = "none"
        stall           = "none"
        park            = "none"
        retry_on        = ["connect", "timeout", "reset", 408, 429, 502, 503, 504]
        "#,
    )
    .unwrap();
    let codes = [408, 429, 502, 503, 504];
    let listed = [Class::Connect, Class::Timeout, Class::Reset];
    let listed = listed.into_iter().fold(RetryOn::nothing(), RetryOn::class);
    let listed = codes.into_iter().fold(listed, RetryOn::code);
    let floor = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::per_second(10)));
    let written =
        policy(|p| p.attempt_timeout(ms(150)).deadline(ms(2_000)).budget(floor).retry_on(listed));
    assert_eq!(read, written);
    assert!(!read.retry_on().contains(&Failure::new(Class::ServerError).code(500)));
}

#[test]
fn every_kind_of_budget_is_read() {
    let budget = |text: &str| toml::from_str::<Policy>(text).unwrap().budget().to_owned();
    assert_eq!(
        budget("budget = { tokens = { capacity = 500, cost = 5, timeout_cost = 10 } }"),
        Budget::Tokens(TokenBudget::new(500, 5).timeout_cost(10))
    );
    assert_eq!(
        budget("budget = { inflight = { ratio = 0.2, floor = 3 } }"),
        Budget::Inflight(InflightBudget::default())
    );
    assert_eq!(
        budget("budget = { throttling = { capacity = 10, ratio = 0.1 } }"),
        Budget::Throttling(ThrottlingBudget::new(10, 0.1))
    );
    assert_eq!(budget("budget = \"none\""), Budget::None);
    assert_eq!(
        budget(
            "budget.tokens = { capacity = 200, cost = 20, timeout_cost = 40, throttled_cost = 20, opening = 20, \
             bootstrap = 40, bonus = 10, slowdown = 1.5, floor = \"1/30s\" }"
        ),
        Budget::Tokens(TokenBudget::earned())
    );
}

#[test]
fn every_kind_of_hedge_is_read() {
    let hedge = |text: &str| toml::from_str::<Policy>(text).unwrap().hedge().copied();
    assert_eq!(hedge("hedge = { after = \"200ms\" }"), Some(HedgeRule::after(ms(200))));
    let learnt = HedgeRule::quantile(0.95).multiple(1.5).at_most(2);
    assert_eq!(hedge("hedge = { quantile = 0.95, multiple = 1.5, most = 2 }"), Some(learnt));
    let share = HedgeRule::share(0.25).at_most(3).if_overtaken();
    assert_eq!(hedge("hedge = { share = 0.25, most = 3, overtaken = true }"), Some(share));
    assert_eq!(hedge("hedge = \"none\""), None);
    assert_eq!(hedge(""), Some(HedgeRule::share(1.0 / 3.0).at_most(3).if_overtaken()));
}

#[test]
fn rules_that_are_on_by_default_can_be_switched_off() {
    let off = Policy::standard().edit().without_hedge().without_stall().build().unwrap();
    let toml = toml::to_string(&off).unwrap();
    assert!(toml.contains("hedge = \"none\"") && toml.contains("stall = \"none\""), "{toml}");
    assert_eq!(toml::from_str::<Policy>(&toml).unwrap(), off);
    let json = serde_json::to_string(&off).unwrap();
    assert!(json.contains(r#""hedge":"none""#) && json.contains(r#""stall":"none""#), "{json}");
    assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), off);

    let null = serde_json::from_str::<Policy>(r#"{"hedge":null,"stall":null}"#).unwrap();
    assert_eq!(null, off);

    let stall = |text: &str| toml::from_str::<Policy>(text).unwrap().stall().copied();
    assert_eq!(stall("stall = {}"), Some(StallRule::default()));
    let rule = StallRule::most(0.25).timeouts(9);
    assert_eq!(stall("stall = { timeouts = 9, most = 0.25 }"), Some(rule));
}

#[test]
fn parts_that_are_left_out_have_defaults() {
    let read: Policy = toml::from_str("hint = { honour = { too_long = \"clip\" } }").unwrap();
    assert_eq!(read.hint_rule(), &HintRule::honour(ms(60_000), TooLong::Clip));
}

#[test]
fn an_empty_policy_is_the_standard_one() {
    assert_eq!(toml::from_str::<Policy>("").unwrap(), Policy::standard());
}

/// The error contains all `parts`.
fn rejects(text: &str, parts: &[&str]) {
    let error = toml::from_str::<Policy>(text).expect_err(text).to_string();
    for part in parts {
        assert!(error.contains(part), "{text}\n{error}\nlacks {part:?}");
    }
}

#[test]
fn errors_name_the_mistake() {
    rejects("attempts = 0", &["attempts is 0", "from 1 to 1000000"]);
    rejects("attempts = -1", &["attempts = -1", "-1"]);
    rejects("attempts = 1e3", &["attempts = 1e3"]);
    rejects("attemps = 4", &["attemps", "expected one of", "attempts"]);
    rejects("deadline = \"5 parsecs\"", &["5 parsecs", "150ms"]);
    rejects("deadline = 5", &["deadline = 5", "a duration such as"]);
    rejects("deadline = \"0s\"", &["deadline is 0s", "above zero"]);
    rejects("deadline = \"0.0000000001s\"", &["0.0000000001s"]);
    rejects(
        "attempt_timeout = \"11s\"",
        &["attempt_timeout is 11s", "at most deadline, which is 10s"],
    );
    rejects(
        "backoff = { base = \"3s\" }",
        &["backoff.base is 3s", "at most backoff.cap, which is 2s"],
    );
    rejects("backoff = { base = \"-3s\" }", &["-3s"]);
    rejects("backoff = { jitter = \"fully\" }", &["fully", "decorrelated"]);
    rejects("backoff = { jitter = { around = 2.0 } }", &["backoff.jitter.around is 2"]);
    rejects("backoff = { growth = { exponential = nan } }", &["NaN", "from 1 to 1000"]);
    rejects("budget = { window = { ratio = 1.5 } }", &["budget.window.ratio is 1.5"]);
    rejects("budget = { window = { ratio = nan } }", &["budget.window.ratio is NaN"]);
    rejects("budget = { window = { floor = \"ten\" } }", &["ten", "10/s"]);
    rejects("budget = { window = { floor = \"0/s\", ratio = 0 } }", &["ratio is 0", "floor"]);
    rejects("budget = { windows = {} }", &["windows", "window"]);
    rejects("retry_on = [200000]", &["200000", "status code"]);
    rejects("retry_on = [99]", &["99", "100 to 599"]);
    rejects("retry_on = [-1]", &["-1"]);
    rejects("retry_on = [\"conect\"]", &["conect", "connect, refused"]);
    rejects("retry_on = [\"permanent\"]", &["permanent", "connect, refused"]);
    rejects("retry_on = 503", &["a list of classes"]);
    rejects("hint = { honour = { cap = \"1m\", spreed = 1 } }", &["spreed"]);
    rejects("breaker = { lookback = { calls = 0 } }", &["breaker.lookback.calls is 0"]);
    rejects("concurrency = 0", &["concurrency is 0"]);
    rejects("hedge = {}", &["needs `after`, `quantile` or `share`"]);
    rejects(
        "hedge = { after = \"1s\", quantile = 0.9 }",
        &["more than one of `after`, `quantile` and `share`"],
    );
    rejects("hedge = { quantile = 95 }", &["hedge.quantile is 95", "below 1"]);
    rejects("hedge = { share = 1.5 }", &["hedge.share is 1.5", "below 1"]);
    rejects("hedge = { quantile = 0.9, share = 0.5 }", &["more than one of"]);
    rejects("hedge = \"off\"", &["off", "a table, or \"none\""]);
    rejects("hedge = false", &["hedge = false", "a table, or \"none\""]);
    rejects("stall = { most = 2.0 }", &["stall.most is 2", "from 0 to 1"]);
    rejects("stall = { timeout = 5 }", &["timeout", "expected `timeouts` or `most`"]);
    rejects("budget.tokens = { opening = 501 }", &["budget.tokens.opening is 501", "500"]);
    rejects("budget.tokens = { floor = \"often\" }", &["often", "10/s"]);
    rejects("budget.tokens = { slowdown = 0.5 }", &["budget.tokens.slowdown is 0.5"]);
}

#[test]
fn durations_read_and_print() {
    for (text, nanos) in [
        ("150ms", 150 * MS),
        ("1.5s", 1_500 * MS),
        ("1h 30m", 5_400 * SECOND),
        ("1h30m", 5_400 * SECOND),
        ("2d", 172_800 * SECOND),
        ("0s", Span::ZERO),
        ("7us", Span::from_micros(7)),
        ("7µs", Span::from_micros(7)),
        ("18446744073709551615ns", Span::MAX),
    ] {
        assert_eq!(text.parse::<Span>(), Ok(nanos), "{text}");
        assert_eq!(nanos.to_string().parse(), Ok(nanos), "{text}");
    }
    for text in [
        "",
        " ",
        "5",
        "s",
        "-5s",
        "5 s s",
        "1..5s",
        ".5s",
        "5.s",
        "1e3s",
        "5sec",
        "0.1ns",
        "٣s",
        "99999999999999999999s",
        "18446744073709551616ns",
        "18446744073709551615s",
        "1s2",
        "5\u{0}s",
        "0.00000000000000000000000000000000000000000000000000000000000000000000000000000000000000001s",
    ] {
        assert!(text.parse::<Span>().is_err(), "{text:?}");
    }
}

#[test]
fn rates_read_and_print() {
    for (text, rate) in [
        ("10/s", Rate::per_second(10)),
        ("1/30s", Rate::new(1, ms(30_000))),
        ("5/m", Rate::new(5, ms(60_000))),
    ] {
        assert_eq!(text.parse(), Ok(rate));
        assert_eq!(rate.to_string().parse(), Ok(rate));
    }
    for text in ["", "10", "/s", "10/", "-1/s", "1.5/s", "10/0s", "10/parsec", "99999999999/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text:?}");
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let duration = || 1..100_000_000_000_u64;
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.0..=1.0).prop_map(Jitter::Around),
        (0.0..=1.0).prop_map(Jitter::Normal),
        spans(NS..MS).prop_map(Jitter::Added),
    ];
    let budget = prop_oneof![
        Just(Budget::None),
        (0.000001..=1.0, 0..1000_u32, 1_000..=60_000_u64, any::<bool>(), 0..9_u32).prop_map(
            |(ratio, floor, ttl, success, bootstrap)| {
                let budget = WindowBudget::ratio(ratio).floor(Rate::new(floor, ms(1_500)));
                let budget = budget.ttl(ms(ttl)).bootstrap(bootstrap);
                Budget::Window(if success { budget.deposit_on_success() } else { budget })
            }
        ),
        (10..1000_u32, 1..=10_u32).prop_map(|(c, n)| Budget::Tokens(TokenBudget::new(c, n))),
        (10..1000_u32, 0..=10_u32, 1.0..=1000.0, 1..9_u32).prop_map(
            |(capacity, n, times, floor)| {
                let budget = TokenBudget::new(capacity, 10).opening(n).bootstrap(n).bonus(n);
                Budget::Tokens(budget.slowdown(times).floor(Rate::new(floor, ms(1_500))))
            }
        ),
        (1..=1000_u32, 0.001..9.0)
            .prop_map(|(c, r)| Budget::Throttling(ThrottlingBudget::new(c, r))),
        (0.0..=1.0, 1..9_u32).prop_map(|(r, f)| Budget::Inflight(InflightBudget::new(r, f))),
    ];
    let hint = prop_oneof![
        Just(HintRule::Ignore),
        (duration(), proptest::option::of(0.0..=1.0)).prop_map(|(cap, spread)| {
            HintRule::Honour { cap: Span::from_nanos(cap), too_long: TooLong::Clip, spread }
        }),
    ];
    let guards = (any::<bool>(), any::<bool>(), any::<bool>(), 1..50_u32);
    (1..=1_000_000_u32, duration(), jitter, 1.0..=1000.0, budget, hint, guards).prop_map(
        |(attempts, base, jitter, factor, budget, hint, (breaker, throttle, rate, n))| {
            let base = std::time::Duration::from_nanos(base);
            let backoff =
                Backoff::exponential(base, base * 2 + ms(1)).factor(factor).jitter(jitter);
            let mut draft = Policy::draft().attempts(attempts).backoff(backoff).budget(budget);
            draft = draft.hint(hint).cooldown(CoolDownRule::every(base)).concurrency(n);
            if breaker {
                draft = draft.breaker(BreakerRule::default().last_time(base).slow_calls(base, 0.3));
            }
            if throttle {
                draft = draft.hedge(HedgeRule::quantile(0.5).multiple(factor).at_most(n.min(10)));
                draft = draft.throttle(ThrottleRule::k(factor)).without_deadline();
            }
            if breaker ^ rate {
                draft = draft.hedge(HedgeRule::after(base)).without_stall();
            } else if rate {
                draft = draft.stall(StallRule::most(1.0 / factor).timeouts(n));
                draft = draft.hedge(HedgeRule::share(0.5 / factor).if_overtaken());
            }
            if rate {
                let rule = RateRule::new(Rate::per_second(n), n);
                draft = draft.rate(rule).require_key().retry_on(RetryOn::nothing().code(503));
            }
            draft.build().unwrap()
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(policy in any_policy()) {
        let text = toml::to_string(&policy).unwrap();
        prop_assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy.clone(), "{}", text);
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
    }

    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = text.parse::<Span>();
        let _ = text.parse::<Rate>();
        let _ = toml::from_str::<Policy>(&text);
        let _ = toml::from_str::<Policy>(&format!("deadline = {text:?}"));
        let _ = toml::from_str::<Policy>(&format!("retry_on = [{text}]"));
    }

    #[test]
    fn every_duration_prints_without_loss(nanos in any::<u64>()) {
        prop_assert_eq!(nanos.to_string().parse(), Ok(nanos));
    }
}

#[test]
fn presets_print_and_read_back() {
    for preset in Preset::ALL {
        let text = toml::to_string(&Policy::from(preset)).unwrap();
        assert_eq!(toml::from_str::<Policy>(&text).unwrap(), Policy::from(preset), "{text}");
    }
}
