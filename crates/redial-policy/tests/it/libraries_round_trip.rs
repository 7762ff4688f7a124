//! Ours → theirs → ours keeps what they can express. What they cannot is modelled here, by format, as a function from a
//! policy to the policy that comes back.

use std::time::Duration;

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, ThrottlingBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, Lookback, RateRule, ThrottleRule};
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter, TooLong};
use redial_core::{Draft, NEVER, Nanos, Policy, Rate};
use redial_policy::file::{File, Named, Route, Setting};
use redial_policy::{Format, Pile, Reading, Source};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
const DAY: Nanos = 86_400 * SECOND;
const LONGEST: Nanos = 366 * DAY;

fn backoffs() -> impl Strategy<Value = Backoff> {
    let growth = prop_oneof![
        (1.0..10.0).prop_map(Growth::Exponential),
        Just(Growth::Exponential(2.0)),
        Just(Growth::Summed),
        Just(Growth::Linear),
        Just(Growth::Constant),
    ];
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        prop_oneof![Just(0.2), Just(0.25), 0.0..1.0].prop_map(Jitter::Around),
        (1..SECOND).prop_map(Jitter::Added),
    ];
    let base = prop_oneof![1..SECOND, (1..2000_u64).prop_map(|ms| ms * MS)];
    let more = prop_oneof![Just(SECOND), 1..LONGEST / 2, (1000..90_000_u64).prop_map(|ms| ms * MS)];
    (growth, jitter, base, more, any::<bool>()).prop_map(|(growth, jitter, base, more, clip)| {
        let cap = base + more.max(SECOND);
        Backoff { growth, base, cap, jitter, clip }
    })
}

fn breakers() -> impl Strategy<Value = BreakerRule> {
    let lookback = prop_oneof![
        (1..1000_u32).prop_map(Lookback::Calls),
        (1..200 * SECOND).prop_map(Lookback::Time)
    ];
    (lookback, 0.01..1.0, 1..1000_u32, 1..DAY * 2, 0.0..1.0, 1..100_u32, any::<bool>()).prop_map(
        |(lookback, failure_ratio, calls, open, open_spread, probes, says)| {
            let most = if let Lookback::Calls(most) = lookback { most } else { 1000 };
            let minimum_calls = says.then_some(calls.min(most));
            let slow_after = if says { open } else { NEVER };
            let slow_ratio = 0.5;
            BreakerRule {
                lookback,
                failure_ratio,
                slow_ratio,
                slow_after,
                minimum_calls,
                open,
                open_spread,
                probes,
            }
        },
    )
}

fn budgets() -> impl Strategy<Value = Budget> {
    prop_oneof![
        Just(Budget::None),
        Just(Budget::Window(WindowBudget::default())),
        Just(Budget::Tokens(TokenBudget::default())),
        (1..=1000_u32, 1..=100_000_u32).prop_map(|(capacity, thousandths)| {
            Budget::Throttling(ThrottlingBudget::new(capacity, f64::from(thousandths) / 1000.0))
        }),
    ]
}

fn retry_ons() -> impl Strategy<Value = RetryOn> {
    let class = proptest::sample::select(vec![
        Class::Connect,
        Class::Refused,
        Class::Reset,
        Class::Timeout,
        Class::Throttled,
        Class::Overloaded,
        Class::ServerError,
        Class::Transient,
    ]);
    let code = proptest::sample::select(vec![1_u16, 2, 4, 5, 8, 13, 14, 16, 408, 409, 429, 503]);
    let classes = proptest::collection::vec(class, 0..5);
    (classes, proptest::collection::vec(code, 0..4)).prop_map(|(classes, codes)| {
        let on = classes.into_iter().fold(RetryOn::nothing(), RetryOn::class);
        codes.into_iter().fold(on, RetryOn::code)
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let times = (1..DAY * 2, 1..DAY * 2, 0..4_u8);
    let guards = (
        proptest::option::of(breakers()),
        proptest::option::of(1..1_000_000_u32),
        proptest::option::of((1..1000_u32, 1..100_000_u64)),
        any::<[bool; 3]>(),
    );
    (1..20_u32, times, backoffs(), budgets(), retry_ons(), guards).prop_map(
        |(
            attempts,
            (a, b, kind),
            backoff,
            budget,
            retry_on,
            (breaker, limit, rate, [hint, throttle, key]),
        )| {
            let (short, long) = (a.min(b), a.max(b));
            let mut draft = Policy::draft().attempts(attempts).backoff(backoff).budget(budget);
            draft = draft.retry_on(retry_on).without_deadline();
            if kind & 1 == 1 {
                draft = draft.deadline(Duration::from_nanos(long));
            }
            if kind & 2 == 2 {
                draft = draft.attempt_timeout(Duration::from_nanos(short));
            }
            if !hint {
                draft = draft.hint(HintRule::Ignore);
            }
            if throttle {
                draft = draft.throttle(ThrottleRule::k(3.0));
            }
            if key {
                draft = draft.require_key();
            }
            draft = breaker.into_iter().fold(draft, Draft::breaker);
            draft = limit.into_iter().fold(draft, Draft::concurrency);
            let rate =
                rate.map(|(count, ms)| RateRule { rate: Rate { count, per: ms * MS }, burst: 7 });
            rate.into_iter().fold(draft, Draft::rate).build().unwrap()
        },
    )
}

fn file(policy: &Policy) -> File {
    let named =
        Named { name: "a.b".to_owned(), policy: policy.clone(), setting: Setting::default() };
    let path = Some("/shop.Orders/*".to_owned());
    let route = Route { path, policy: "a.b".to_owned(), ..Route::default() };
    File { policies: vec![named], routes: vec![route], setting: Setting::default() }
}

fn read(format: Format, text: &str) -> Reading {
    let ending = match format {
        Format::Resilience4j => "yml",
        Format::Aws => "ini",
        _ => "json",
    };
    let mut pile = Pile::new();
    let source = Source::new(format!("x.{ending}"), text.as_bytes().to_vec()).unwrap();
    assert_eq!(pile.add(source, None).unwrap(), 1, "{text}");
    pile.read(None)
}

fn check(format: Format, policy: &Policy, expected: Option<Draft>) {
    let written = format.write(&file(policy));
    let Some(expected) = expected else {
        written.unwrap_err();
        return;
    };
    let written = written.unwrap();
    assert_eq!(written.notes.len(), 1);
    let reading = read(format, &written.text);
    assert!(reading.problems.is_empty(), "{:?}\n{}", reading.problems, written.text);
    let complaints = |name: &str| reading.findings.iter().any(|finding| finding.rule.name == name);
    let unwelcome = ["unknown-field", "silently-clamped", "refused-at-start"];
    assert!(!unwelcome.into_iter().any(complaints), "{:?}\n{}", reading.findings, written.text);
    assert_eq!(reading.found.len(), 1, "{}", written.text);
    assert_eq!(reading.found[0].policy, expected.build().unwrap(), "{}", written.text);
}

/// What bounds nothing and hears nothing, until more is said.
fn plain(attempts: u32) -> Draft {
    Policy::draft()
        .attempts(attempts)
        .without_deadline()
        .budget(Budget::None)
        .hint(HintRule::Ignore)
}

fn exactly(cap: Nanos) -> HintRule {
    HintRule::Honour { cap, too_long: TooLong::Stop, spread: Some(0.0) }
}

fn usual() -> RetryOn {
    let classes = [Class::Connect, Class::Reset, Class::Timeout, Class::Throttled];
    let on = classes.into_iter().fold(RetryOn::nothing(), RetryOn::class);
    on.class(Class::Overloaded).class(Class::ServerError)
}

/// gRPC: at most 5 attempts, its own jitter, its own statuses, its own budget.
fn in_grpc(policy: &Policy) -> Option<Draft> {
    let theirs = policy.retry_on();
    let mut on = RetryOn::nothing();
    let has = |codes: &[u16]| theirs.codes().iter().any(|code| codes.contains(code));
    let unavailable = [Class::Connect, Class::Refused, Class::Reset, Class::Overloaded];
    if unavailable.iter().any(|class| theirs.has(*class)) || has(&[14, 429, 503]) {
        on = unavailable.into_iter().fold(on, RetryOn::class);
    }
    if theirs.has(Class::Timeout) || has(&[4]) {
        on = on.class(Class::Timeout);
    }
    if theirs.has(Class::Throttled) || has(&[8]) {
        on = on.class(Class::Throttled).code(8);
    }
    if theirs.has(Class::ServerError) || has(&[2]) && has(&[13]) {
        on = on.class(Class::ServerError);
    } else {
        on = [2, 13].into_iter().filter(|code| has(&[*code])).fold(on, RetryOn::code);
    }
    on = [1, 5, 16].into_iter().filter(|code| has(&[*code])).fold(on, RetryOn::code);
    if policy.attempts() == 1 || on == RetryOn::nothing() {
        return None;
    }
    let growth = Growth::Exponential(match policy.backoff().growth {
        Growth::Exponential(factor) => factor,
        Growth::Constant => 1.0,
        Growth::Linear | Growth::Summed => 2.0,
    });
    let backoff = Backoff { growth, jitter: Jitter::Around(0.2), clip: false, ..*policy.backoff() };
    let mut draft =
        plain(policy.attempts().min(5)).backoff(backoff).retry_on(on).hint(exactly(LONGEST));
    if let budget @ Budget::Throttling(_) = policy.budget() {
        draft = draft.budget(*budget);
    }
    if policy.deadline() != NEVER {
        draft = draft.deadline(Duration::from_nanos(policy.deadline()));
    }
    Some(draft)
}

/// resilience4j: whole milliseconds, jitter around a middle, no deadline, no budget, no conditions.
fn in_resilience4j(policy: &Policy) -> Draft {
    let ms = |nanos: Nanos| (nanos / MS).max(1) * MS;
    let backoff = policy.backoff();
    let (wait, jitter) = match backoff.jitter {
        Jitter::None => (ms(backoff.base), Jitter::None),
        Jitter::Full => (ms(backoff.base / 2) * 2, Jitter::Full),
        Jitter::Equal => (ms(backoff.base / 4 * 3), Jitter::Around(1.0 / 3.0)),
        Jitter::Around(ratio) => (ms(backoff.base), Jitter::Around(ratio)),
        Jitter::Decorrelated | Jitter::Added(_) => (ms(backoff.base), Jitter::Around(0.5)),
    };
    let around = if let Jitter::Around(ratio) = jitter { Some(ratio) } else { None };
    let backoff = match backoff.growth {
        Growth::Constant => {
            let above = around.map_or(0, |ratio| (wait as f64 * ratio).ceil() as Nanos);
            Backoff { growth: Growth::Constant, base: wait, cap: wait + above, jitter, clip: false }
        }
        growth => {
            let doubles = matches!(growth, Growth::Linear | Growth::Summed);
            let growth = if doubles { Growth::Exponential(2.0) } else { growth };
            Backoff { growth, base: wait, cap: ms(backoff.cap), jitter, clip: around.is_some() }
        }
    };
    let mut draft = plain(policy.attempts()).backoff(backoff);
    if policy.attempt_timeout() != NEVER {
        draft = draft.attempt_timeout(Duration::from_nanos(ms(policy.attempt_timeout())));
    }
    if let Some(rule) = policy.breaker() {
        let (lookback, most) = match rule.lookback {
            Lookback::Calls(calls) => (Lookback::Calls(calls), calls),
            Lookback::Time(time) => (Lookback::Time(time.div_ceil(SECOND) * SECOND), 20),
        };
        draft = draft.breaker(BreakerRule {
            lookback,
            failure_ratio: rule.failure_ratio * 100.0 / 100.0,
            slow_ratio: rule.slow_ratio * 100.0 / 100.0,
            slow_after: if rule.slow_after == NEVER { LONGEST } else { ms(rule.slow_after) },
            minimum_calls: Some(rule.minimum_calls.unwrap_or(most.min(20))),
            open: ms(rule.open),
            open_spread: 0.0,
            probes: rule.probes,
        });
    }
    if let Some(RateRule { rate, .. }) = policy.rate() {
        draft = draft.rate(RateRule { rate: *rate, burst: rate.count });
    }
    policy.concurrency().into_iter().fold(draft, Draft::concurrency)
}

/// AWS: the mode and the attempts.
fn in_aws(policy: &Policy) -> Draft {
    let legacy = *policy.budget() == Budget::None && policy.backoff().cap == LONGEST;
    let cap = if legacy && policy.throttle().is_none() { LONGEST } else { 20 * SECOND };
    let backoff = Backoff { base: SECOND, cap, ..Backoff::default() };
    let draft = plain(policy.attempts()).backoff(backoff).retry_on(usual());
    match policy.throttle() {
        None if legacy => draft,
        None => draft.budget(Budget::Tokens(TokenBudget::default())),
        Some(_) => {
            draft.budget(Budget::Tokens(TokenBudget::default())).throttle(ThrottleRule::default())
        }
    }
}

/// .NET: ticks, timeouts from 10 ms to a day, a breaker and a limit in any case, no budget, no conditions.
fn in_dotnet(policy: &Policy) -> Option<Draft> {
    if policy.attempts() == 1 {
        return None;
    }
    let ticks = |nanos: Nanos| ((nanos + 50) / 100).max(1) * 100;
    let total = ticks(policy.deadline().clamp(10 * MS, DAY));
    let attempt = ticks(policy.attempt_timeout().min(total).clamp(10 * MS, DAY / 2));
    let ours = policy.backoff();
    let cap = ticks(ours.cap.min(DAY));
    let backoff = match (ours.growth, ours.jitter) {
        (growth @ (Growth::Constant | Growth::Linear), Jitter::None) => Backoff {
            growth,
            base: ticks(ours.base).min(cap),
            cap,
            jitter: Jitter::None,
            clip: false,
        },
        (growth @ (Growth::Constant | Growth::Linear), _) => {
            let jitter = Jitter::Around(0.25);
            Backoff { growth, base: ticks(ours.base).min(cap), cap, jitter, clip: true }
        }
        (_, Jitter::None) => {
            let growth = Growth::Exponential(2.0);
            Backoff {
                growth,
                base: ticks(ours.base).min(cap),
                cap,
                jitter: Jitter::None,
                clip: false,
            }
        }
        (_, _) => {
            let base = (ticks(ours.base * 8 / 11) * 11 / 8).min(cap);
            Backoff {
                growth: Growth::Exponential(1.75),
                base,
                cap,
                jitter: Jitter::Full,
                clip: false,
            }
        }
    };
    let breaker = BreakerRule { open_spread: 0.0, probes: 1, ..BreakerRule::default() };
    let breaker = match policy.breaker() {
        None => BreakerRule {
            lookback: Lookback::Time((2 * attempt).max(30 * SECOND)),
            failure_ratio: 1.0,
            minimum_calls: Some(1_000_000),
            ..breaker
        },
        Some(rule) => {
            let (window, most) = match rule.lookback {
                Lookback::Time(window) => (window.clamp(SECOND / 2, DAY), 20),
                Lookback::Calls(calls) => (30 * SECOND, calls),
            };
            BreakerRule {
                lookback: Lookback::Time(ticks(window.max(2 * attempt))),
                failure_ratio: rule.failure_ratio,
                minimum_calls: Some(rule.minimum_calls.unwrap_or(most.min(20)).max(2)),
                open: ticks(rule.open.clamp(SECOND / 2, DAY)),
                ..breaker
            }
        }
    };
    let honours = *policy.hint_rule() != HintRule::Ignore;
    let draft = plain(policy.attempts()).backoff(backoff).retry_on(usual()).breaker(breaker);
    let draft =
        draft.deadline(Duration::from_nanos(total)).attempt_timeout(Duration::from_nanos(attempt));
    let draft = draft.hint(if honours { exactly(total) } else { HintRule::Ignore });
    Some(draft.concurrency(policy.concurrency().unwrap_or(1_000_000)))
}

proptest! {
    #[test]
    fn grpc(policy in policies()) {
        let expected = in_grpc(&policy);
        if expected.is_some() {
            check(Format::Grpc, &policy, expected);
        } else {
            let written = Format::Grpc.write(&file(&policy)).unwrap();
            prop_assert!(read(Format::Grpc, &written.text).found.is_empty());
        }
    }

    #[test]
    fn resilience4j(policy in policies()) {
        check(Format::Resilience4j, &policy, Some(in_resilience4j(&policy)));
    }

    #[test]
    fn aws(policy in policies()) {
        check(Format::Aws, &policy, Some(in_aws(&policy)));
    }

    #[test]
    fn dotnet(policy in policies()) {
        check(Format::DotNet, &policy, in_dotnet(&policy));
    }
}

/// What they can express, they keep, and the second time around nothing changes any more.
#[test]
fn what_came_back_once_comes_back_the_same() {
    let check_again = |format, came_back: Draft| {
        let once = came_back.build().unwrap();
        check(format, &once, Some(once.edit()));
    };
    let ours = Policy::standard();
    check_again(Format::Grpc, in_grpc(&ours).unwrap());
    check_again(Format::Resilience4j, in_resilience4j(&ours));
    check_again(Format::Aws, in_aws(&ours));
    check_again(Format::DotNet, in_dotnet(&ours).unwrap());
}

#[test]
fn a_file_without_policies_is_refused() {
    for format in [Format::Grpc, Format::Resilience4j, Format::Aws, Format::DotNet] {
        let problem = format.write(&File::default()).unwrap_err();
        assert_eq!(problem.to_string(), "there is no policy in it; write one: `[policy.NAME]`");
    }
}
