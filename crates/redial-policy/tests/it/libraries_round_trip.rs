//! A policy that is exported and imported again keeps what the other format can express. The losses are modelled here, by
//! format, as a function from a policy to the one that results.

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, ThrottlingBudget, TokenBudget};
use redial_core::admit::{BreakerRule, Lookback, RateRule, ThrottleRule};
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, Growth, HedgeRule, HintRule, Jitter, TooLong};
use redial_core::{Draft, LONGEST_DURATION, Policy, Rate, Span};
use redial_policy::file::{File, Named, Route, Setting};
use redial_policy::{ConfigReading, Format, Inputs, SourceText};

use crate::policies::{files, policies};

const NS: Span = Span::from_nanos(1);
const MS: Span = Span::MILLISECOND;
const SECOND: Span = Span::SECOND;
const DAY: Span = Span::from_secs(86_400);

fn file(policy: &Policy) -> File {
    let named =
        Named { name: "a.b".to_owned(), policy: policy.clone(), setting: Setting::default() };
    let path = Some("/shop.Orders/*".to_owned());
    let route = Route { path, policy: "a.b".to_owned(), ..Route::default() };
    File { policies: vec![named], routes: vec![route], ..File::default() }
}

fn read(format: Format, text: &str) -> ConfigReading {
    let ending = match format {
        Format::Resilience4j => "yml",
        Format::Aws => "ini",
        _ => "json",
    };
    let mut inputs = Inputs::new();
    let source = SourceText::new(format!("x.{ending}"), text.as_bytes().to_vec()).unwrap();
    assert_eq!(inputs.add(source, None).unwrap(), 1, "{text}");
    inputs.read(None)
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
    let reported = |name: &str| reading.findings.iter().any(|finding| finding.rule.name == name);
    let unexpected = ["unknown-field", "silently-clamped", "refused-at-start"];
    assert!(!unexpected.into_iter().any(reported), "{:?}\n{}", reading.findings, written.text);
    assert_eq!(reading.found.len(), 1, "{}", written.text);
    assert_eq!(reading.found[0].policy, expected.build().unwrap(), "{}", written.text);
}

fn exactly(cap: Span) -> HintRule {
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
    if unavailable.iter().any(|class| theirs.has(*class)) || has(&[14, 429, 502, 503, 504]) {
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
    let others = [1, 3, 5, 6, 7, 9, 10, 11, 12, 15, 16].into_iter();
    on = others.filter(|code| has(&[*code])).fold(on, RetryOn::code);
    let hedges = hedge_delay(policy);
    if policy.attempts() == 1 || on == RetryOn::nothing() && hedges.is_none() {
        return None;
    }
    let growth = Growth::Exponential(match policy.backoff().growth {
        Growth::Exponential(factor) => factor,
        Growth::Constant => 1.0,
        Growth::Linear => 2.0,
    });
    let Backoff { base, cap, .. } = *policy.backoff();
    let (base, cap) = (base.max(MS), cap.max(MS));
    let backoff = Backoff { growth, jitter: Jitter::Around(0.2), clip: false, base, cap };
    let mut draft = Draft::bare(policy.attempts().min(5))
        .backoff(backoff)
        .retry_on(on)
        .hint(exactly(LONGEST_DURATION));
    if let Some(delay) = hedges {
        let attempts = policy.attempts().min(policy.hedge().unwrap().most + 1).min(5);
        let rule = HedgeRule::after(delay.into()).at_most(attempts - 1);
        draft = draft.attempts(attempts).hedge(rule).backoff(Backoff::default());
    }
    if let Budget::Throttling(ThrottlingBudget { capacity, ratio }) = *policy.budget() {
        let ratio = (ratio * 1000.0).round() / 1000.0;
        draft = draft.budget(Budget::Throttling(ThrottlingBudget { capacity, ratio }));
    }
    if let Some(deadline) = policy.deadline() {
        draft = draft.deadline(deadline);
    }
    Some(draft)
}

/// The delay of hedges, where only a fixed one exists, and only instead of retries.
fn hedge_delay(policy: &Policy) -> Option<Span> {
    let rule = policy.hedge().filter(|rule| policy.attempts() > 1 && !rule.overtaken)?;
    let delay = rule.fixed_delay()?;
    Some(delay.clamp(NS, LONGEST_DURATION))
}

/// resilience4j: whole milliseconds, jitter around a middle, no deadline, no budget, no conditions.
fn in_resilience4j(policy: &Policy) -> Draft {
    let ms = |span: Span| span.as_millis().max(1) * MS;
    let backoff = policy.backoff();
    let (wait, jitter) = match backoff.jitter {
        Jitter::None => (ms(backoff.base), Jitter::None),
        Jitter::Full => (ms(backoff.base / 2) * 2, Jitter::Full),
        Jitter::Equal => (ms(backoff.base / 4 * 3), Jitter::Around(1.0 / 3.0)),
        Jitter::Around(1.0) => (ms(backoff.base) * 2, Jitter::Full),
        Jitter::Around(ratio) => (ms(backoff.base), Jitter::Around(ratio)),
        Jitter::Decorrelated | Jitter::Added(_) | Jitter::Normal(_) => {
            (ms(backoff.base), Jitter::Around(0.5))
        }
    };
    let wait = wait.min(LONGEST_DURATION);
    let around = if let Jitter::Around(ratio) = jitter { Some(ratio) } else { None };
    let backoff = match backoff.growth {
        Growth::Constant => {
            let above = around.unwrap_or(0.0) * wait.as_nanos_f64();
            Backoff {
                growth: Growth::Constant,
                base: wait,
                cap: (wait + Span::from_nanos_f64(above.ceil())).min(LONGEST_DURATION),
                jitter,
                clip: false,
            }
        }
        growth => {
            let doubles = matches!(growth, Growth::Linear);
            let growth = if doubles { Growth::Exponential(2.0) } else { growth };
            let cap = ms(backoff.cap);
            Backoff { growth, base: wait.min(cap), cap, jitter, clip: around.is_some() }
        }
    };
    let mut draft = Draft::bare(policy.attempts()).backoff(backoff);
    if let Some(timeout) = policy.attempt_timeout_limit().span() {
        draft = draft.attempt_timeout(ms(timeout).into());
    }
    if let Some(rule) = policy.breaker() {
        let (lookback, most) = match rule.lookback {
            Lookback::Calls(calls) => (Lookback::Calls(calls), calls),
            Lookback::Time(time) => {
                (Lookback::Time(time.round_up(SECOND).min(1_000_000 * SECOND)), 20)
            }
        };
        draft = draft.breaker(BreakerRule {
            lookback,
            failure_ratio: rule.failure_ratio * 100.0 / 100.0,
            slow_ratio: rule.slow_ratio * 100.0 / 100.0,
            slow_after: rule.slow_after.span().map_or(LONGEST_DURATION, ms).into(),
            minimum_calls: Some(rule.minimum_calls.unwrap_or(most.min(20))),
            open: ms(rule.open),
            open_spread: 0.0,
            probes: rule.probes,
        });
    }
    if let Some(RateRule { rate, .. }) = policy.rate() {
        let rate = Rate { per: ms(rate.per), ..*rate };
        draft = draft.rate(RateRule { rate, burst: rate.count });
    }
    policy.concurrency().into_iter().fold(draft, Draft::concurrency)
}

/// AWS: the mode and the attempts.
fn in_aws(policy: &Policy) -> Draft {
    let legacy = *policy.budget() == Budget::None && policy.backoff().cap == LONGEST_DURATION;
    let cap = if legacy && policy.throttle().is_none() { LONGEST_DURATION } else { 20 * SECOND };
    let backoff = Backoff { base: SECOND, cap, ..Backoff::default() };
    let draft = Draft::bare(policy.attempts()).backoff(backoff).retry_on(usual());
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
    let total = ticks(policy.deadline_limit().cap(DAY).max(10 * MS));
    let attempt = ticks(policy.attempt_timeout_limit().cap(total).clamp(10 * MS, DAY / 2));
    let draft =
        Draft::bare(policy.attempts()).backoff(in_polly(policy.backoff())).retry_on(usual());
    let delay = hedge_delay(policy).filter(|delay| *delay <= DAY);
    let honours = *policy.hint_rule() != HintRule::Ignore && delay.is_none();
    let draft = match delay {
        None => draft,
        Some(delay) => {
            let most = policy.hedge().unwrap().most.min(policy.attempts() - 1);
            let delay = ticks(delay).into();
            let draft = Draft::bare(most + 1).retry_on(usual());
            draft.hedge(HedgeRule::after(delay).at_most(most))
        }
    };
    Some(
        draft
            .deadline(total.into())
            .attempt_timeout(attempt.into())
            .breaker(breaker_in_polly(policy.breaker(), attempt))
            .hint(if honours { exactly(total) } else { HintRule::Ignore })
            .concurrency(policy.concurrency().unwrap_or(1_000_000)),
    )
}

fn ticks(span: Span) -> Span {
    let tick = 100 * NS;
    ((span + tick / 2) / tick).max(1) * tick
}

fn in_polly(ours: &Backoff) -> Backoff {
    let cap = ticks(ours.cap.min(DAY));
    let base = ticks(ours.base).min(cap);
    let (growth, base, jitter) = match (ours.growth, ours.jitter) {
        (growth @ (Growth::Constant | Growth::Linear), Jitter::None) => {
            (growth, base, Jitter::None)
        }
        (growth @ (Growth::Constant | Growth::Linear), _) => (growth, base, Jitter::Around(0.25)),
        (_, Jitter::None) => (Growth::Exponential(2.0), base, Jitter::None),
        (_, _) => {
            let base = ticks(ours.base * 8 / 11).min(DAY) * 11 / 8;
            (Growth::Exponential(1.75), base.min(cap), Jitter::Full)
        }
    };
    Backoff { growth, base, cap, jitter, clip: matches!(jitter, Jitter::Around(_)) }
}

fn breaker_in_polly(rule: Option<&BreakerRule>, attempt: Span) -> BreakerRule {
    let breaker = BreakerRule { open_spread: 0.0, probes: 1, ..BreakerRule::default() };
    let Some(rule) = rule else {
        let lookback = Lookback::Time((2 * attempt).max(30 * SECOND));
        return BreakerRule {
            lookback,
            failure_ratio: 1.0,
            minimum_calls: Some(1_000_000),
            ..breaker
        };
    };
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

proptest! {
    #[test]
    fn what_is_written_for_grpc_is_read_back(policy in policies()) {
        let expected = in_grpc(&policy);
        if expected.is_some() {
            check(Format::Grpc, &policy, expected);
        } else {
            let written = Format::Grpc.write(&file(&policy)).unwrap();
            prop_assert!(read(Format::Grpc, &written.text).found.is_empty());
        }
    }

    #[test]
    fn what_is_written_for_resilience4j_is_read_back(policy in policies()) {
        check(Format::Resilience4j, &policy, Some(in_resilience4j(&policy)));
    }

    #[test]
    fn what_is_written_for_aws_is_read_back(policy in policies()) {
        check(Format::Aws, &policy, Some(in_aws(&policy)));
    }

    #[test]
    fn what_is_written_for_dotnet_is_read_back(policy in policies()) {
        check(Format::DotNet, &policy, in_dotnet(&policy));
    }

    /// Any names, and any number of policies.
    #[test]
    fn exports_can_be_read(file in files()) {
        for format in [Format::Grpc, Format::Resilience4j, Format::Aws, Format::DotNet] {
            let Ok(written) = format.write(&file) else { continue };
            prop_assert_eq!(written.notes.len(), file.policies.len());
            let reading = read(format, &written.text);
            prop_assert!(reading.problems.is_empty(), "{:?}\n{}", reading.problems, written.text);
            if format != Format::Grpc {
                prop_assert_eq!(reading.found.len(), file.policies.len(), "{}", written.text);
            }
        }
    }
}

/// A second round trip changes nothing.
#[test]
fn round_trips_are_idempotent() {
    let check_again = |format, first: Draft| {
        let once = first.build().unwrap();
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
        assert_eq!(problem.to_string(), "no policy to export; add one: `[policy.NAME]`");
    }
}
