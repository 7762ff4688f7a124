//! An instance, and the answers of a ledger.

use std::num::NonZeroU64;
use std::task::Waker;

use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::Class;
use redial_core::fleet::{FleetTerms, Grant, Instance, Role, Seat};
use redial_core::{Call, Deadline, Span, Time, Verdict};

use crate::support::{Lab, NS, SECOND, at, fail, policy};

const START: Time = at(Span::from_secs(100));
const TERMS: FleetTerms =
    FleetTerms { ratio: 100_000, floor: 10_000_000, ttl: Span::from_secs(10) };

fn member() -> (Guards, Instance) {
    let policy = policy(|p| p.budget(Budget::Window(WindowBudget::ratio(0.1))));
    let guards = Guards::leased(&policy, 1, 0, Waker::noop().clone()).unwrap();
    (guards, Instance::new(Role::Member, TERMS, START))
}

/// The whole floor for one member.
fn answer() -> Grant {
    let one = NonZeroU64::new(1);
    let seat = Seat { epoch: one, generation: one, share: 1_000_000_000, ..Seat::default() };
    Grant { seat, members: 1, granted: 0, valid: SECOND, balance: 0, terms: TERMS }
}

/// The floor is ten a second, and only earnings of the last quarter of the ttl are deposited.
#[test]
fn a_paused_process_deposits_only_recent_earnings() {
    let (guards, mut instance) = member();
    let lease = guards.lease().unwrap();
    let ask = instance.ask(lease, START);
    instance.answered(lease, &ask, &answer(), START, START);
    guards.deposit(0, 1_000, START);
    let deposit = instance.ask(lease, START + 60 * SECOND).deposit;
    assert!((15_000_000..=30_000_000).contains(&deposit), "{deposit}");
}

/// A lost billionth would cost a whole retry.
#[test]
fn fractions_add_up_to_a_whole_token() {
    for looked in [0, 1, 7, 600_000_001, 1_234_567_891] {
        let (guards, mut instance) = member();
        let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(WindowBudget::ratio(0.1)))));
        lab.guards = guards;
        lab.guards.deposit(0, 9, START);
        let mut call = Call::new(&lab.policy, START, Deadline::NONE);
        let permit = call.admit(&lab.cx(), START).unwrap();
        let verdict = call.settle(&lab.cx(), permit, &fail(Class::Refused), START, || 7);
        assert!(matches!(verdict, Verdict::Wait(_)));
        let (lease, now) = (lab.guards.lease().unwrap(), START + looked * NS);
        instance.failed(lease, now);
        assert_eq!(lease.held(now), 1, "after {looked} ns");
    }
}

#[test]
fn invalid_answers_do_no_harm() {
    let (guards, mut instance) = member();
    let lease = guards.lease().unwrap();
    let ask = instance.ask(lease, START);
    let terms = FleetTerms { ratio: 1_000_000, floor: i64::MAX as u64, ttl: 60 * SECOND };
    let absurd = Grant { members: i64::MAX as u64, granted: 1_000, terms, ..answer() };
    let changes = instance.answered(lease, &ask, &absurd, START, START);
    assert_eq!(changes.stricter, None, "no other instance is stricter");
    assert_eq!(lease.held(START), 0, "nothing was asked for");
    assert!(instance.next(lease, START) <= START + 2 * SECOND);
    let deposit = instance.ask(lease, START + SECOND).deposit;
    assert!(deposit <= 10_000_000, "the floor is our own: {deposit}");
}
