//! The fast path of `Guards::pass` leaves the guards as the state machine would, or it is not taken.

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule, Guards, RateRule, ThrottleRule};
use redial_core::decide::{Class, Outcome, Safety};
use redial_core::schedule::HedgeRule;
use redial_core::{Call, Context, NEVER, Nanos, Policy, Rate, Request, Verdict};

use crate::support::{MS, fail, ms, policy};

/// One call with at most one retry, on the fast path if `short` and if it is available.
fn call(policy: &Policy, guards: &Guards, outcomes: [Outcome; 2], now: Nanos, short: bool) {
    let request = Request { safety: Safety::Idempotent, ..Request::default() };
    let cx = Context { policy, guards, observer: None, request };
    let took = now + 30 * MS;
    let (mut call, permit) = if short && guards.pass(|| 0, now) {
        if outcomes[0] == Outcome::Success {
            guards.passed(now, || took);
            return;
        }
        Call::resume(policy, now, NEVER)
    } else {
        let mut call = Call::new(policy, now, NEVER);
        match call.admit(&cx, now) {
            Ok(permit) => (call, permit),
            Err(_) => return,
        }
    };
    // As a runner does: the clock is read after a success only if the guards need it.
    let plain = outcomes[0] == Outcome::Success && !guards.timed();
    let ended = if plain { now } else { took };
    if let Verdict::Wait(until) = call.settle(&cx, permit, &outcomes[0], ended, || now)
        && let Ok(permit) = call.admit(&cx, until)
    {
        call.settle(&cx, permit, &outcomes[1], until, || now);
    }
    call.cancel(&cx, took);
}

fn policies() -> Vec<Policy> {
    let rule = BreakerRule::default().last_calls(8).minimum_calls(4).probes(2);
    let timed = BreakerRule::default().last_time(ms(2_000)).minimum_calls(4);
    vec![
        Policy::standard().edit().without_hedge().build().unwrap(),
        policy(|p| p),
        policy(|p| p.budget(Budget::None)),
        policy(|p| p.breaker(rule.open_for(ms(500), 0.1))),
        policy(|p| p.breaker(timed.slow_calls(ms(20), 0.9).open_for(ms(300), 0.0))),
        policy(|p| p.cooldown(CoolDownRule::every(ms(1_000)))),
        policy(|p| p.budget(Budget::Tokens(TokenBudget::new(50, 5)))),
        Policy::standard(),
        policy(|p| p.hedge(HedgeRule::after(ms(10)))),
        policy(|p| p.budget(Budget::Window(WindowBudget::ratio(0.3).deposit_on_success()))),
        policy(|p| p.budget(Budget::Inflight(InflightBudget::default()))),
        policy(|p| p.concurrency(1)),
        policy(|p| p.rate(RateRule::new(Rate::per_second(20), 3))),
        policy(|p| p.throttle(ThrottleRule::k(1.5).window(ms(2_000)))),
    ]
}

proptest! {
    #[test]
    fn both_paths_leave_the_same_guards(
        calls in proptest::collection::vec((0..200 * MS, 0..4_usize, 0..4_usize), 1..80),
    ) {
        let outcomes =
            [Outcome::Success, fail(Class::Reset), fail(Class::Throttled), fail(Class::Permanent)];
        for policy in policies() {
            let (long, short) = (Guards::new(&policy, 1, 5), Guards::new(&policy, 1, 5));
            let mut now = 0;
            for (pause, first, second) in &calls {
                now += pause;
                let outcomes = [outcomes[*first], outcomes[*second]];
                call(&policy, &long, outcomes, now, false);
                call(&policy, &short, outcomes, now, true);
                prop_assert_eq!(long.balance(now), short.balance(now));
                prop_assert_eq!(long.breaker(), short.breaker());
                prop_assert_eq!(long.refusal(now), short.refusal(now));
            }
        }
    }
}

#[test]
fn only_attempts_that_hold_nothing_take_it() {
    let taken: Vec<_> =
        policies().iter().map(|policy| Guards::new(policy, 1, 0).pass(|| 0, 0)).collect();
    let want = [[true; 9].as_slice(), &[false; 5]].concat();
    assert_eq!(taken, want);
}
