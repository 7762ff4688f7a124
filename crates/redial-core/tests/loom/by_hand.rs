//! A breaker that is opened and reset by hand while calls end.

use loom::sync::Arc;
use redial_core::Time;
use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, BreakerState, Guards};
use redial_core::decide::{Class, Failure, Outcome};

use crate::{SECOND, after, at, attempt, both, open_breaker, policy};

#[test]
fn a_probe_does_not_close_what_was_opened_by_hand() {
    loom::model(|| {
        let (policy, guards) = open_breaker();
        let (one, two, probing) = (Arc::clone(&guards), Arc::clone(&guards), policy.clone());
        both(
            move || attempt(&probing, &one, Some(Outcome::Success), after(0)),
            move || two.open_breaker(),
        );
        assert_eq!(guards.breaker(), BreakerState::Open);
        assert!(!attempt(&policy, &guards, Some(Outcome::Success), at(1_000 * SECOND)));
    });
}

/// Two failures open it, and the reset forgets the first.
#[test]
fn a_failure_of_before_does_not_undo_a_reset() {
    loom::model(|| {
        let rule = BreakerRule::default().last_calls(2).minimum_calls(2);
        let policy = policy(|p| p.attempts(1).budget(Budget::None).breaker(rule));
        let guards = Arc::new(Guards::new(&policy, 1, 0));
        let bad = || Some(Failure::new(Class::Reset).into());
        attempt(&policy, &guards, bad(), Time::ZERO);
        let (one, two) = (Arc::clone(&guards), Arc::clone(&guards));
        both(
            move || attempt(&policy, &one, bad(), Time::ZERO),
            move || {
                two.open_breaker();
                two.reset_breaker()
            },
        );
        assert_eq!(guards.breaker(), BreakerState::Closed);
    });
}
