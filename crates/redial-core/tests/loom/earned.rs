//! The budget that retries earn, and the pace of a destination.

use std::time::Duration;

use loom::sync::Arc;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, StallRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Call, Context, Deadline, Policy, Rate, Request, Span, Time, Verdict};

use crate::{SECOND, after, at, both, policy};

fn guards(budget: TokenBudget) -> (Policy, Arc<Guards>) {
    let policy = policy(|p| p.budget(Budget::Tokens(budget)));
    let guards = Arc::new(Guards::new(&policy, 1, 0));
    (policy, guards)
}

/// What is in the bucket, and what is left of the bootstrap.
fn held(guards: &Guards) -> (u64, u64) {
    let words = guards.save().words();
    (words[1], words[2])
}

/// A call of which the first attempt fails and the retry, if there is one, ends with `outcome`. Returns whether there was
/// one.
fn call(policy: &Policy, guards: &Guards, outcome: Outcome) -> bool {
    let request = Request { safety: Safety::Idempotent, ..Request::default() };
    let cx = Context { policy, guards, observer: None, request };
    let mut call = Call::new(policy, Time::ZERO, Deadline::NONE);
    let first = call.admit(&cx, Time::ZERO).unwrap();
    match call.settle(&cx, first, &Failure::new(Class::Reset).into(), Time::ZERO, || 0) {
        Verdict::Wait(until) => {
            let retry = call.admit(&cx, until).unwrap();
            call.settle(&cx, retry, &outcome, until, || 0);
            true
        }
        _ => false,
    }
}

/// The results of two threads with the same guards.
fn two<T: 'static>(
    (policy, guards): &(Policy, Arc<Guards>),
    one: impl FnOnce(&Policy, &Guards) -> T + 'static,
    other: impl FnOnce(&Policy, &Guards) -> T + 'static,
) -> (T, T) {
    let (a, b) = ((policy.clone(), Arc::clone(guards)), (policy.clone(), Arc::clone(guards)));
    both(move || one(&a.0, &a.1), move || other(&b.0, &b.1))
}

#[test]
fn failed_retries_are_bounded_by_what_succeeded_and_no_token_is_lost() {
    let (won, lost) = (Outcome::Success, Failure::new(Class::Permanent).into());
    for outcomes in [[won, lost], [won, won], [lost, lost]] {
        loom::model(move || {
            let shared = guards(TokenBudget::new(20, 2).opening(2).bonus(1));
            let [a, b] = outcomes;
            let retried = two(&shared, move |p, g| call(p, g, a), move |p, g| call(p, g, b));
            let count = |wanted: Outcome| {
                u64::from(retried.0 && a == wanted) + u64::from(retried.1 && b == wanted)
            };
            assert!(2 * count(lost) <= 2 + count(won), "{retried:?}");
            assert_eq!(held(&shared.1), (2 + count(won) - 2 * count(lost), 0));
        });
    }
}

#[test]
fn a_success_ends_the_bootstrap_for_a_racing_retry_or_after_it() {
    loom::model(|| {
        let shared = guards(TokenBudget::new(20, 2).opening(0).bootstrap(2));
        let succeed = |_: &Policy, guards: &Guards| {
            guards.passed(Time::ZERO, || Time::ZERO);
            0
        };
        let charge =
            |_: &Policy, guards: &Guards| guards.withdraw_up_to(9, Class::Reset, Time::ZERO);
        let (_, granted) = two(&shared, succeed, charge);
        assert!(granted <= 1);
        assert_eq!(held(&shared.1), (1, 0), "with {granted}");
    });
}

#[test]
fn the_floor_pays_once() {
    loom::model(|| {
        let floor = Rate::new(1, Duration::from_secs(1));
        let shared = guards(TokenBudget::new(2, 2).opening(0).floor(floor));
        let charge = |now: Time| {
            move |_: &Policy, guards: &Guards| guards.withdraw_up_to(1, Class::Reset, now)
        };
        assert_eq!(
            two(&shared, charge(Time::ZERO), charge(at(Span::from_nanos(1)))),
            (0, 0),
            "both are the first refusal"
        );
        let (a, b) = two(&shared, charge(after(1)), charge(after(2)));
        assert_eq!(a + b, 1);
    });
}

/// A thread that reads that an attempt had no answer also reads since when.
#[test]
fn a_timeout_is_counted_with_its_silence() {
    loom::model(|| {
        let rule = StallRule::most(1.0).timeouts(1);
        let policy = policy(|p| p.budget(Budget::None).attempts(1).stall(rule));
        let guards = Arc::new(Guards::new(&policy, 1, 0));
        let time_out = |policy: &Policy, guards: &Guards| {
            let request = Request::default();
            let cx = Context { policy, guards, observer: None, request };
            let mut call = Call::new(policy, at(9 * SECOND), Deadline::NONE);
            let permit = call.admit(&cx, at(9 * SECOND)).unwrap();
            let timeout = Failure::new(Class::Timeout).into();
            call.settle(&cx, permit, &timeout, at(10 * SECOND), || 0);
            0.0
        };
        let read = |_: &Policy, guards: &Guards| guards.refusal(at(10 * SECOND + SECOND / 4));
        let (_, odds) = two(&(policy, guards), time_out, read);
        assert!(odds == 0.0 || odds == 0.5, "{odds}: silent for 1.25 timeouts");
    });
}
