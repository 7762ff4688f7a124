use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{CoolDownRule, Guards, RateLimit, RateRule, Scopes};
use redial_core::decide::{Class, Outcome};
use redial_core::{Policy, Rate, Span, Stop, Time, TimeLimit};
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::support::{Lab, MS, NS, SECOND, at, ms, policy};

#[test]
fn a_rate_admits_its_burst_and_then_its_rate() {
    let limit = RateLimit::new(&RateRule::new(Rate::per_second(10), 5));
    let taken = |now| (0..100).filter(|_| limit.take(now).is_ok()).count();
    assert_eq!(taken(at(SECOND)), 5);
    assert_eq!(
        limit.take(at(SECOND)),
        Err(Some(at(SECOND + 100 * MS))),
        "and says when the next one is there"
    );
    assert_eq!(taken(at(SECOND + 100 * MS - NS)), 0);
    assert_eq!(taken(at(SECOND + 100 * MS)), 1);
    assert_eq!(taken(at(SECOND + 300 * MS)), 2);
    assert_eq!(taken(at(3600 * SECOND)), 5, "idle hours bank no more than the burst");
}

#[test]
fn a_rate_is_never_exceeded_by_rounding() {
    let none = RateLimit::new(&RateRule::new(Rate::per_second(0), 5));
    assert_eq!(none.take(at(SECOND)), Err(None), "a rate of zero admits nothing");
    let limit = RateLimit::new(&RateRule::new(Rate::new(2, std::time::Duration::from_nanos(3)), 1));
    let taken = (0..3_000).filter(|now| limit.take(at(*now * NS)).is_ok()).count();
    assert!(taken <= 2_000, "{taken} in 3000 ns at 2 in 3 ns");
}

#[test]
fn over_an_hour_the_rate_is_the_rate() {
    let limit = RateLimit::new(&RateRule::new(Rate::new(3, ms(1_000)), 1));
    let taken = (0..3600 * 100).filter(|tick| limit.take(at(tick * 10 * MS)).is_ok()).count();
    assert!((3 * 3600 - 220..=3 * 3600 + 1).contains(&taken), "{taken}");
}

#[test]
fn the_rate_limit_stops_first_attempts_and_retries() {
    let rate = RateRule::new(Rate::per_second(1), 2);
    let mut lab = Lab::new(policy(|p| p.rate(rate).attempts(5)));
    let trace = lab.failing(Class::Reset);
    assert_eq!((trace.attempts, trace.end), (2, Err(Stop::RateLimit)));
    assert_eq!(lab.failing(Class::Reset).attempts, 0);
}

#[test]
fn the_concurrency_limit_refuses_and_releases() {
    let mut lab = Lab::new(policy(|p| p.concurrency(2)));
    let (mut a, mut b, mut c) = (lab.start(), lab.start(), lab.start());
    let first = a.admit(&lab.cx(), lab.now).unwrap();
    let second = b.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(c.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Concurrency);
    a.settle(&lab.cx(), first, &Outcome::Success, lab.now, || 0);
    b.abandon(&lab.cx(), second, lab.now);
    b.cancel(&lab.cx(), lab.now);
    let held: Vec<_> = (0..3).filter_map(|_| lab.start().admit(&lab.cx(), lab.now).ok()).collect();
    assert_eq!(held.len(), 2);
    lab.now += SECOND;
}

#[test]
fn one_retry_for_the_same_key_in_thirty_seconds() {
    let player = Policy::from(redial_core::Preset::Player);
    let mut lab = Lab::new(player.edit().budget(Budget::None).build().unwrap());
    lab.request.key = NonZeroU64::new(11);
    assert_eq!(lab.failing(Class::Overloaded).attempts, 2);
    let trace = lab.failing(Class::Overloaded);
    assert_eq!((trace.attempts, trace.end), (1, Err(Stop::CoolDown)));
    assert_eq!(trace.elapsed, Span::ZERO, "a retry that will be refused is not waited for");
    lab.request.key = NonZeroU64::new(12);
    assert_eq!(lab.failing(Class::Overloaded).attempts, 2, "another segment");
    lab.request.key = NonZeroU64::new(11);
    lab.now += 30 * SECOND;
    assert_eq!(lab.failing(Class::Overloaded).attempts, 2);
}

#[test]
fn a_key_collision_can_only_refuse() {
    let rule = CoolDownRule::every(ms(30_000)).places(8);
    let mut lab = Lab::new(policy(|p| p.attempts(2).budget(Budget::None).cooldown(rule)));
    let start = lab.now;
    let retried = (1..=1_000).filter(|key| {
        (lab.request.key, lab.now) = (NonZeroU64::new(*key), start);
        lab.failing(Class::Reset).attempts == 2
    });
    assert_eq!(retried.count(), 8, "eight places, eight retries, whatever the number of keys");
}

#[test]
fn calls_without_a_key_and_polls_do_not_cool_down() {
    let rule = CoolDownRule::every(ms(30_000));
    let mut lab = Lab::new(policy(|p| p.attempts(5).budget(Budget::None).cooldown(rule)));
    for _ in 0..3 {
        assert_eq!(lab.failing(Class::Reset).attempts, 5);
    }
    lab.request.key = NonZeroU64::new(3);
    let polls = [Outcome::NotYet(None), Outcome::NotYet(None), Outcome::Success];
    assert_eq!(lab.call(&polls).end, Ok(()));
    assert_eq!(lab.failing(Class::Reset).attempts, 2, "the polls did not use up the retry");
    lab.now += 60 * SECOND;
    let then = [crate::support::fail(Class::Reset), Outcome::NotYet(None), Outcome::Success];
    assert_eq!(lab.call(&then).end, Ok(()), "nor does a retry stop the polls after it");
}

#[test]
fn a_retry_that_another_guard_refuses_does_not_cool_down() {
    let inflight = Budget::Inflight(redial_core::admit::budget::InflightBudget::new(0.0, 1));
    let rule = CoolDownRule::every(ms(30_000));
    let mut lab = Lab::new(policy(|p| p.attempts(2).budget(inflight).cooldown(rule)));
    lab.request.key = NonZeroU64::new(9);
    let mut calls = [lab.start(), lab.start()];
    let [first, second] = calls.each_mut().map(|call| {
        let permit = call.admit(&lab.cx(), lab.now).unwrap();
        call.settle(&lab.cx(), permit, &crate::support::fail(Class::Reset), lab.now, || 3)
    });
    assert_eq!(first, second);
    let until = lab.now + SECOND;
    lab.request.key = NonZeroU64::new(10);
    let held = calls[0].admit(&lab.cx(), until).unwrap();
    lab.request.key = NonZeroU64::new(9);
    assert_eq!(calls[1].admit(&lab.cx(), until).unwrap_err(), Stop::Budget);
    lab.request.key = NonZeroU64::new(10);
    calls[0].settle(&lab.cx(), held, &Outcome::Success, until, || 0);
    lab.request.key = NonZeroU64::new(9);
    lab.now = until;
    assert_eq!(lab.failing(Class::Reset).attempts, 2, "key 9 has not been retried yet");
}

#[test]
fn a_cool_down_admits_one_of_two_waiting_calls() {
    let mut lab = Lab::new(policy(|p| p.cooldown(CoolDownRule::every(ms(30_000)))));
    lab.request.key = NonZeroU64::new(5);
    let mut calls = [lab.start(), lab.start()];
    let untils = calls.each_mut().map(|call| {
        let permit = call.admit(&lab.cx(), lab.now).unwrap();
        match call.settle(&lab.cx(), permit, &crate::support::fail(Class::Reset), lab.now, || 3) {
            redial_core::Verdict::Wait(until) => until,
            other => panic!("{other:?}"),
        }
    });
    assert!(calls[0].admit(&lab.cx(), untils[0]).is_ok());
    assert_eq!(calls[1].admit(&lab.cx(), untils[1]).unwrap_err(), Stop::CoolDown);
}

#[test]
fn destinations_have_separate_guards_within_a_bound() {
    let policy = Policy::standard();
    let make = || Guards::new(&policy, 1, 0);
    let mut scopes = Scopes::new(3, (60 * SECOND).into());
    let a = scopes.get("a", Time::ZERO, make);
    assert!(Arc::ptr_eq(&a, &scopes.get("a", at(NS), make)));
    let b = scopes.get("b", at(NS), make);
    assert!(!Arc::ptr_eq(&a, &b));
    drop(scopes.get("c", at(NS), make));
    let shared = scopes.get("d", at(2 * NS), make);
    assert!(
        Arc::ptr_eq(&shared, &scopes.get("e", at(2 * NS), make)),
        "newcomers share when it is full"
    );
    assert_eq!(scopes.len(), 3);

    let idle = at(120 * SECOND);
    let d = scopes.get("d", idle, make);
    assert!(!Arc::ptr_eq(&shared, &d), "c was idle and not held");
    assert!(Arc::ptr_eq(&a, &scopes.get("a", idle, make)), "a and b are held");
    assert_eq!(scopes.len(), 3);
}

#[test]
fn a_policy_knows_how_long_its_guards_remember() {
    let memory =
        |change: fn(redial_core::Draft) -> redial_core::Draft| policy(change).memory_span();
    assert_eq!(memory(|p| p), (20 * SECOND).into());
    assert_eq!(Policy::standard().memory(), Some(ms(3_600_000)), "the floor earns it in 90 s");
    let tokens = |budget| policy(|p| p.budget(Budget::Tokens(budget))).memory_span();
    let hourly = Rate::new(1, ms(3_600_000));
    assert_eq!(tokens(TokenBudget::earned().floor(hourly)), (3 * 3600 * SECOND).into());
    assert_eq!(tokens(TokenBudget::new(500, 5)), TimeLimit::NONE, "without a floor it stays empty");
    assert_eq!(
        memory(|p| p.rate(RateRule::new(Rate::new(1, ms(3_600_000)), 2))),
        (7200 * SECOND).into()
    );
    let long = |p: redial_core::Draft| {
        let rule = redial_core::admit::BreakerRule::default().open_for(ms(36_000_000), 0.5);
        p.breaker(rule)
    };
    assert!(memory(long) >= (15 * 3600 * SECOND).into());
    let usual = |p: redial_core::Draft| p.breaker(redial_core::admit::BreakerRule::default());
    assert_eq!(
        memory(usual),
        (3610 * SECOND).into(),
        "a window of calls has no end: an hour, and the open time"
    );
}

#[test]
fn one_bad_destination_does_not_drain_the_others() {
    let policy = policy(|p| p);
    let mut scopes = Scopes::new(10, SECOND.into());
    let mut get = |name| scopes.get(name, Time::ZERO, || Guards::new(&policy, 1, 0));
    let (bad, good) = (get("bad"), get("good"));
    while bad.withdraw_up_to(1, Class::Reset, at(SECOND)) == 1 {}
    assert_eq!((bad.balance(at(SECOND)), good.balance(at(SECOND))), (Some(0), Some(10)));
}

#[test]
fn the_bulk_form_takes_as_many_as_single_takes() {
    for (rate, burst) in [(10, 5), (1_000, 1), (0, 5)] {
        let rule = RateRule::new(Rate::per_second(rate), burst);
        let (bulk, single) = (RateLimit::new(&rule), RateLimit::new(&rule));
        for (now, n) in [(Span::ZERO, 3), (MS, 10), (250 * MS, 0), (250 * MS, 7), (9 * SECOND, 100)]
        {
            let now = at(now);
            let want = (0..n).filter(|_| single.take(now).is_ok()).count() as u64;
            assert_eq!(bulk.take_up_to(n, now), want, "{n} at {now:?} with {rule:?}");
        }
    }
}

#[test]
fn a_bucket_stored_elsewhere_gives_the_same() {
    let rule = RateRule::new(Rate::per_second(10), 5);
    let (here, mut full_at) = (RateLimit::new(&rule), Time::ZERO);
    for (now, n) in [(Span::ZERO, 3), (MS, 10), (250 * MS, 7), (9 * SECOND, 100)] {
        let now = at(now);
        let taken;
        (taken, full_at) = rule.take_up_to(n, full_at, now);
        assert_eq!(taken, here.take_up_to(n, now));
        let next = rule.next(full_at, now).unwrap();
        assert_eq!(rule.take_up_to(1, full_at, next).0, 1);
        if next > now {
            assert_eq!(rule.take_up_to(1, full_at, next - NS).0, 0, "{n} at {now:?}");
        }
    }
}
