//! The part of a fleet's budget that one instance holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, TokenBudget, TokenLease, WindowBudget};
use redial_core::decide::Class;
use redial_core::{Call, Deadline, Event, Span, Stop, Time, Verdict};

use crate::support::{Lab, MS, SECOND, at, fail, ms, policy, spans};

#[derive(Default)]
struct WakeCount(AtomicU32);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn lab() -> (Lab, Arc<WakeCount>) {
    let budget = Budget::Window(WindowBudget::ratio(0.1));
    let mut lab = Lab::new(policy(|p| p.budget(budget).attempts(3).deadline(ms(60_000))));
    let wakes = Arc::new(WakeCount::default());
    let waker = Waker::from(Arc::clone(&wakes));
    lab.guards = Guards::leased(&lab.policy, 1, 0, waker).unwrap();
    lab.now = at(100 * SECOND);
    (lab, wakes)
}

fn lease(lab: &Lab) -> &TokenLease {
    lab.guards.lease().unwrap()
}

/// A call after its first, failed attempt.
fn failed(lab: &Lab) -> (Call, Verdict) {
    let mut call = Call::new(&lab.policy, lab.now, Deadline::NONE);
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    let verdict = call.settle(&lab.cx(), permit, &fail(Class::Refused), lab.now, || 7);
    (call, verdict)
}

#[test]
fn only_a_window_can_be_leased() {
    let tokens = policy(|p| p.budget(Budget::Tokens(TokenBudget::default())));
    assert!(Guards::leased(&tokens, 1, 0, Waker::noop().clone()).is_none());
}

#[test]
fn a_retry_without_a_token_wakes_the_owner_and_is_paid_when_sent() {
    let (lab, wakes) = lab();
    let (mut call, verdict) = failed(&lab);
    let Verdict::Wait(until) = verdict else { panic!("{verdict:?}") };
    assert_eq!((wakes.0.load(Ordering::Relaxed), lease(&lab).pending()), (1, 1));

    lease(&lab).add(1, until + SECOND, lab.now);
    assert_eq!(call.admit(&lab.cx(), until).unwrap().number, 2);
    assert_eq!((lease(&lab).pending(), lease(&lab).held(until), lease(&lab).taken()), (0, 0, 1));
}

#[test]
fn an_unpaid_retry_is_not_sent() {
    let (lab, _) = lab();
    let (mut call, verdict) = failed(&lab);
    let Verdict::Wait(until) = verdict else { panic!("{verdict:?}") };
    lab.events.take();
    assert_eq!(call.admit(&lab.cx(), until).unwrap_err(), Stop::Budget);
    assert!(lab.events.take().contains(&Event::BudgetDry));
    assert_eq!(lease(&lab).pending(), 0);
}

#[test]
fn retries_do_not_wait_for_an_empty_ledger() {
    let (mut lab, wakes) = lab();
    lease(&lab).set_dry((lab.now + SECOND).into());
    assert_eq!(failed(&lab).1, Verdict::Stop(Stop::Budget));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    lab.now += SECOND;
    assert!(matches!(failed(&lab).1, Verdict::Wait(_)));
}

/// Code without a call has no charge that waits, so a withdrawal that finds no token is what requests one.
#[test]
fn a_withdrawal_without_a_token_requests_one_for_the_next() {
    let (lab, wakes) = lab();
    let account = lab.guards.account();
    let withdraw = || account.withdraw_up_to(1, Class::Transient, lab.now);
    assert_eq!((withdraw(), lease(&lab).demand()), (0, 1));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    lease(&lab).add(1, lab.now + SECOND, lab.now);
    assert_eq!((withdraw(), lease(&lab).taken()), (1, 1));
}

#[test]
fn a_cancelled_call_does_not_wait_for_a_token() {
    let (lab, _) = lab();
    let (mut call, _) = failed(&lab);
    call.cancel(&lab.cx(), lab.now);
    assert_eq!(lease(&lab).pending(), 0);
}

#[test]
fn tokens_expire_with_their_lease_and_the_earliest_are_spent_first() {
    let (lab, _) = lab();
    let (lease, now) = (lease(&lab), lab.now);
    lease.add(2, now + 600 * MS, now);
    lease.add(3, now + 1_200 * MS, now);
    assert_eq!(lease.held(now), 5);
    assert_eq!(lab.guards.withdraw_up_to(1, Class::Refused, now), 1);
    assert_eq!(lease.held(now + 700 * MS), 3, "one of the first two was left, and ended");
    assert_eq!(lab.guards.withdraw_up_to(9, Class::Refused, now + 700 * MS), 3);
    lease.add(4, now + 1_900 * MS, now + 700 * MS);
    assert_eq!(lease.held(now + 2 * SECOND), 0);
}

/// Ticks are counted in 32 bits, which wrap within years.
#[test]
fn expired_leases_stay_expired_after_years() {
    let (lab, _) = lab();
    let (lease, now) = (lease(&lab), lab.now);
    lease.add(5, now + SECOND, now);
    let tick = 10 * SECOND / 256;
    for ticks in [1 << 10, 1 << 31, (1 << 31) + 100, 3 << 30, (1 << 32) - 100] {
        assert_eq!(lease.held(now + ticks * tick), 0, "{ticks} ticks later");
    }
}

#[test]
fn an_unsent_charge_returns_to_its_lease_until_it_expires() {
    let (lab, _) = lab();
    let now = lab.now;
    lease(&lab).add(1, now + SECOND, now);
    let (mut call, _) = failed(&lab);
    assert_eq!(lease(&lab).held(now), 0);
    call.cancel(&lab.cx(), now + MS);
    assert_eq!(lease(&lab).held(now + MS), 1);

    let (mut call, _) = failed(&lab);
    call.cancel(&lab.cx(), now + 2 * SECOND);
    lease(&lab).add(1, now + 3 * SECOND, now + 2 * SECOND);
    assert_eq!(lease(&lab).held(now + 2 * SECOND), 1, "nothing was refunded into another lease");
}

#[test]
fn a_charge_older_than_the_ttl_is_paid_again() {
    let (lab, _) = lab();
    let now = lab.now;
    lease(&lab).add(1, now + SECOND, now);
    let (mut call, _) = failed(&lab);
    assert_eq!(call.admit(&lab.cx(), now + 11 * SECOND).unwrap_err(), Stop::Budget);
}

#[test]
fn calls_are_counted_but_earn_nothing_locally() {
    let (lab, _) = lab();
    for stripe in 0..100 {
        lab.guards.deposit(stripe, 1, lab.now);
    }
    assert_eq!((lease(&lab).calls(), lease(&lab).held(lab.now)), (100, 0));
    let success = WindowBudget::ratio(0.1).deposit_on_success();
    let policy = policy(|p| p.budget(Budget::Window(success)));
    let guards = Guards::leased(&policy, 1, 0, Waker::noop().clone()).unwrap();
    assert!(!guards.pass(|| 0, Time::ZERO), "a success has to be told");
}

proptest! {
    /// Compared with a model that remembers every lease.
    #[test]
    fn never_more_than_was_leased(steps in proptest::collection::vec((spans(Span::ZERO..400 * MS), 0..6_u32, 0..8_u64), 1..200)) {
        let (lab, _) = lab();
        let slice = 625 * MS;
        let (mut now, mut leases) = (lab.now, Vec::<(Time, u64)>::new());
        for (pass, add, take) in steps {
            now += pass;
            let end = at(slice * (now.since_zero() / slice + 2));
            lease(&lab).add(add, end, now);
            leases.push((end, u64::from(add)));
            let living: u64 = leases.iter().filter(|(end, _)| *end > now).map(|(_, n)| n).sum();
            let held = lease(&lab).held(now);
            prop_assert!(held <= living);
            let got = lab.guards.withdraw_up_to(take, Class::Refused, now);
            prop_assert_eq!(got, take.min(held));
            let mut due = got;
            for (_, left) in leases.iter_mut().filter(|(end, _)| *end > now) {
                let paid = due.min(*left);
                (*left, due) = (*left - paid, due - paid);
            }
        }
    }
}
