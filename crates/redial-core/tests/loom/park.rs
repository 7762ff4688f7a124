//! Parking against cancellation and release: no place is lost or given twice, and no wake is missed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, ParkRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Call, Context, Deadline, Policy, Request, Turn};

use crate::{after, both, policy};

/// Counts wakes. It is not part of the model: a model that waited for it could not tell a missed wake from a late one.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Every interleaving with at most two switches between threads at any step: guards that park measure so much that all of them
/// would take hours.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

#[derive(Clone)]
struct Site(Policy, Arc<Guards>);

impl Site {
    fn new(most: u32) -> Self {
        let budget = Budget::Tokens(TokenBudget::new(1_000, 2));
        let policy = policy(|p| p.budget(budget).park(ParkRule::default().most(most)));
        let guards = Arc::new(Guards::new(&policy, 1, 0));
        Self(policy, guards)
    }

    fn cx(&self) -> Context<'_> {
        let (safety, park) = (Safety::Idempotent, u32::MAX);
        let request = Request { safety, park, ..Request::default() };
        Context { policy: &self.0, guards: &self.1, observer: None, request }
    }

    /// A call whose first attempt has failed.
    fn fail(&self) -> Call {
        let mut call = Call::new(&self.0, after(0), Deadline::NONE);
        let permit = call.admit(&self.cx(), after(0)).unwrap();
        let reset = Failure::new(Class::Reset).into();
        call.settle(&self.cx(), permit, &reset, after(1), || 0);
        call
    }

    fn succeed(&self) {
        let mut call = Call::new(&self.0, after(10), Deadline::NONE);
        let permit = call.admit(&self.cx(), after(10)).unwrap();
        call.settle(&self.cx(), permit, &Outcome::Success, after(20), || 0);
    }
}

#[test]
fn no_more_calls_park_than_the_rule_allows() {
    model(|| {
        let (site, other) = (Site::new(1), Site::new(1));
        let other = Site(other.0, Arc::clone(&site.1));
        let here = site.clone();
        let (one, two) = both(move || here.fail().is_parked(), move || other.fail().is_parked());
        assert_eq!(u32::from(one) + u32::from(two), site.1.parked());
        assert_eq!(site.1.parked(), 1);
    });
}

#[test]
fn a_cancelled_call_leaves_and_the_next_is_woken_or_released() {
    model(|| {
        let site = Site::new(9);
        let (mut first, mut second) = (site.fail(), site.fail());
        assert!(matches!(first.unpark(&site.cx(), Waker::noop(), after(2)), Turn::Wait(_)));
        let (a, b) = (site.clone(), site.clone());
        let count = std::sync::Arc::new(Count::default());
        let waker = Waker::from(std::sync::Arc::clone(&count));
        let cancel = move || {
            first.cancel(&a.cx(), after(3));
            None
        };
        let ask = move || {
            let turn = second.unpark(&b.cx(), &waker, after(3));
            Some((second, turn))
        };
        let (_, asked) = both(cancel, ask);
        let (mut second, turn) = asked.unwrap();
        assert_eq!(site.1.parked(), 1);
        // It is the first now: it was woken, or it had seen so itself, and has a timer of its own.
        let has_timer = matches!(turn, Turn::Wait(until) if until < second.deadline());
        assert!(has_timer || count.0.load(Ordering::SeqCst) > 0, "{turn:?}");
        second.cancel(&site.cx(), after(4));
        assert_eq!(site.1.parked(), 0);
    });
}

#[test]
fn a_success_releases_the_first_in_line_or_wakes_it() {
    model(|| {
        let site = Site::new(9);
        let mut call = site.fail();
        let (a, b) = (site.clone(), site.clone());
        let count = std::sync::Arc::new(Count::default());
        let waker = Waker::from(std::sync::Arc::clone(&count));
        let succeed = move || {
            a.succeed();
            None
        };
        let ask = move || {
            let turn = call.unpark(&b.cx(), &waker, after(21));
            Some((call, turn))
        };
        let (_, asked) = both(succeed, ask);
        let (mut call, turn) = asked.unwrap();
        if turn != Turn::Go {
            assert!(count.0.load(Ordering::SeqCst) > 0, "{turn:?}: a missed wake");
            let again = call.unpark(&site.cx(), Waker::noop(), after(22));
            assert_eq!(again, Turn::Go);
        }
        assert_eq!(site.1.parked(), 0);
        call.cancel(&site.cx(), after(23));
    });
}
