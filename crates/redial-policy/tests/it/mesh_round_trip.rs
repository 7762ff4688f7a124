//! A policy that is exported to a mesh and imported again keeps what the mesh can express. Each function here models the
//! losses of one system.

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, Deposit, InflightBudget, WindowBudget};
use redial_core::decide::{Class, Outcome, RetryOn};
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter, TooLong};
use redial_core::{Draft, LONGEST_DURATION, Policy, Rate, Span, TimeLimit};
use redial_policy::file::{File, Named, Setting};
use redial_policy::{Format, Inputs, SourceText};

use crate::policies::policies;

const MS: Span = Span::MILLISECOND;
const SECOND: Span = Span::SECOND;
const TRANSPORT: [Class; 4] = [Class::Connect, Class::Refused, Class::Reset, Class::Timeout];

/// Rounded up to whole milliseconds.
fn ms(span: Span) -> Span {
    span.round_up(MS)
}

/// The same of a limit.
fn limit(limit: TimeLimit) -> Option<Span> {
    limit.span().map(ms)
}

/// Exports a file with only this policy, and imports it again.
fn round_trip(format: Format, policy: &Policy) -> Option<Policy> {
    let named = Named { name: "p".into(), policy: policy.clone(), setting: Setting::default() };
    let file = File { policies: vec![named], ..File::default() };
    let written = format.write(&file).unwrap();
    let mut inputs = Inputs::new();
    let source = SourceText::new("x.yaml", written.text.clone().into_bytes()).unwrap();
    inputs.add(source, None).unwrap();
    let reading = inputs.read(Some(format));
    assert!(reading.problems.is_empty(), "{:?}\n{}", reading.problems, written.text);
    let refused = reading.findings.iter().find(|one| one.rule.name == "refused-at-start");
    assert!(refused.is_none(), "{refused:?}\n{}", written.text);
    assert!(reading.found.len() <= 1, "{}", written.text);
    reading.found.into_iter().next().map(|found| found.policy)
}

/// Attempts, deadline and attempt timeout, which all meshes have.
fn bounds(policy: &Policy) -> Draft {
    let draft = Draft::bare(policy.attempts());
    let draft = match limit(policy.deadline_limit()) {
        None => draft,
        Some(deadline) => draft.deadline(deadline.into()),
    };
    match limit(policy.attempt_timeout_limit()) {
        None => draft,
        Some(timeout) => draft.attempt_timeout(timeout.into()),
    }
}

/// The statuses that the policy retries.
fn statuses(on: &RetryOn) -> Vec<u16> {
    let retries = |status: &u16| match Outcome::of_status(*status) {
        Outcome::Failure(failure) => on.contains(&failure),
        _ => on.codes().contains(status),
    };
    (100..600).filter(retries).collect()
}

fn envoy_conditions(on: &RetryOn) -> RetryOn {
    let whole = TRANSPORT.iter().all(|class| on.has(*class));
    let is_kept = |class: &Class| whole || matches!(class, Class::Connect | Class::Refused);
    let classes = TRANSPORT.into_iter().filter(|class| on.has(*class) && is_kept(class));
    let list = classes.fold(RetryOn::nothing(), RetryOn::class);
    let grpc = on.codes().iter().filter(|code| matches!(code, 1 | 4 | 8 | 13 | 14));
    let list = grpc.fold(list, |list, code| list.code(*code));
    statuses(on).into_iter().filter(|status| *status >= 400).fold(list, RetryOn::code)
}

/// The conditions without the statuses that Istio refuses because Go has no name for them.
fn istio_conditions(on: &RetryOn) -> RetryOn {
    let envoy = envoy_conditions(on);
    let is_named = |code: &u16| !matches!(code, 419 | 420 | 427 | 430 | 432..=450 | 452..=499 | 509 | 512..=599);
    let list = envoy.classes().fold(RetryOn::nothing(), RetryOn::class);
    envoy.codes().iter().copied().filter(is_named).fold(list, RetryOn::code)
}

fn in_flight(policy: &Policy) -> Budget {
    let rounded = |ratio: f64| (ratio * 1e9).round() / 1e9;
    match policy.budget() {
        Budget::None => Budget::None,
        Budget::Inflight(budget) => {
            Budget::Inflight(InflightBudget::new(rounded(budget.ratio), budget.floor))
        }
        Budget::Window(budget) => {
            let Rate { count, per } = budget.floor;
            let in_flight = match policy.attempt_timeout() {
                None => u128::from(count.min(3)),
                Some(longest) => {
                    (u128::from(count) * longest.as_nanos()).div_ceil(u128::from(per.as_nanos()))
                }
            };
            let floor = u32::try_from(in_flight.min(1_000_000)).unwrap();
            Budget::Inflight(InflightBudget::new(rounded(budget.ratio), floor))
        }
        Budget::Tokens(_) | Budget::Throttling(_) => Budget::Inflight(InflightBudget::default()),
    }
}

fn connecting(policy: &Policy, draft: Draft, default: Span) -> Draft {
    let longest = limit(policy.attempt_timeout_limit().min(policy.deadline_limit()));
    let timeout = limit(policy.connect_timeout_limit()).or(longest).unwrap_or(default);
    let is_shorter = longest.is_none_or(|longest| timeout < longest);
    if is_shorter { draft.connect_timeout(timeout.into()) } else { draft }
}

fn doubling(base: Span, cap: Span) -> Backoff {
    Backoff::exponential(base.into(), cap.into())
}

fn tenfold(policy: &Policy) -> Backoff {
    let base = ms(policy.backoff().base);
    doubling(base, (base * 10).min(LONGEST_DURATION))
}

fn of_envoy(policy: &Policy) -> Option<Policy> {
    let Backoff { base, cap, growth, .. } = *policy.backoff();
    let cap = if growth == Growth::Constant { base } else { cap };
    let draft = bounds(policy).backoff(doubling(ms(base), ms(cap)));
    let draft = match policy.hint_rule() {
        HintRule::Ignore => draft,
        HintRule::Honour { cap, .. } => draft.hint(HintRule::Honour {
            cap: ms(*cap),
            too_long: TooLong::Clip,
            spread: Some(0.5),
        }),
    };
    let draft = draft.retry_on(envoy_conditions(policy.retry_on())).budget(in_flight(policy));
    let draft = if policy.requires_key() { draft.require_key() } else { draft };
    let draft = policy.concurrency().into_iter().fold(draft, Draft::concurrency);
    connecting(policy, draft, 5 * SECOND).build().ok()
}

fn of_istio(policy: &Policy) -> Option<Policy> {
    let on = istio_conditions(policy.retry_on());
    let draft = if on == RetryOn::nothing() || policy.attempts() == 1 {
        // Without retries, no other field of them is allowed.
        let timeout = limit(policy.deadline_limit().min(policy.attempt_timeout_limit()));
        let draft =
            Draft::bare(1).retry_on(RetryOn::nothing()).backoff(doubling(25 * MS, 250 * MS));
        timeout.map(Span::into).into_iter().fold(draft, Draft::deadline)
    } else {
        bounds(policy).backoff(tenfold(policy)).retry_on(on)
    };
    let budget = match in_flight(policy) {
        Budget::Inflight(InflightBudget { ratio, floor }) => {
            Budget::Inflight(InflightBudget { ratio, floor: floor.max(1) })
        }
        budget => budget,
    };
    let draft = policy.concurrency().into_iter().fold(draft.budget(budget), Draft::concurrency);
    connecting(policy, draft, 10 * SECOND).build().ok()
}

fn of_linkerd(policy: &Policy) -> Option<Policy> {
    let codes = statuses(policy.retry_on());
    let on = codes.iter().fold(RetryOn::nothing(), |on, code| on.code(*code));
    let Some(budget) = window(policy) else {
        let draft = bounds(policy).backoff(doubling(25 * MS, 250 * MS));
        let has_timeout = policy.attempt_timeout().is_some();
        let on = if has_timeout { on.class(Class::Timeout) } else { on };
        return draft.retry_on(on).build().ok();
    };
    if codes.is_empty() || policy.attempts() == 1 {
        return None;
    }
    let draft = bounds(policy).attempts(1_000_000).without_attempt_timeout().retry_on(on);
    let has_deadline = policy.deadline().is_some();
    let draft = if has_deadline { draft } else { draft.deadline((10 * SECOND).into()) };
    let draft = draft.backoff(Backoff::constant(MS.into()).jitter(Jitter::None));
    draft.budget(Budget::Window(plain(budget))).build().ok()
}

/// A share of recent calls; token buckets become the usual one.
fn window(policy: &Policy) -> Option<WindowBudget> {
    match *policy.budget() {
        Budget::Window(budget) => Some(budget),
        Budget::Tokens(_) | Budget::Throttling(_) => Some(WindowBudget::default()),
        Budget::None | Budget::Inflight(_) => None,
    }
}

/// Deposits on request, no bootstrap, whole milliseconds.
fn plain(budget: WindowBudget) -> WindowBudget {
    WindowBudget { ttl: ms(budget.ttl), deposit: Deposit::Request, bootstrap: 0, ..budget }
}

fn of_gateway_api(policy: &Policy) -> Option<Policy> {
    let on = TRANSPORT.into_iter().fold(RetryOn::nothing(), RetryOn::class);
    let codes = statuses(policy.retry_on()).into_iter().filter(|status| *status >= 400);
    let draft = bounds(policy).backoff(tenfold(policy)).retry_on(codes.fold(on, RetryOn::code));
    let Some(budget) = window(policy) else { return draft.build().ok() };
    let least = if budget.floor.count == 0 { 1.0 } else { 0.0 };
    let percent = (budget.ratio * 100.0 + 1e-9).floor().max(least);
    let budget = WindowBudget { ratio: percent / 100.0, ..plain(budget) };
    draft.budget(Budget::Window(budget)).build().ok()
}

/// The policy after a round trip; none, if nothing is retried.
type Expressible = fn(&Policy) -> Option<Policy>;

const SYSTEMS: [(Format, Expressible); 4] = [
    (Format::Envoy, of_envoy),
    (Format::Istio, of_istio),
    (Format::Linkerd, of_linkerd),
    (Format::GatewayApi, of_gateway_api),
];

proptest! {
    #[test]
    fn meshes_keep_what_they_can_express(policy in policies()) {
        for (format, expressible) in SYSTEMS {
            prop_assert_eq!(round_trip(format, &policy), expressible(&policy), "{:?}", format);
        }
    }

    #[test]
    fn a_second_round_trip_through_envoy_changes_nothing(policy in policies()) {
        let once = round_trip(Format::Envoy, &policy).unwrap();
        prop_assert_eq!(round_trip(Format::Envoy, &once).unwrap(), once);
    }
}
