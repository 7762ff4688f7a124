//! Breakers that are opened and reset by hand, and what a balancer is told.

use redial_core::Stop;
use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, BreakerState};
use redial_core::decide::{Class, Outcome};

use crate::support::{Lab, SECOND, fail, ms, policy};

/// Opens when two of the last two calls failed, for 5 s, then one probe.
fn lab() -> Lab {
    let rule = BreakerRule::default().last_calls(2).minimum_calls(2).failure_ratio(1.0);
    let rule = rule.probes(1).open_for(ms(5_000), 0.0);
    Lab::new(policy(|p| {
        p.attempts(1).budget(Budget::None).without_deadline().breaker(rule).concurrency(2)
    }))
}

fn would_admit(lab: &Lab) -> bool {
    lab.guards.would_admit(|| lab.now)
}

#[test]
fn opened_by_hand_it_stays_open_until_it_is_reset() {
    let mut lab = lab();
    assert!(lab.guards.open_breaker());
    assert!(!lab.guards.open_breaker(), "it is open already");
    lab.now += 1_000_000_000 * SECOND;
    assert_eq!(lab.call(&[Outcome::Success]).end, Err(Stop::BreakerOpen), "30 years later");
    assert!(lab.guards.reset_breaker());
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
    assert_eq!(lab.call(&[Outcome::Success]).end, Ok(()));
}

#[test]
fn a_reset_closes_whatever_opened_it_and_forgets_the_calls_before() {
    let mut lab = lab();
    for half_open in [false, true] {
        lab.failing(Class::Reset);
        lab.failing(Class::Reset);
        assert_eq!(lab.guards.breaker(), BreakerState::Open);
        let mut probe = lab.start();
        let mut held = None;
        if half_open {
            lab.now += 5 * SECOND;
            held = Some(probe.admit(&lab.cx(), lab.now).unwrap());
        }
        assert!(lab.guards.reset_breaker());
        if let Some(held) = held {
            probe.settle(&lab.cx(), held, &fail(Class::Reset), lab.now, || 0);
        }
        lab.failing(Class::Reset);
        assert_eq!(lab.guards.breaker(), BreakerState::Closed, "one failure since the reset");
        lab.call(&[Outcome::Success]);
    }
}

#[test]
fn a_closed_breaker_is_not_reset() {
    let mut lab = lab();
    lab.failing(Class::Reset);
    assert!(!lab.guards.reset_breaker());
    lab.failing(Class::Reset);
    assert_eq!(lab.guards.breaker(), BreakerState::Open, "it has not forgotten the first failure");
}

#[test]
fn a_probe_does_not_close_a_breaker_that_was_opened_by_hand() {
    let mut lab = lab();
    lab.failing(Class::Reset);
    lab.failing(Class::Reset);
    lab.now += 5 * SECOND;
    let mut probe = lab.start();
    let held = probe.admit(&lab.cx(), lab.now).unwrap();
    assert!(lab.guards.open_breaker(), "half-open is not open");
    probe.settle(&lab.cx(), held, &Outcome::Success, lab.now, || 0);
    assert_eq!(lab.guards.breaker(), BreakerState::Open);
}

#[test]
fn a_balancer_learns_what_would_be_refused_and_takes_nothing() {
    let mut lab = lab();
    let admit = |lab: &Lab| lab.start().admit(&lab.cx(), lab.now);
    let _held = [admit(&lab).unwrap(), admit(&lab).unwrap()];
    assert!(!would_admit(&lab), "two are in flight");
    assert_eq!(admit(&lab).unwrap_err(), Stop::Concurrency);

    lab.guards = redial_core::admit::Guards::new(&lab.policy, 1, 7);
    assert!(would_admit(&lab));
    lab.failing(Class::Reset);
    lab.failing(Class::Reset);
    assert!(!would_admit(&lab), "open");
    lab.now += 5 * SECOND;
    for _ in 0..3 {
        assert!(would_admit(&lab), "there is a probe to spare, and asking does not take it");
    }
    assert_eq!(lab.guards.breaker(), BreakerState::Open, "nor half-opens it");
    let _probe = admit(&lab).unwrap();
    assert!(!would_admit(&lab), "the probe is taken");

    let bare = Lab::new(policy(|p| p));
    assert!(would_admit(&bare) && !bare.guards.open_breaker() && !bare.guards.reset_breaker());
}
