//! The fast path of `Guards::pass` leaves the guards as the state machine would, or it is not taken.

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule, Guards, RateRule, ThrottleRule};
use redial_core::decide::{Class, Outcome, Safety};
use redial_core::schedule::HedgeRule;
use redial_core::{Call, Context, Deadline, Policy, Rate, Request, Span, Time, Verdict};

use crate::support::{MS, fail, ms, policy, spans};

/// One call with at most one retry, on the fast path if `short` and if it is available.
fn call(policy: &Policy, guards: &Guards, outcomes: [Outcome; 2], now: Time, short: bool) {
    let request = Request { safety: Safety::Idempotent, ..Request::default() };
    let cx = Context { policy, guards, observer: None, request };
    let took = now + 30 * MS;
    let (mut call, permit) = if short && guards.pass(|| 0, now) {
        if outcomes[0] == Outcome::Success {
            guards.passed(now, || took);
            return;
        }
        Call::resume(policy, now, Deadline::NONE)
    } else {
        let mut call = Call::new(policy, now, Deadline::NONE);
        match call.admit(&cx, now) {
            Ok(permit) => (call, permit),
            Err(_) => return,
        }
    };
    // As a runner does: the clock is read after a success only if the guards need it.
    let plain = outcomes[0] == Outcome::Success && !guards.timed();
    let ended = if plain { now } else { took };
    if let Verdict::Wait(until) = call.settle(&cx, permit, &outcomes[0], ended, || now.as_nanos())
        && let Ok(permit) = call.admit(&cx, until)
    {
        call.settle(&cx, permit, &outcomes[1], until, || now.as_nanos());
    }
    call.cancel(&cx, took);
}

/// The policies whose attempts hold nothing, which take the fast path, and those whose attempts do.
fn policies() -> [Vec<(&'static str, Policy)>; 2] {
    let rule = BreakerRule::default().last_calls(8).minimum_calls(4).probes(2);
    let timed = BreakerRule::default().last_time(ms(2_000)).minimum_calls(4);
    let by_count = rule.open_for(ms(500), 0.1);
    let by_time = timed.slow_calls(ms(20), 0.9).open_for(ms(300), 0.0);
    let window = WindowBudget::ratio(0.3).deposit_on_success();
    let tokens = Budget::Tokens(TokenBudget::new(50, 5));
    let throttle = ThrottleRule::k(1.5).window(ms(2_000));
    [
        vec![
            ("no hedge", Policy::standard().edit().without_hedge().build().unwrap()),
            ("defaults", policy(|p| p)),
            ("no budget", policy(|p| p.budget(Budget::None))),
            ("breaker that counts calls", policy(|p| p.breaker(by_count))),
            ("breaker over a time", policy(|p| p.breaker(by_time))),
            ("cool-down", policy(|p| p.cooldown(CoolDownRule::every(ms(1_000))))),
            ("token budget", policy(|p| p.budget(tokens))),
            ("standard", Policy::standard()),
            ("hedge", policy(|p| p.hedge(HedgeRule::after(ms(10))))),
        ],
        vec![
            ("deposits of successes", policy(|p| p.budget(Budget::Window(window)))),
            ("budget in flight", policy(|p| p.budget(Budget::Inflight(InflightBudget::default())))),
            ("concurrency", policy(|p| p.concurrency(1))),
            ("rate", policy(|p| p.rate(RateRule::new(Rate::per_second(20), 3)))),
            ("throttle", policy(|p| p.throttle(throttle))),
        ],
    ]
}

proptest! {
    #[test]
    fn both_paths_leave_the_same_guards(
        calls in proptest::collection::vec((spans(Span::ZERO..200 * MS), 0..4_usize, 0..4_usize), 1..80),
    ) {
        let outcomes =
            [Outcome::Success, fail(Class::Reset), fail(Class::Throttled), fail(Class::Permanent)];
        for (name, policy) in policies().concat() {
            let (long, short) = (Guards::new(&policy, 1, 5), Guards::new(&policy, 1, 5));
            let mut now = Time::ZERO;
            for (pause, first, second) in &calls {
                now += *pause;
                let outcomes = [outcomes[*first], outcomes[*second]];
                call(&policy, &long, outcomes, now, false);
                call(&policy, &short, outcomes, now, true);
                prop_assert_eq!(long.balance(now), short.balance(now), "{}", name);
                prop_assert_eq!(long.breaker(), short.breaker(), "{}", name);
                prop_assert_eq!(long.refusal(now), short.refusal(now), "{}", name);
            }
        }
    }
}

#[test]
fn only_attempts_that_hold_nothing_take_it() {
    let takes = |policy: &Policy| Guards::new(policy, 1, 0).pass(|| 0, Time::ZERO);
    let [short, long] = policies();
    for (name, policy) in short {
        assert!(takes(&policy), "{name}");
    }
    for (name, policy) in long {
        assert!(!takes(&policy), "{name}");
    }
}
