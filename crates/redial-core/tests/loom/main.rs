//! Every interleaving of the lock-free parts, on small rings: `cargo xtask test` runs them with
//! `--cfg loom`.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a model that cannot continue panics")]

mod by_hand;
mod earned;
mod park;
mod turnstile;

use std::num::NonZeroU64;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, BreakerState, CoolDownRule, Guards, RateLimit, RateRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Call, Context, Deadline, Draft, Policy, Preset, Rate, Request, Span, Time};

const SECOND: Span = Span::SECOND;

const fn at(since_zero: Span) -> Time {
    Time::at(since_zero)
}

/// So many nanoseconds after the first second.
fn after(nanos: u64) -> Time {
    at(SECOND + Span::from_nanos(nanos))
}

fn policy(change: impl FnOnce(Draft) -> Draft) -> Policy {
    change(Preset::Standard01.draft()).build().unwrap()
}

/// The results of two threads.
fn both<T: 'static>(
    one: impl FnOnce() -> T + 'static,
    two: impl FnOnce() -> T + 'static,
) -> (T, T) {
    let other = thread::spawn(two);
    let first = one();
    (first, other.join().unwrap())
}

fn window(ratio: f64, floor: u32) -> Arc<Guards> {
    let budget = WindowBudget::ratio(ratio).floor(Rate::per_second(floor));
    let budget = Budget::Window(budget.ttl(Duration::from_secs(1)));
    Arc::new(Guards::new(&policy(|p| p.budget(budget)), 2, 0))
}

fn retry(guards: &Guards, stripe: usize, now: Time) -> u64 {
    guards.deposit(stripe, 1, now);
    guards.withdraw_up_to(1, Class::Timeout, now)
}

#[test]
fn two_threads_do_not_spend_one_token() {
    loom::model(|| {
        let guards = window(0.5, 0);
        let shared = Arc::clone(&guards);
        let (a, b) = both(move || retry(&shared, 0, Time::ZERO), {
            let guards = Arc::clone(&guards);
            move || retry(&guards, 1, Time::ZERO)
        });
        assert!(a + b <= 1);
        assert_eq!(a + b + guards.balance(Time::ZERO).unwrap(), 1, "and none is lost");
    });
}

#[test]
fn a_new_slice_hands_out_nothing_twice() {
    loom::model(|| {
        // A slice is a second here, and the window reaches back one slice.
        let guards = window(1.0, 0);
        guards.deposit(0, 2, Time::ZERO);
        assert_eq!(guards.withdraw_up_to(1, Class::Timeout, Time::ZERO), 1);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (a, b) = both(
            move || one.withdraw_up_to(2, Class::Timeout, after(0)),
            move || two.withdraw_up_to(2, Class::Timeout, at(SECOND - Span::from_nanos(1))),
        );
        assert_eq!(a + b, 1);
    });
}

#[test]
fn a_reserve_is_not_refilled_by_racing_to_begin_a_slice() {
    loom::model(|| {
        let guards = window(1.0, 1);
        assert_eq!(guards.withdraw_up_to(9, Class::Timeout, Time::ZERO), 1);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (a, b) = both(
            move || one.withdraw_up_to(1, Class::Timeout, after(0)),
            move || retry(&two, 1, after(0)),
        );
        assert!(a + b <= 1, "one deposit in the window, and the reserve is spent");
    });
}

#[test]
fn what_an_old_slice_bought_is_not_bought_again_in_a_new_one() {
    loom::model(|| {
        let guards = window(1.0, 0);
        guards.deposit(0, 0, Time::ZERO);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (bought, _) =
            both(move || retry(&one, 0, Time::ZERO), move || two.balance(after(0)).unwrap());
        let again = guards.withdraw_up_to(9, Class::Timeout, at(2 * SECOND));
        assert!(bought + again <= 1, "one deposit, {bought} and {again} retries");
    });
}

#[test]
fn a_note_is_not_replaced_while_it_is_needed() {
    loom::model(|| {
        let guards = window(1.0, 1);
        assert_eq!(guards.withdraw_up_to(9, Class::Timeout, after(0)), 1);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (granted, _) = both(
            move || one.withdraw_up_to(1, Class::Timeout, after(0)),
            move || two.balance(at(2 * SECOND)).unwrap(),
        );
        assert_eq!(granted, 0, "the reserve is spent in both slices");
    });
}

#[test]
fn a_note_that_is_replaced_after_a_long_silence_is_replaced_whole() {
    loom::model(|| {
        let guards = window(1.0, 0);
        guards.deposit(0, 0, Time::ZERO);
        guards.deposit(0, 2, after(0));
        assert_eq!(guards.withdraw_up_to(9, Class::Timeout, after(0)), 2);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (granted, _) = both(
            move || one.withdraw_up_to(2, Class::Timeout, after(0)),
            move || two.balance(at(4 * SECOND)).unwrap(),
        );
        assert_eq!(granted, 0);
    });
}

#[test]
fn deposits_that_race_with_a_new_slice_are_all_counted() {
    loom::model(|| {
        let guards = window(1.0, 0);
        guards.deposit(0, 1, Time::ZERO);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        both(move || one.deposit(0, 1, after(0)), move || two.deposit(1, 1, after(0)));
        assert_eq!(guards.balance(after(0)), Some(3));
        assert_eq!(guards.balance(at(2 * SECOND)), Some(2), "deposits of the new slice stay");
        assert_eq!(guards.balance(at(3 * SECOND)), Some(0));
    });
}

#[test]
fn buckets_and_limits_are_not_overdrawn() {
    loom::model(|| {
        let guards = Arc::new(Guards::new(
            &policy(|p| p.budget(Budget::Tokens(TokenBudget::new(5, 5)))),
            1,
            0,
        ));
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let take = |guards: Arc<Guards>| move || guards.withdraw_up_to(1, Class::Reset, Time::ZERO);
        let (a, b) = both(take(one), take(two));
        assert_eq!(a + b, 1);
    });
    loom::model(|| {
        let limit = Arc::new(RateLimit::new(&RateRule::new(Rate::per_second(1), 1)));
        let (one, two) = (Arc::clone(&limit), Arc::clone(&limit));
        let (a, b) = both(move || one.take(after(0)).is_ok(), move || two.take(after(0)).is_ok());
        assert!(a ^ b);
    });
}

/// Makes one attempt that ends with `outcome`, or is abandoned. Returns whether it was admitted.
fn attempt(policy: &Policy, guards: &Guards, outcome: Option<Outcome>, now: Time) -> bool {
    let request = Request { safety: Safety::Idempotent, ..Request::default() };
    let cx = Context { policy, guards, observer: None, request };
    let mut call = Call::new(policy, now, Deadline::NONE);
    let Ok(permit) = call.admit(&cx, now) else { return false };
    match outcome {
        Some(outcome) => {
            call.settle(&cx, permit, &outcome, now, || 0);
        }
        None => call.abandon(&cx, permit, now),
    }
    true
}

fn open_breaker() -> (Policy, Arc<Guards>) {
    let rule = BreakerRule::default().last_calls(1).minimum_calls(1).probes(1);
    let rule = rule.open_for(Duration::from_secs(1), 0.0);
    let policy = policy(|p| p.attempts(1).budget(Budget::None).breaker(rule));
    let guards = Arc::new(Guards::new(&policy, 1, 0));
    let bad = Failure::new(Class::Reset).into();
    assert!(attempt(&policy, &guards, Some(bad), Time::ZERO));
    (policy, guards)
}

#[test]
fn one_probe_is_one_probe() {
    loom::model(|| {
        let (policy, guards) = open_breaker();
        let hold = |guards: Arc<Guards>, policy: Policy| {
            move || {
                let request = Request::default();
                let cx = Context { policy: &policy, guards: &guards, observer: None, request };
                Call::new(&policy, after(0), Deadline::NONE).admit(&cx, after(0)).is_ok()
            }
        };
        let (a, b) =
            both(hold(Arc::clone(&guards), policy.clone()), hold(Arc::clone(&guards), policy));
        assert!(a ^ b);
        assert_eq!(guards.breaker(), BreakerState::HalfOpen);
    });
}

#[test]
fn an_abandoned_probe_is_never_lost() {
    loom::model(|| {
        let (policy, guards) = open_breaker();
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (first, second) = (policy.clone(), policy.clone());
        both(
            move || attempt(&first, &one, None, after(0)),
            move || attempt(&second, &two, None, after(0)),
        );
        assert!(attempt(&policy, &guards, Some(Outcome::Success), after(0)));
        assert_eq!(guards.breaker(), BreakerState::Closed);
    });
}

#[test]
fn failures_that_race_open_the_breaker_once() {
    loom::model(|| {
        let rule = BreakerRule::default().last_calls(2).minimum_calls(2);
        let policy = policy(|p| p.attempts(1).budget(Budget::None).breaker(rule));
        let guards = Arc::new(Guards::new(&policy, 1, 0));
        let bad = |guards: Arc<Guards>, policy: Policy| {
            move || attempt(&policy, &guards, Some(Failure::new(Class::Reset).into()), Time::ZERO)
        };
        both(bad(Arc::clone(&guards), policy.clone()), bad(Arc::clone(&guards), policy));
        assert_eq!(guards.breaker(), BreakerState::Open);
    });
}

/// Two calls fail and retry at once, under guards that have room for one of the retries.
fn one_of_two_retries(policy: Policy) {
    let guards = Arc::new(Guards::new(&policy, 1, 0));
    let retry = |guards: Arc<Guards>, policy: Policy| {
        move || {
            let request = Request {
                safety: Safety::Idempotent,
                key: NonZeroU64::new(7),
                ..Request::default()
            };
            let cx = Context { policy: &policy, guards: &guards, observer: None, request };
            let mut call = Call::new(&policy, Time::ZERO, Deadline::NONE);
            let first = call.admit(&cx, Time::ZERO).unwrap();
            call.settle(&cx, first, &Failure::new(Class::Reset).into(), Time::ZERO, || 0);
            call.admit(&cx, after(0)).is_ok()
        }
    };
    let (a, b) =
        both(retry(Arc::clone(&guards), policy.clone()), retry(Arc::clone(&guards), policy));
    assert!(a ^ b);
}

#[test]
fn one_retry_per_key_is_one() {
    loom::model(|| {
        let rule = CoolDownRule::every(Duration::from_secs(30)).places(1);
        one_of_two_retries(policy(|p| p.budget(Budget::None).cooldown(rule)));
    });
}

#[test]
fn one_retry_in_flight_is_one() {
    loom::model(|| {
        let budget = Budget::Inflight(InflightBudget::new(0.0, 1));
        one_of_two_retries(policy(|p| p.budget(budget)));
    });
}

#[test]
fn a_breaker_that_closes_has_forgotten_the_past() {
    loom::model(|| {
        let (policy, guards) = open_breaker();
        let cx = |policy: &Policy, guards: &Guards, settle: bool| {
            let request = Request::default();
            let cx = Context { policy, guards, observer: None, request };
            let mut call = Call::new(policy, after(0), Deadline::NONE);
            if let Ok(permit) = call.admit(&cx, after(0))
                && settle
            {
                call.settle(&cx, permit, &Outcome::Success, after(0), || 0);
            }
        };
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        let (first, second) = (policy.clone(), policy);
        both(move || cx(&first, &one, true), move || cx(&second, &two, true));
        assert_ne!(guards.breaker(), BreakerState::Open, "two successes do not open it");
    });
}

#[test]
fn racing_refunds_are_all_counted() {
    loom::model(|| {
        let budget = WindowBudget::ratio(1.0).floor(Rate::per_second(2));
        let budget = Budget::Window(budget.ttl(Duration::from_secs(1)));
        let policy = policy(|p| p.budget(budget));
        let guards = Arc::new(Guards::new(&policy, 1, 0));
        let waiting = |guards: &Guards| {
            let request = Request { safety: Safety::Idempotent, ..Request::default() };
            let cx = Context { policy: &policy, guards, observer: None, request };
            let mut call = Call::new(&policy, Time::ZERO, Deadline::NONE);
            let permit = call.admit(&cx, Time::ZERO).unwrap();
            call.settle(&cx, permit, &Failure::new(Class::Reset).into(), Time::ZERO, || 0);
            call
        };
        let calls = [waiting(&guards), waiting(&guards)];
        assert_eq!(guards.balance(Time::ZERO), Some(2));
        let cancel = |guards: Arc<Guards>, policy: Policy, mut call: Call| {
            move || {
                let request = Request::default();
                let cx = Context { policy: &policy, guards: &guards, observer: None, request };
                call.cancel(&cx, Time::ZERO);
            }
        };
        let [a, b] = calls;
        both(
            cancel(Arc::clone(&guards), policy.clone(), a),
            cancel(Arc::clone(&guards), policy.clone(), b),
        );
        assert_eq!(guards.balance(Time::ZERO), Some(4));
    });
}

fn leased(tokens: u32) -> Arc<Guards> {
    let budget = Budget::Window(WindowBudget::ratio(0.1).ttl(Duration::from_secs(10)));
    let policy = policy(|p| p.budget(budget));
    let guards = Guards::leased(&policy, 1, 0, std::task::Waker::noop().clone()).unwrap();
    guards.lease().unwrap().add(tokens, after(0), Time::ZERO);
    Arc::new(guards)
}

#[test]
fn two_threads_do_not_spend_one_leased_token() {
    loom::model(|| {
        let guards = leased(1);
        let shared = Arc::clone(&guards);
        let take = |guards: &Guards| guards.withdraw_up_to(1, Class::Timeout, Time::ZERO);
        let (a, b) = both(move || take(&shared), {
            let guards = Arc::clone(&guards);
            move || take(&guards)
        });
        assert_eq!(a + b, 1);
        assert_eq!(guards.lease().unwrap().taken(), 1);
    });
}

#[test]
fn a_lease_that_grows_while_it_is_spent_loses_nothing() {
    loom::model(|| {
        let guards = leased(1);
        let shared = Arc::clone(&guards);
        let (taken, _) = both(move || shared.withdraw_up_to(2, Class::Timeout, Time::ZERO), {
            let guards = Arc::clone(&guards);
            move || {
                guards.lease().unwrap().add(1, after(0), Time::ZERO);
                0
            }
        });
        assert_eq!(taken + guards.lease().unwrap().held(Time::ZERO), 2);
    });
}
