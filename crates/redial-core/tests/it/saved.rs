//! Budgets that processes hand over to each other.

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::admit::budget::{
    Budget, InflightBudget, Saved, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::decide::{Class, Outcome};
use redial_core::{Call, Policy, Rate, Span, Time, Verdict};

use crate::support::{Lab, MS, SECOND, at, fail, ms, policy, spans};

#[derive(Clone, Debug)]
enum Step {
    Pass(Span),
    Deposit(u64),
    /// A call that fails and, if the budget allows it, waits.
    Fail,
    /// The oldest waiting call sends its retry, which succeeds or not.
    Retry(bool),
    /// The newest waiting call gives up.
    Cancel,
    /// The next process takes over.
    HandOver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pass = prop_oneof![3 => spans(Span::ZERO..200 * MS), 1 => spans(Span::ZERO..30 * SECOND)];
    let step = prop_oneof![
        pass.prop_map(Step::Pass),
        (1..50_u64).prop_map(Step::Deposit),
        Just(Step::Fail),
        any::<bool>().prop_map(Step::Retry),
        Just(Step::Cancel),
        Just(Step::HandOver),
    ];
    proptest::collection::vec(step, 1..200)
}

fn budgets() -> impl Strategy<Value = Budget> {
    let window = (0..=1_000_u32, 0..5_u32, 0..4_u32, any::<bool>()).prop_map(
        |(thousandths, floor, bootstrap, on_success)| {
            let ratio = f64::from(thousandths.max(u32::from(floor == 0))) / 1_000.0;
            let floor = Rate::per_second(floor);
            let budget = WindowBudget::ratio(ratio).floor(floor).bootstrap(bootstrap);
            Budget::Window(if on_success { budget.deposit_on_success() } else { budget })
        },
    );
    prop_oneof![
        4 => window,
        1 => (1..50_u32).prop_map(|capacity| Budget::Tokens(TokenBudget::new(capacity, 1))),
        2 => (2..50_u32, 0..3_u32, 1..20_000_u64).prop_map(|(capacity, n, floor)| {
            let budget = TokenBudget::new(capacity, 1).timeout_cost(2).opening(n).bootstrap(n);
            Budget::Tokens(budget.bonus(n.min(capacity)).floor(Rate::new(1, ms(floor))))
        }),
        1 => (2..50_u32).prop_map(|capacity| {
            Budget::Throttling(ThrottlingBudget::new(capacity, 0.5))
        }),
        1 => (0..4_u32).prop_map(|floor| Budget::Inflight(InflightBudget::new(0.3, floor))),
    ]
}

/// A process with its waiting calls. The test compares one that runs for ever with one that hands over again and again.
struct World {
    lab: Lab,
    waiting: Vec<Call>,
}

impl World {
    fn new(budget: Budget) -> Self {
        let lab = Lab::new(policy(|p| p.attempts(1_000).without_deadline().budget(budget)));
        Self { lab, waiting: Vec::new() }
    }

    /// The answer of the guards.
    fn step(&mut self, step: &Step) -> u64 {
        let now = self.lab.now;
        match step {
            Step::Pass(span) => self.lab.now += *span,
            Step::Deposit(n) => self.lab.guards.deposit(0, *n, now),
            Step::Fail => {
                let call = self.lab.start();
                return self.send(call, false);
            }
            Step::Retry(succeeds) if !self.waiting.is_empty() => {
                let call = self.waiting.remove(0);
                return self.send(call, *succeeds);
            }
            Step::Cancel => {
                if let Some(mut call) = self.waiting.pop() {
                    call.cancel(&self.lab.cx(), now);
                }
            }
            Step::Retry(_) | Step::HandOver => {}
        }
        0
    }

    fn send(&mut self, mut call: Call, succeeds: bool) -> u64 {
        let now = self.lab.now;
        let Ok(permit) = call.admit(&self.lab.cx(), now) else { return 1 };
        let outcome = if succeeds { Outcome::Success } else { fail(Class::Timeout) };
        match call.settle(&self.lab.cx(), permit, &outcome, now, || 1) {
            Verdict::Wait(_) => self.waiting.push(call),
            Verdict::Done => return 2,
            _ => return 3,
        }
        4
    }

    fn hand_over(&mut self) -> bool {
        let words = self.lab.guards.save().words();
        self.lab.guards = Guards::new(&self.lab.policy, 1, 7);
        self.lab.guards.restore(&Saved::from_words(&words))
    }
}

proptest! {
    #[test]
    fn a_restored_budget_continues_exactly(steps in steps(), budget in budgets()) {
        let (mut stays, mut changes) = (World::new(budget), World::new(budget));
        for step in steps {
            prop_assert_eq!(stays.step(&step), changes.step(&step), "{:?}", step);
            if matches!(step, Step::HandOver) {
                prop_assert!(changes.hand_over());
            }
            let now = stays.lab.now;
            prop_assert_eq!(stays.lab.guards.balance(now), changes.lab.guards.balance(now));
            prop_assert_eq!(stays.lab.guards.save(), changes.lab.guards.save());
        }
    }
}

#[test]
fn a_state_of_another_kind_or_length_is_refused() {
    let guards = |budget| Guards::new(&policy(|p| p.budget(budget)), 1, 0);
    let mut window = guards(Budget::Window(WindowBudget::default()));
    window.deposit(0, 100, Time::ZERO);
    let before = window.save();
    for other in [
        guards(Budget::None),
        guards(Budget::Tokens(TokenBudget::default())),
        guards(Budget::Window(WindowBudget::default().ttl(ms(5_000)))),
    ] {
        assert!(!window.restore(&other.save()));
        assert_eq!(window.save(), before);
    }
    let mut tokens = Guards::new(&Policy::standard(), 1, 0);
    assert!(!tokens.restore(&before), "nor does a bucket continue a window");
    let mut other_numbers = guards(Budget::Window(WindowBudget::ratio(0.5)));
    assert!(other_numbers.restore(&before));
    assert_eq!(other_numbers.balance(Time::ZERO), Some(60), "the same calls, under the new ratio");
}

#[test]
fn a_bucket_continues_with_what_the_last_process_left() {
    let guards = || Guards::new(&Policy::standard(), 1, 0);
    let charge = |guards: &Guards, now| guards.withdraw_up_to(1, Class::Reset, now);
    let (first, mut next) = (guards(), guards());
    assert_eq!(
        (first.balance(Time::ZERO), charge(&first, Time::ZERO), charge(&first, Time::ZERO)),
        (Some(3), 1, 1)
    );
    assert!(next.restore(&first.save()));
    assert_eq!(next.balance(Time::ZERO), Some(1), "the rest of the bootstrap");
    assert_eq!((charge(&next, at(SECOND)), charge(&next, at(SECOND))), (1, 0));
    let mut last = guards();
    assert!(last.restore(&next.save()));
    let floor = [0, 30, 31, 61].map(|seconds| charge(&last, at(seconds * SECOND)));
    assert_eq!(floor, [0, 0, 1, 1], "30 s after the refusal of another process");

    let mut words = guards().save().words();
    assert_eq!((words[1], words[2]), (20, 40));
    (words[1], words[2]) = (u64::MAX, u64::MAX);
    assert!(last.restore(&Saved::from_words(&words)));
    assert_eq!(last.balance(Time::ZERO), Some(10 + 2), "no more than a bucket can hold");
    let level_only = [2, 100].into_iter().chain(std::iter::repeat(0));
    let level_only = Vec::from_iter(level_only.take(Saved::WORDS)).try_into().unwrap();
    assert!(last.restore(&Saved::from_words(&level_only)));
    assert_eq!(last.balance(Time::ZERO), Some(5), "of a version without a bootstrap");
}

/// As gRPC does when a service config replaces another: 3 of 4 tokens are 7.5 of 10.
#[test]
fn throttling_of_another_size_is_as_full_as_before() {
    let guards = |capacity, ratio| {
        let budget = Budget::Throttling(ThrottlingBudget::new(capacity, ratio));
        Lab::new(policy(|p| p.budget(budget)))
    };
    let before = guards(4, 1.0);
    let mut call = before.start();
    let permit = call.admit(&before.cx(), Time::ZERO).unwrap();
    call.settle(&before.cx(), permit, &fail(Class::Reset), Time::ZERO, || 1);
    let saved = before.guards.save();
    assert_eq!(saved.words()[1..3], [3_000, 4_000], "one of four tokens is gone");

    let mut after = guards(10, 3.0);
    assert!(after.guards.restore(&saved));
    assert_eq!(after.guards.save().words()[1..3], [7_500, 10_000]);
    let mut words = saved.words();
    words[2] = 0;
    assert!(after.guards.restore(&Saved::from_words(&words)), "of a version without the size");
    assert_eq!(after.guards.save().words()[1], 3_000);
}

#[test]
fn deposits_of_all_threads_are_saved() {
    let policy = policy(|p| p);
    let (many, mut one) = (Guards::new(&policy, 8, 0), Guards::new(&policy, 2, 0));
    (0..80).for_each(|stripe| many.deposit(stripe, 1, Time::ZERO));
    one.deposit(1, 1_000, Time::ZERO);
    assert!(one.restore(&many.save()));
    assert_eq!(one.balance(Time::ZERO), Some(18));
}
