use redial_core::admit::budget::{
    Budget, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::admit::{BreakerRule, CoolDownRule, RateRule, StallRule, ThrottleRule};
use redial_core::fleet::{Location, SecretSource};
use redial_core::schedule::{Backoff, HedgeRule, HintRule, Jitter, TooLong};
use redial_core::{Draft, Policy, Preset, Rate, Span, WorstCase};
use std::time::Duration;

use crate::support::{MS, SECOND, ms, policy};

/// The one error that `change` causes names `field` and `value`.
fn rejects(field: &str, value: &str, change: impl FnOnce(Draft) -> Draft) {
    let error = change(Policy::draft()).build().expect_err(field);
    assert_eq!((error.field(), error.value()), (field, value), "{error}");
    assert!(error.to_string().contains(error.allowed()) && error.allowed().len() > 5);
}

#[test]
fn attempts_and_times_are_checked() {
    rejects("attempts", "0", |p| p.attempts(0));
    rejects("attempts", "4294967295", |p| p.attempts(u32::MAX));
    rejects("deadline", "0s", |p| p.deadline(Duration::ZERO));
    rejects("deadline", "367d".replace("367d", "8808h").as_str(), |p| {
        p.deadline(ms(367 * 86_400_000))
    });
    rejects("attempt_timeout", "0s", |p| p.attempt_timeout(Duration::ZERO));
    rejects("attempt_timeout", "11s", |p| p.attempt_timeout(ms(11_000)));
    rejects("deadline", "18446744073709551614ns", |p| p.deadline(Duration::MAX));
    rejects("connect_timeout", "0s", |p| p.connect_timeout(Duration::ZERO));
    rejects("connect_timeout", "11s", |p| p.connect_timeout(ms(11_000)));
    rejects("connect_timeout", "2s", |p| p.attempt_timeout(ms(1_000)).connect_timeout(ms(2_000)));

    let error = Policy::draft().attempt_timeout(ms(11_000)).build().unwrap_err();
    assert_eq!(error.allowed(), "at most deadline, which is 10s", "also a default is named");
}

#[test]
fn the_backoff_is_checked() {
    let backoff = |base, cap| Backoff::exponential(ms(base), ms(cap));
    rejects("backoff.base", "0s", |p| p.backoff(backoff(0, 10)));
    rejects("backoff.cap", "0s", |p| p.backoff(backoff(1, 0)));
    rejects("backoff.base", "2s", |p| p.backoff(backoff(2_000, 1_000)));
    rejects("backoff.base", "18446744073709551615ns", |p| {
        p.backoff(Backoff::constant(Duration::MAX))
    });
    for (factor, text) in [(0.5, "0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf"), (-2.0, "-2")] {
        rejects("backoff.growth.exponential", text, |p| p.backoff(backoff(1, 9).factor(factor)));
    }
    for (ratio, text) in [(1.1, "1.1"), (-0.1, "-0.1"), (f64::NAN, "NaN")] {
        let jitter = Jitter::Around(ratio);
        rejects("backoff.jitter.around", text, |p| p.backoff(backoff(1, 9).jitter(jitter)));
    }
    for (most, text) in [(Span::ZERO, "0s"), (10 * MS, "10ms")] {
        let jitter = Jitter::Added(most);
        rejects("backoff.jitter.added", text, |p| p.backoff(backoff(1, 9).jitter(jitter)));
    }
}

#[test]
fn hints_are_checked() {
    let honour = |cap, spread| HintRule::Honour { cap, too_long: TooLong::Stop, spread };
    rejects("hint.honour.cap", "0s", |p| p.hint(honour(Span::ZERO, None)));
    rejects("hint.honour.spread", "1.5", |p| p.hint(honour(SECOND, Some(1.5))));
}

#[test]
fn hedges_are_checked() {
    let rule = HedgeRule::quantile;
    rejects("hedge.after", "0s", |p| p.hedge(HedgeRule::after(Duration::ZERO)));
    for (ratio, text) in [(0.0, "0"), (1.0, "1"), (-0.5, "-0.5"), (f64::NAN, "NaN")] {
        rejects("hedge.quantile", text, |p| p.hedge(rule(ratio)));
    }
    for (multiple, text) in [(0.0, "0"), (1_001.0, "1001"), (f64::NAN, "NaN")] {
        rejects("hedge.multiple", text, |p| p.hedge(rule(0.5).multiple(multiple)));
    }
    for (ratio, text) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN")] {
        rejects("hedge.share", text, |p| p.hedge(HedgeRule::share(ratio)));
    }
    rejects("hedge.most", "0", |p| p.hedge(rule(0.5).at_most(0)));
    rejects("hedge.most", "11", |p| p.hedge(rule(0.5).at_most(11)));
}

#[test]
fn window_budgets_are_checked() {
    let window = |budget: WindowBudget| move |p: Draft| p.budget(Budget::Window(budget));
    let none = Rate::ZERO;
    for (ratio, text) in
        [(1.01, "1.01"), (-0.1, "-0.1"), (f64::NAN, "NaN"), (1e-10, "0.0000000001")]
    {
        rejects("budget.window.ratio", text, window(WindowBudget::ratio(ratio)));
    }
    rejects("budget.window.ratio", "0", window(WindowBudget::ratio(0.0).floor(none)));
    let never = Rate::new(1, ms(30_000));
    rejects("budget.window.floor", "1/30s", window(WindowBudget::ratio(0.1).floor(never)));
    policy(window(WindowBudget::ratio(0.0).floor(Rate::per_second(1))));
    rejects("budget.window.ttl", "999ms", window(WindowBudget::default().ttl(ms(999))));
    rejects("budget.window.ttl", "61s", window(WindowBudget::default().ttl(ms(61_000))));
    let huge = Rate::per_second(u32::MAX);
    rejects("budget.window.floor", "4294967295/s", window(WindowBudget::default().floor(huge)));
    let instant = Rate::new(1, Duration::ZERO);
    rejects("budget.window.floor", "1/0s", window(WindowBudget::default().floor(instant)));
}

#[test]
fn other_budgets_are_checked() {
    let tokens = |budget| move |p: Draft| p.budget(Budget::Tokens(budget));
    rejects("budget.tokens.capacity", "0", tokens(TokenBudget::new(0, 1)));
    rejects("budget.tokens.cost", "0", tokens(TokenBudget::new(10, 0)));
    rejects("budget.tokens.cost", "11", tokens(TokenBudget::new(10, 11)));
    rejects("budget.tokens.timeout_cost", "11", tokens(TokenBudget::new(10, 1).timeout_cost(11)));
    rejects("budget.tokens.throttled_cost", "0", tokens(TokenBudget::new(10, 1).throttled_cost(0)));
    let ten = TokenBudget::new(10, 1);
    rejects("budget.tokens.opening", "11", tokens(ten.opening(11)));
    rejects("budget.tokens.bonus", "11", tokens(ten.bonus(11)));
    rejects("budget.tokens.bootstrap", "1000001", tokens(ten.bootstrap(1_000_001)));
    rejects("budget.tokens.floor", "0", tokens(ten.floor(Rate::ZERO)));
    rejects("budget.tokens.floor", "0s", tokens(ten.floor(Rate::new(1, Duration::ZERO))));
    for (times, text) in [(0.9, "0.9"), (1_001.0, "1001"), (f64::NAN, "NaN")] {
        rejects("budget.tokens.slowdown", text, tokens(ten.slowdown(times)));
    }
    policy(tokens(ten.opening(0).bootstrap(1_000_000).bonus(10).slowdown(1.0)));
    let grpc = |max, ratio| {
        move |p: Draft| p.budget(Budget::Throttling(ThrottlingBudget::new(max, ratio)))
    };
    rejects("budget.throttling.capacity", "1001", grpc(1001, 0.1));
    rejects("budget.throttling.ratio", "0.0001", grpc(10, 0.0001));
    rejects("budget.throttling.ratio", "NaN", grpc(10, f64::NAN));
    let inflight = |ratio, floor| {
        move |p: Draft| p.budget(Budget::Inflight(InflightBudget::new(ratio, floor)))
    };
    rejects("budget.inflight.ratio", "2", inflight(2.0, 3));
    rejects("budget.inflight.ratio", "0", inflight(0.0, 0));
    rejects("budget.inflight.floor", "4294967295", inflight(0.1, u32::MAX));
}

#[test]
fn only_a_window_has_a_fleet() {
    rejects("fleet", "\"a b\"", |p| p.fleet("a b"));
    rejects("fleet", "none", |p| p.fleet("none"));
    rejects("fleet", "shop", |p| p.budget(Budget::None).fleet("shop"));
    rejects("fleet", "shop", |p| p.fleet("shop"));
    assert_eq!(policy(|p| p.fleet("shop")).fleet(), Some("shop"));
}

#[test]
fn the_ledger_of_a_fleet_is_checked_and_its_password_not_shown() {
    let location = |redis: &str| Location {
        redis: redis.to_owned(),
        user: None,
        password: Some(SecretSource::Env("P".to_owned())),
        ca_file: None,
    };
    for redis in ["redis://h", "rediss://h:6379/0", "redis://[::1]:1"] {
        assert_eq!(location(redis).check(), Ok(()), "{redis}");
    }
    for redis in [
        "",
        "h:6379",
        "http://h",
        "redis://",
        "redis://:6379",
        "redis:///0",
        "redis://h?x",
        "redis://h#x",
    ] {
        assert_eq!(location(redis).check().unwrap_err().field(), "redis", "{redis}");
    }
    for (redis, shown) in [
        ("redis://me:se@cret@h:1", "redis://…@h:1"),
        ("redis://me:se?cret@h", "redis://…"),
        ("unix:///s?pass=secret", "unix:///s"),
        ("unix:///s?pass=se@cret", "unix://…"),
    ] {
        let secret = location(redis).check().unwrap_err();
        assert_eq!((secret.field(), secret.value()), ("redis", shown));
    }
    let field = |change: fn(&mut Location)| {
        let mut location = location("redis://h");
        change(&mut location);
        location.check().unwrap_err().field().to_owned()
    };
    assert_eq!(field(|it| (it.user, it.password) = (Some("u".to_owned()), None)), "user");
    assert_eq!(field(|it| it.user = Some(String::new())), "user");
    assert_eq!(field(|it| it.password = Some(SecretSource::File(String::new()))), "password");
    assert_eq!(field(|it| it.ca_file = Some("ca.pem".to_owned())), "ca_file");
}

#[test]
fn guards_are_checked() {
    let breaker = |rule: BreakerRule| move |p: Draft| p.breaker(rule);
    let rule = BreakerRule::default;
    rejects("breaker.lookback.calls", "0", breaker(rule().last_calls(0)));
    rejects("breaker.lookback.time", "0s", breaker(rule().last_time(Duration::ZERO)));
    rejects("breaker.failure_ratio", "0", breaker(rule().failure_ratio(0.0)));
    rejects("breaker.failure_ratio", "NaN", breaker(rule().failure_ratio(f64::NAN)));
    rejects("breaker.slow_ratio", "1.5", breaker(rule().slow_calls(ms(1), 1.5)));
    rejects("breaker.slow_after", "0s", breaker(rule().slow_calls(Duration::ZERO, 0.5)));
    rejects("breaker.minimum_calls", "0", breaker(rule().minimum_calls(0)));
    rejects("breaker.minimum_calls", "101", breaker(rule().minimum_calls(101)));
    policy(breaker(rule().last_calls(5)));
    rejects("breaker.open", "0s", breaker(rule().open_for(Duration::ZERO, 0.1)));
    rejects("breaker.open_spread", "-1", breaker(rule().open_for(ms(1), -1.0)));
    rejects("breaker.probes", "0", breaker(rule().probes(0)));
    rejects("breaker.probes", "32768", breaker(rule().probes(32_768)));
    rejects("throttle.k", "0.5", |p| p.throttle(ThrottleRule::k(0.5)));
    rejects("throttle.window", "0s", |p| p.throttle(ThrottleRule::k(2.0).window(Duration::ZERO)));
    rejects("rate.rate", "0", |p| p.rate(RateRule::new(Rate::per_second(0), 1)));
    rejects("rate.rate", "1000/999ns", |p| {
        p.rate(RateRule::new(Rate::new(1_000, Duration::from_nanos(999)), 1))
    });
    rejects("rate.burst", "1000000", |p| {
        p.rate(RateRule::new(Rate::new(1, ms(86_400_000)), 1_000_000))
    });
    rejects("rate.burst", "0", |p| p.rate(RateRule::new(Rate::per_second(1), 0)));
    rejects("concurrency", "0", |p| p.concurrency(0));
    rejects("cooldown.every", "0s", |p| p.cooldown(CoolDownRule::every(Duration::ZERO)));
    rejects("cooldown.places", "0", |p| p.cooldown(CoolDownRule::every(ms(1)).places(0)));
    rejects("stall.timeouts", "0", |p| p.stall(StallRule::default().timeouts(0)));
    for (most, text) in [(-0.1, "-0.1"), (1.1, "1.1"), (f64::NAN, "NaN")] {
        rejects("stall.most", text, |p| p.stall(StallRule::most(most)));
    }
}

#[test]
fn the_message_has_field_value_and_range() {
    let error = Policy::draft().attempts(0).build().unwrap_err();
    assert_eq!(error.to_string(), "attempts is 0, but must be from 1 to 1000000");
}

#[test]
fn presets_are_valid_and_have_the_documented_values() {
    for preset in Preset::ALL {
        let policy = preset.draft().build().unwrap();
        assert_eq!(Policy::from(preset), policy);
        assert_eq!(Preset::from_name(preset.name()), Some(preset));
    }
    let figures = |preset: Preset| {
        let policy = Policy::from(preset);
        let backoff = policy.backoff();
        (policy.attempts(), backoff.ceiling(1) / MS, backoff.ceiling(u32::MAX) / MS)
    };
    assert_eq!(figures(Preset::FraudScore), (4, 100, 2_000));
    assert_eq!(figures(Preset::PaymentProcessor), (4, 500, 20_000));
    assert_eq!(figures(Preset::Web), (4, 500, 30_000));
    assert_eq!(figures(Preset::ControlPlane), (4, 200, 10_000));
    assert_eq!(figures(Preset::Player).0, 2);
    assert_eq!(
        Policy::from(Preset::FraudScore).attempt_timeout(),
        Some(Duration::from_millis(150))
    );
    let patient = Preset::FraudScore.draft().without_attempt_timeout().build().unwrap();
    assert_eq!(patient.attempt_timeout(), None);
    assert!(Policy::from(Preset::PaymentProcessor).requires_key());
    for preset in Preset::ALL {
        let (policy, standard) = (Policy::from(preset), Policy::standard());
        let rules = |policy: &Policy| (policy.hedge().copied(), policy.stall().copied());
        let (ratio, expected) = match preset {
            Preset::Standard01 | Preset::FraudScore => (Some(0.1), (None, None)),
            Preset::PaymentProcessor => (None, (None, rules(&standard).1)),
            _ => (None, rules(&standard)),
        };
        assert_eq!((policy.budget().ratio(), rules(&policy)), (ratio, expected), "{preset:?}");
        assert_eq!(policy.parks(), ratio.is_none(), "{preset:?}");
    }
    assert_eq!(Policy::standard().deadline(), Some(Duration::from_secs(10)));
}

#[test]
fn the_worst_case_is_the_sum_of_everything_or_the_deadline() {
    let worst = |policy: Policy| policy.worst_case();
    let fraud = worst(Policy::from(Preset::FraudScore).edit().without_deadline().build().unwrap());
    assert_eq!((fraud.attempts, fraud.elapsed), (4, Some(ms(4 * 150 + 100 + 200 + 400))));
    assert_eq!(fraud.elapsed_with_hints, Some(ms(4 * 150 + 3 * 120_000)));
    let bounded = worst(Preset::FraudScore.into());
    assert_eq!(
        bounded,
        WorstCase {
            attempts: 4,
            in_flight: 1,
            elapsed: Some(ms(1_300)),
            elapsed_with_hints: Some(ms(2_000))
        }
    );
    assert_eq!(worst(Policy::standard()).elapsed, Some(ms(10_000)), "no timeout: the deadline");
    let plain = Backoff::default().jitter(Jitter::None);
    let unspread = worst(policy(|p| {
        p.attempts(2).attempt_timeout(ms(1_000)).without_deadline().backoff(plain)
    }));
    assert_eq!(
        unspread.elapsed_with_hints,
        Some(ms(62_000)),
        "without jitter a hint is not spread"
    );
    assert_eq!(worst(policy(|p| p.without_deadline())).elapsed, None);
    let hedged = |most| worst(policy(|p| p.hedge(HedgeRule::after(ms(50)).at_most(most))));
    assert_eq!((hedged(2).in_flight, hedged(2).attempts), (3, 4));
    assert_eq!(hedged(9).in_flight, 4, "hedges count as attempts");
    let many = policy(|p| {
        let backoff = Backoff::exponential(ms(100), ms(1_000)).jitter(Jitter::Decorrelated);
        p.attempts(1_000_000).attempt_timeout(ms(1)).without_deadline().backoff(backoff)
    });
    let waits = 300 + 900 + 999_997 * 1_000;
    assert_eq!(worst(many).elapsed, Some(ms(1_000_000 + waits)));
}
