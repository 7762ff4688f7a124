//! What the guards learn from the pace of a destination: hedges beside overtaken attempts, no retries while it is
//! saturated, fewer calls while it stands still.

use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, StallRule};
use redial_core::decide::{Class, Failure, Outcome, Reach, Safety};
use redial_core::schedule::HedgeRule;
use redial_core::{Call, Draft, NoHedge, Permit, Policy, Rate, Span, Stop, Time, Verdict};

use crate::support::{Lab, MS, SECOND, fail, ms, policy};

const US: Span = Span::from_micros(1);

/// A call that succeeds after `taken`.
fn succeed(lab: &mut Lab, taken: Span) {
    lab.attempt_takes = taken;
    assert_eq!(lab.call(&[Outcome::Success]).end, Ok(()));
}

/// A call of which an attempt is in flight.
fn sent(lab: &Lab) -> (Call, Permit) {
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    (call, permit)
}

fn settle(lab: &Lab, call: &mut Call, permit: Permit, outcome: &Outcome) -> Verdict {
    call.settle(&lab.cx(), permit, outcome, lab.now, || 1)
}

/// Whether a hedge is sent beside the one attempt of this call. It ends at once.
fn hedges(lab: &Lab, call: &mut Call, started: Time) -> bool {
    match call.hedge(&lab.cx(), started, lab.now) {
        Ok(permit) => {
            call.abandon(&lab.cx(), permit, lab.now);
            true
        }
        Err(refused) => {
            assert_eq!(refused.reason, None);
            false
        }
    }
}

fn overtaking() -> Lab {
    let rule = HedgeRule::share(1.0 / 3.0).at_most(3).if_overtaken();
    Lab::new(policy(|p| p.hedge(rule).budget(Budget::None)))
}

#[test]
fn only_an_attempt_that_was_sent_later_overtakes() {
    let mut lab = overtaking();
    let (mut before, first) = sent(&lab);
    lab.now += 5 * MS;
    let started = lab.now;
    let (mut slow, permit) = sent(&lab);
    let (mut together, second) = sent(&lab);
    lab.now += 100 * MS;
    assert!(!hedges(&lab, &mut slow, started), "nothing has succeeded");
    settle(&lab, &mut before, first, &Outcome::Success);
    settle(&lab, &mut together, second, &Outcome::Success);
    assert!(!hedges(&lab, &mut slow, started), "they were not sent later");
    for outcome in [fail(Class::Reset), fail(Class::Permanent), Outcome::NotYet(None)] {
        let (mut later, permit) = sent(&lab);
        settle(&lab, &mut later, permit, &outcome);
        assert!(!hedges(&lab, &mut slow, started), "{outcome:?} is not a success");
    }
    lab.now += MS;
    succeed(&mut lab, 3 * MS);
    assert!(hedges(&lab, &mut slow, started));
    slow.abandon(&lab.cx(), permit, lab.now);
}

#[test]
fn after_thirty_one_success_in_a_millisecond_is_recorded() {
    for (known, recorded) in [(30, true), (31, false)] {
        let mut lab = overtaking();
        for _ in 0..known {
            lab.now += MS;
            succeed(&mut lab, Span::ZERO);
        }
        lab.now += 200 * US;
        let started = lab.now;
        let (mut slow, permit) = sent(&lab);
        lab.now += 799 * US;
        succeed(&mut lab, Span::ZERO);
        assert_eq!(hedges(&lab, &mut slow, started), recorded, "after {known}");
        lab.now += US;
        succeed(&mut lab, Span::ZERO);
        assert!(hedges(&lab, &mut slow, started), "a millisecond after the last one");
        slow.abandon(&lab.cx(), permit, lab.now);
    }
}

#[test]
fn a_hedge_is_due_after_a_share_of_the_time_that_is_left() {
    let lab = overtaking();
    let (mut call, first) = sent(&lab);
    let deadline = lab.now + 10 * SECOND;
    assert_eq!(call.hedge_at(&lab.cx(), lab.now), Some(lab.now + Span::from_nanos(3_333_333_333)));
    assert_eq!(call.hedge_at(&lab.cx(), lab.now + 4 * SECOND), Some(lab.now + 6 * SECOND));
    assert_eq!(call.hedge_at(&lab.cx(), deadline), Some(deadline));
    call.abandon(&lab.cx(), first, lab.now);
    let double = policy(|p| p.hedge(HedgeRule::share(0.2).multiple(2.0)));
    let lab = Lab::new(double);
    let (mut call, first) = sent(&lab);
    assert_eq!(call.hedge_at(&lab.cx(), lab.now), Some(lab.now + 4 * SECOND));
    call.abandon(&lab.cx(), first, lab.now);
}

#[test]
fn a_hedge_that_is_refused_for_now_is_asked_for_again_after_a_quarter() {
    let mut lab = overtaking();
    lab.policy = policy(|p| {
        let empty = TokenBudget::new(20, 20).opening(0);
        p.hedge(*lab.policy.hedge().unwrap()).budget(Budget::Tokens(empty))
    });
    lab.guards = Guards::new(&lab.policy, 1, 0);
    let (mut call, permit) = sent(&lab);
    let started = lab.now;
    let ask = |lab: &Lab, call: &mut Call| call.hedge(&lab.cx(), started, lab.now).unwrap_err();
    lab.now += SECOND;
    assert_eq!(ask(&lab, &mut call), NoHedge { reason: None, again: Some(lab.now + SECOND / 4) });
    lab.now = started + 2 * MS;
    assert_eq!(ask(&lab, &mut call).again, Some(lab.now + MS), "not more often than that");
    succeed(&mut lab, SECOND);
    let again = lab.now + (lab.now - started) / 4;
    assert_eq!(ask(&lab, &mut call), NoHedge { reason: Some(Stop::Budget), again: Some(again) });
    (0..20).for_each(|_| succeed(&mut lab, Span::ZERO));
    let hedge = call.hedge(&lab.cx(), started, lab.now).unwrap();
    assert_eq!((hedge.number, hedge.expires), (2, (started + 10 * SECOND).into()));
    settle(&lab, &mut call, hedge, &Outcome::Success);
    call.abandon(&lab.cx(), permit, lab.now);
    assert_eq!(ask(&lab, &mut call), NoHedge { reason: Some(Stop::Cancelled), again: None });
}

#[test]
fn what_must_not_be_repeated_or_has_no_deadline_is_never_hedged() {
    let check = |change: fn(Draft) -> Draft, safety, off, reason| {
        let rule = HedgeRule::share(0.5).if_overtaken();
        let mut lab = Lab::new(policy(|p| change(p.hedge(rule))));
        (lab.request.safety, lab.request.off) = (safety, off);
        let (mut call, permit) = sent(&lab);
        assert_eq!(call.hedge_at(&lab.cx(), lab.now), None);
        if let Some(reason) = reason {
            let refused = call.hedge(&lab.cx(), lab.now, lab.now + SECOND).unwrap_err();
            assert_eq!(refused, NoHedge { reason: Some(reason), again: None });
        }
        call.abandon(&lab.cx(), permit, lab.now);
    };
    let idempotent = Safety::Idempotent;
    check(|p| p, Safety::Unsafe, None, Some(Stop::Unsafe));
    check(|p| p, Safety::Conditional, None, Some(Stop::Unsafe));
    check(|p| p, Safety::Keyed, None, Some(Stop::Unsafe));
    check(Draft::require_key, idempotent, None, Some(Stop::Unsafe));
    check(|p| p.attempts(1), idempotent, None, Some(Stop::Attempts));
    check(|p| p, idempotent, Some(Stop::ToldToStop), Some(Stop::ToldToStop));
    check(Draft::without_deadline, idempotent, None, None);
}

/// A bucket that is never empty, under a slowdown of three.
fn slowing() -> Lab {
    let budget = TokenBudget::new(1_000, 1).slowdown(3.0);
    Lab::new(policy(|p| p.budget(Budget::Tokens(budget))))
}

/// Whether a retry would be paid for. It is given back.
fn pays(lab: &Lab) -> bool {
    let (mut call, permit) = sent(lab);
    let verdict = settle(lab, &mut call, permit, &fail(Class::Reset));
    call.cancel(&lab.cx(), lab.now);
    verdict != Verdict::Stop(Stop::Budget)
}

/// Successes that take `taken`, one every `every`, until a retry is paid for or not. Returns how many.
fn until(lab: &mut Lab, pays_then: bool, taken: Span, every: Span) -> u64 {
    (1..=200_000)
        .find(|_| {
            let start = lab.now;
            succeed(lab, taken);
            let found = pays(lab) == pays_then;
            lab.now = start + every;
            lab.events.take();
            found
        })
        .unwrap()
}

fn usual(lab: &mut Lab, count: u32, taken: Span) {
    for _ in 0..count {
        succeed(lab, taken);
        lab.now += 10 * MS;
    }
}

#[test]
fn nothing_is_paid_for_while_successes_take_three_times_as_long_as_usual() {
    let mut lab = slowing();
    usual(&mut lab, 30, 10 * MS);
    usual(&mut lab, 100, 29 * MS);
    assert!(pays(&lab), "less than three times");
    let mut lab = slowing();
    usual(&mut lab, 30, 10 * MS);
    assert_eq!(until(&mut lab, false, 40 * MS, 10 * MS), 5, "a fifth of the way each time");
    assert_eq!(lab.balance(), 1_000, "and a refusal costs nothing");
    assert_eq!(until(&mut lab, true, 10 * MS, 10 * MS), 1);

    let mut lab = slowing();
    usual(&mut lab, 15, 10 * MS);
    usual(&mut lab, 15, 30 * MS);
    assert_eq!(
        until(&mut lab, false, 70 * MS, 10 * MS),
        7,
        "the mean of the first thirty is 20 ms"
    );

    let mut lab = slowing();
    let floor = Rate::new(1, ms(1_000));
    let Budget::Tokens(budget) = *lab.policy.budget() else { panic!("a bucket") };
    lab.policy = policy(|p| p.budget(Budget::Tokens(budget.floor(floor))));
    lab.guards = Guards::new(&lab.policy, 1, 0);
    usual(&mut lab, 30, 10 * MS);
    usual(&mut lab, 10, 90 * MS);
    assert!(!pays(&lab));
    lab.now += SECOND;
    assert!(pays(&lab) && !pays(&lab), "the floor pays, also for a destination that stays slow");

    let hedged = policy(|p| p.hedge(HedgeRule::after(ms(1))).budget(*slowing().policy.budget()));
    let mut lab = Lab::new(hedged);
    usual(&mut lab, 30, 10 * MS);
    usual(&mut lab, 10, 90 * MS);
    let (mut call, permit) = sent(&lab);
    let refused = call.hedge(&lab.cx(), lab.now, lab.now + MS).unwrap_err();
    assert_eq!(refused.reason, Some(Stop::Budget), "a hedge would displace a call too");
    call.abandon(&lab.cx(), permit, lab.now);
}

#[test]
fn the_usual_latency_follows_over_a_minute() {
    for (low, high, every, seconds) in [
        // 1000 − 990·e^(−t/60) is a third of 1000 after 23.7 s.
        (10 * MS, 1_000 * MS, 10 * MS, 22..26),
        // The recent latency itself takes some successes to follow.
        (10 * MS, 1_000 * MS, SECOND, 25..30),
        (10 * US, 1_000 * US, MS, 22..26),
        // Less than a nanosecond for each success, rounded up.
        (10 * US, 40 * US, MS, 3..4),
    ] {
        let mut lab = slowing();
        usual(&mut lab, 30, low);
        until(&mut lab, false, high, every);
        let taken = until(&mut lab, true, high, every) * every / SECOND;
        assert!(seconds.contains(&taken), "{low} to {high} every {every}: {taken} s");
    }
    for (seconds, slow) in [(60, false), (240, true)] {
        let mut lab = slowing();
        usual(&mut lab, 30, 100 * MS);
        for _ in 0..seconds {
            succeed(&mut lab, 10 * MS);
            lab.now += SECOND;
        }
        usual(&mut lab, 10, 50 * MS);
        assert_eq!(!pays(&lab), slow, "10 + 90·e^(−t/60) after {seconds} s");
    }
}

/// Calls that are given up after a second, under the default stall rule and without retries.
fn stalling(rule: StallRule) -> Lab {
    let mut lab =
        Lab::new(policy(|p| p.stall(rule).attempts(1).budget(Budget::None).deadline(ms(1_000))));
    lab.attempt_takes = SECOND;
    lab
}

/// Attempts that are sent now, all of them, and end together after a second.
fn end_together(lab: &mut Lab, count: usize, outcome: Outcome) {
    let all: Vec<_> = (0..count).map(|_| sent(lab)).collect();
    lab.now += SECOND;
    for (mut call, permit) in all {
        settle(lab, &mut call, permit, &outcome);
    }
}

#[test]
fn the_share_of_refused_calls_grows_with_the_silence() {
    let timeout = fail(Class::Timeout);
    let after = |lab: &Lab, ms: u64| lab.guards.refusal(lab.now + ms * MS);
    for succeeded in [false, true] {
        let mut lab = stalling(StallRule::default());
        if succeeded {
            succeed(&mut lab, Span::ZERO);
        }
        end_together(&mut lab, 4, timeout);
        assert_eq!(after(&lab, 3_000), 0.0, "four attempts say too little");
        lab.now -= SECOND;
        end_together(&mut lab, 1, timeout);
        let odds = [0, 125, 250, 4_000].map(|ms| after(&lab, ms));
        assert_eq!(odds, [0.0, 0.25, 0.5, 0.6], "{succeeded}");
        assert_eq!(after(&lab, 4_001), 0.0, "nothing sent for four timeouts: no queue is left");
        succeed(&mut lab, Span::ZERO);
        assert_eq!(after(&lab, 3_000), 0.0, "a success ends it");
        end_together(&mut lab, 4, timeout);
        assert_eq!(after(&lab, 3_000), 0.0, "and the count starts over");
    }
    let mut lab = stalling(StallRule::most(0.8).timeouts(2));
    end_together(&mut lab, 2, timeout);
    assert_eq!([250, 500, 3_000].map(|ms| after(&lab, ms)), [0.5, 0.8, 0.8]);
    let (mut call, permit) = sent(&lab);
    lab.now += 10 * MS;
    settle(&lab, &mut call, permit, &timeout);
    assert_eq!(after(&lab, 240), 0.5, "the longest wait of the series is its timeout");
}

#[test]
fn first_attempts_are_refused_too() {
    let mut lab = stalling(StallRule::default());
    end_together(&mut lab, 5, fail(Class::Timeout));
    lab.now += 3 * SECOND;
    let at = lab.now;
    let refused = (0..2_000).filter(|_| {
        lab.now = at;
        lab.failing(Class::Timeout).end == Err(Stop::Stalled)
    });
    let refused = refused.count();
    assert!((1_100..=1_300).contains(&refused), "about 60%: {refused}");
    assert!(!lab.guards.pass(|| 0, lab.now), "the fast path does not pass by it");
}

#[test]
fn only_attempts_without_an_answer_make_a_stall() {
    let after = |outcomes: &[Outcome]| {
        let mut lab = stalling(StallRule::default());
        for outcome in outcomes {
            end_together(&mut lab, 5, *outcome);
        }
        lab.guards.refusal(lab.now + 2 * SECOND)
    };
    let timeout = fail(Class::Timeout);
    let status = |class, code| Failure::new(class).code(code).into();
    assert_eq!(after(&[timeout]), 0.6);
    assert_eq!(after(&[status(Class::Timeout, 504)]), 0.0, "a gateway answered");
    let unsent = Failure::new(Class::Timeout).reach(Reach::NotSent).into();
    assert_eq!(after(&[unsent]), 0.0, "no connection");
    assert_eq!(after(&[timeout, status(Class::Timeout, 504)]), 0.6);
    assert_eq!(after(&[timeout, status(Class::Overloaded, 503)]), 0.6);
    assert_eq!(after(&[timeout, fail(Class::Permanent)]), 0.6, "there may have been no answer");
    assert_eq!(after(&[timeout, status(Class::Permanent, 404)]), 0.0);
    assert_eq!(after(&[timeout, Outcome::NotYet(None)]), 0.0);
    assert_eq!(after(&[timeout, fail(Class::Cancelled)]), 0.6);
}

#[test]
fn a_success_ends_a_stall_though_one_was_just_recorded() {
    let mut lab = stalling(StallRule::default());
    for _ in 0..40 {
        lab.now += MS;
        succeed(&mut lab, Span::ZERO);
    }
    let (mut quick, permit) = sent(&lab);
    end_together(&mut lab, 5, fail(Class::Timeout));
    settle(&lab, &mut quick, permit, &Outcome::Success);
    assert_eq!(lab.guards.refusal(lab.now + 2 * SECOND), 0.0);
}

#[test]
fn the_standard_policy_has_all_three() {
    let policy = Policy::standard();
    assert_eq!(policy.hedge(), Some(&HedgeRule::share(1.0 / 3.0).at_most(3).if_overtaken()));
    assert_eq!(policy.stall(), Some(&StallRule { timeouts: 5, most: 0.6 }));
    assert_eq!(policy.budget(), &Budget::Tokens(TokenBudget::earned()));
    let bare = Draft::bare(3).build().unwrap();
    assert_eq!((bare.hedge(), bare.stall()), (None, None));
}
