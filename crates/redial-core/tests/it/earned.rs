//! The budget that retries earn.

use std::thread;

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::decide::{Class, Outcome, Safety};
use redial_core::schedule::Backoff;
use redial_core::{
    Call, Context, Deadline, Permit, Policy, Rate, Request, Span, Stop, Time, Verdict, draw,
};

use crate::support::{Lab, MS, NS, SECOND, at, fail, ms, policy, spans};

/// The standard budget without its floor.
fn earned() -> TokenBudget {
    TokenBudget { floor: None, ..TokenBudget::earned() }
}

fn policy_of(budget: TokenBudget) -> Policy {
    policy(|p| p.budget(Budget::Tokens(budget)).attempts(4))
}

fn lab(budget: TokenBudget) -> Lab {
    Lab::new(policy_of(budget))
}

/// What is in the bucket, to the token.
fn tokens(guards: &Guards) -> u64 {
    guards.save().words()[1]
}

/// What is in the bucket and left of the bootstrap.
fn held(guards: &Guards) -> u64 {
    let words = guards.save().words();
    words[1] + words[2]
}

/// For each of four calls that fail once and whose retry fails for good: whether there was a retry.
fn retried(lab: &mut Lab, class: Class) -> [bool; 4] {
    [(); 4].map(|()| lab.call(&[fail(class), fail(Class::Permanent)]).attempts == 2)
}

#[test]
fn a_new_process_has_three_retries_but_none_after_a_timeout() {
    for class in [Class::Reset, Class::Throttled, Class::Overloaded] {
        assert_eq!(retried(&mut lab(earned()), class), [true, true, true, false], "{class:?}");
    }
    assert_eq!(retried(&mut lab(earned()), Class::Timeout), [false; 4]);
    let dear = earned().opening(40).bootstrap(40);
    assert_eq!(retried(&mut lab(dear), Class::Timeout), [true, false, false, false]);
    assert_eq!(lab(earned()).balance(), 3);
}

#[test]
fn the_first_success_ends_the_bootstrap() {
    let after = |outcomes: &[Outcome], budget| {
        let mut lab = lab(budget);
        lab.call(outcomes);
        retried(&mut lab, Class::Reset)
    };
    let one = [true, false, false, false];
    assert_eq!(after(&[Outcome::Success], earned()), one);
    assert_eq!(after(&[fail(Class::Reset), Outcome::Success], earned()), one);
    let full = TokenBudget::new(20, 20).bootstrap(60);
    assert_eq!(after(&[Outcome::Success], full), one, "also one that finds a full bucket");
    let polls = [Outcome::NotYet(None), fail(Class::Permanent)];
    assert_eq!(after(&polls, earned()), [true, true, true, false], "not yet is not a success");
}

#[test]
fn five_first_calls_that_each_fail_once_all_succeed() {
    let mut lab = lab(earned());
    for _ in 0..5 {
        assert_eq!(lab.call(&[fail(Class::Reset), Outcome::Success]).end, Ok(()));
    }
}

#[test]
fn every_token_is_accounted_for() {
    let mut lab = lab(earned());
    let (won, lost) = (Outcome::Success, fail(Class::Permanent));
    let (reset, timeout, poll) = (fail(Class::Reset), fail(Class::Timeout), Outcome::NotYet(None));
    for (outcomes, left) in [
        ([won].as_slice(), 21),
        (&[reset, won], 21 - 20 + 30),
        (&[timeout, won], 31),
        (&[fail(Class::Throttled), won], 31 - 20 + 30),
        (&[timeout, won], 41 - 40 + 50),
        (&[reset, lost], 31),
        (&[reset, poll, won], 31 - 20 + 20 + 1),
        (&[reset, poll, lost], 32),
        (&[lost], 32),
        (&[poll, won], 33),
        (&[reset, reset, won], 33 - 20),
    ] {
        lab.call(outcomes);
        assert_eq!(tokens(&lab.guards), left, "{outcomes:?}");
    }
    (0..1_000).for_each(|_| drop(lab.call(&[won])));
    assert_eq!(tokens(&lab.guards), 200);
    lab.call(&[reset, won]);
    assert_eq!(tokens(&lab.guards), 200, "the bonus does not fit into a full bucket");
    lab.request.safety = Safety::Unsafe;
    lab.call(&[reset]);
    assert_eq!(tokens(&lab.guards), 200, "a failure that is unsafe to repeat costs nothing");
}

#[test]
fn a_total_outage_gets_ten_retries_whatever_the_traffic() {
    let mut lab = lab(earned());
    (0..1_000).for_each(|_| drop(lab.call(&[Outcome::Success])));
    let attempts: u32 = (0..1_000).map(|_| lab.failing(Class::Reset).attempts).sum();
    assert_eq!(attempts, 1_000 + 10);
}

#[test]
fn an_empty_bucket_allows_a_retry_per_floor_counted_from_the_first_refusal() {
    let empty = TokenBudget::earned().opening(0).bootstrap(0);
    let guards = Guards::new(&policy_of(empty), 1, 0);
    for (seconds, granted) in
        [(1_000, 0), (1_029, 0), (1_030, 1), (1_030, 0), (1_059, 0), (1_060, 1), (9_000, 1)]
    {
        let got = guards.withdraw_up_to(9, Class::Timeout, at(seconds * SECOND));
        assert_eq!(got, granted, "at {seconds} s");
    }
    let quick = TokenBudget { floor: Some(Rate::new(3, ms(1_000))), ..empty };
    let guards = Guards::new(&policy_of(quick), 1, 0);
    let granted: u64 =
        (0..=1_000).map(|n| guards.withdraw_up_to(1, Class::Reset, at(SECOND + n * MS))).sum();
    assert_eq!(granted, 2, "a third of a second is rounded up");
}

#[test]
fn a_retry_that_the_floor_paid_earns_one_further_retry_and_the_bonus() {
    for class in [Class::Reset, Class::Timeout] {
        let mut lab = lab(TokenBudget::earned().opening(0).bootstrap(0));
        assert_eq!(lab.call(&[fail(class)]).end, Err(Stop::Budget));
        lab.now += 30 * SECOND;
        assert_eq!(lab.call(&[fail(class), Outcome::Success]).end, Ok(()));
        assert_eq!(tokens(&lab.guards), 30, "{class:?}");
    }
}

#[test]
fn what_ends_after_its_call_earns_nothing() {
    let race = |winner: usize| {
        let lab = lab(earned());
        let mut call = lab.start();
        let first = call.admit(&lab.cx(), lab.now).unwrap();
        let hedge = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
        assert_eq!(tokens(&lab.guards), 0);
        let mut permits = [first, hedge];
        permits.rotate_left(winner);
        let verdicts =
            permits.map(|permit| call.settle(&lab.cx(), permit, &Outcome::Success, lab.now, || 0));
        assert_eq!(verdicts, [Verdict::Done, Verdict::Stop(Stop::Cancelled)]);
        tokens(&lab.guards)
    };
    assert_eq!(race(0), 1, "the call succeeded without its hedge, which is paid");
    assert_eq!(race(1), 30);
}

#[test]
fn a_charge_comes_back_once() {
    let lab = lab(earned());
    let mut call = lab.start();
    let first = call.admit(&lab.cx(), lab.now).unwrap();
    let verdict = call.settle(&lab.cx(), first, &fail(Class::Reset), lab.now, || 1);
    let Verdict::Wait(until) = verdict else { panic!("{verdict:?}") };
    let retry = call.admit(&lab.cx(), until).unwrap();
    assert_eq!(tokens(&lab.guards), 0);
    call.cancel(&lab.cx(), until);
    assert_eq!(tokens(&lab.guards), 0, "it was sent");
    call.settle(&lab.cx(), retry, &Outcome::Success, until, || 1);
    call.cancel(&lab.cx(), until);
    assert_eq!(tokens(&lab.guards), 0, "and ended too late");
}

/// What the bound is made of, as an observer of calls counts it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// What retries cost that did not succeed, those in flight included.
    failed: u64,
    successes: u64,
    won: u64,
}

impl Tally {
    /// Tokens of failed retries ≤ opening + bootstrap + successes + bonus·won + cost·floor·time.
    fn is_within(&self, budget: &TokenBudget, time: Span) -> bool {
        let opening = budget.opening.unwrap_or(budget.capacity) + budget.bootstrap;
        let floor = budget.floor.map_or(0, |floor| time / floor.interval().unwrap());
        let earned = self.successes + u64::from(budget.bonus) * self.won;
        self.failed <= u64::from(opening) + earned + u64::from(budget.cost) * floor
    }
}

/// The price of a retry after `class`, or less: the floor pays `cost`.
fn least_price(budget: &TokenBudget, class: Class) -> u64 {
    u64::from(match class {
        Class::Timeout => budget.timeout_cost.min(budget.cost),
        Class::Throttled => budget.throttled_cost.min(budget.cost),
        _ => budget.cost,
    })
}

/// A call, its attempts in flight with what they cost, and what the next one costs.
struct Active {
    call: Call,
    in_flight: Vec<(Permit, u64)>,
    next: u64,
}

/// Calls that interleave. Every choice is a draw.
struct World<'a> {
    cx: Context<'a>,
    budget: TokenBudget,
    /// Whether no other thread uses the bucket, so that it shows what a retry costs.
    alone: bool,
    active: Vec<Active>,
    tally: Tally,
}

impl World<'_> {
    fn step(&mut self, bits: u64, now: Time) {
        let pick = (bits >> 32) as usize;
        match bits % 8 {
            0 if self.active.len() < 8 => {
                let call = Call::new(self.cx.policy, now, Deadline::NONE);
                self.active.push(Active { call, in_flight: Vec::new(), next: 0 });
                self.send(self.active.len() - 1, now);
            }
            _ if self.active.is_empty() => {}
            1 => self.hedge(pick % self.active.len(), now),
            2 if bits & 0x300 == 0 => {
                let mut it = self.active.swap_remove(pick % self.active.len());
                it.call.cancel(&self.cx, now);
                for (permit, _) in it.in_flight {
                    it.call.abandon(&self.cx, permit, now);
                }
            }
            _ => self.go_on(pick % self.active.len(), bits >> 8, now),
        }
    }

    fn send(&mut self, at: usize, now: Time) {
        let it = &mut self.active[at];
        if let Ok(permit) = it.call.admit(&self.cx, now) {
            self.tally.failed += it.next;
            it.in_flight.push((permit, it.next));
        }
    }

    fn hedge(&mut self, at: usize, now: Time) {
        let (it, cost) = (&mut self.active[at], u64::from(self.budget.cost));
        if let Ok(permit) = it.call.hedge(&self.cx, now, now) {
            self.tally.failed += cost;
            it.in_flight.push((permit, cost));
        }
    }

    /// Ends an attempt of a call, or sends the one that it waits for.
    fn go_on(&mut self, at: usize, bits: u64, now: Time) {
        let it = &mut self.active[at];
        let Some((permit, cost)) = it.in_flight.pop() else {
            self.send(at, now);
            if self.active[at].in_flight.is_empty() {
                self.active.swap_remove(at);
            }
            return;
        };
        let classes = [Class::Timeout, Class::Throttled, Class::Reset];
        let outcome = match bits % 8 {
            0 | 1 => Outcome::Success,
            2 => Outcome::NotYet(None),
            kind => fail(classes[kind as usize % 3]),
        };
        let (over, before) = (it.call.is_over(), held(self.cx.guards));
        let verdict = it.call.settle(&self.cx, permit, &outcome, now, || bits);
        it.next = match outcome {
            Outcome::Failure(failure) if !self.alone => least_price(&self.budget, failure.class),
            Outcome::Failure(_) => match before - held(self.cx.guards) {
                0 => u64::from(self.budget.cost),
                paid => paid,
            },
            _ => 0,
        };
        match outcome {
            Outcome::Success if !over => {
                self.tally.failed -= cost;
                self.tally.won += u64::from(cost > 0);
                self.tally.successes += u64::from(cost == 0);
            }
            Outcome::NotYet(_) if !over => self.tally.failed -= cost,
            _ => {}
        }
        if it.in_flight.is_empty() && !matches!(verdict, Verdict::Wait(_)) {
            self.active.swap_remove(at);
        }
    }
}

/// A policy under which only the budget refuses.
fn endless(budget: TokenBudget) -> Policy {
    let backoff = Backoff::constant(ms(1));
    policy(|p| {
        p.attempts(1_000_000).without_deadline().backoff(backoff).budget(Budget::Tokens(budget))
    })
}

fn run<'a>(
    policy: &'a Policy,
    guards: &'a Guards,
    budget: TokenBudget,
    (alone, seed): (bool, u64),
    steps: impl Iterator<Item = Time>,
    mut check: impl FnMut(&Tally, Time),
) -> Tally {
    let request = Request { safety: Safety::Idempotent, ..Request::default() };
    let cx = Context { policy, guards, observer: None, request };
    let mut world = World { cx, budget, alone, active: Vec::new(), tally: Tally::default() };
    for (k, now) in (0..).zip(steps) {
        world.step(draw(seed, k), now);
        check(&world.tally, now);
    }
    world.tally
}

fn budgets() -> impl Strategy<Value = TokenBudget> {
    let costs = [1..=50_u32, 1..=50, 1..=50];
    let floor = proptest::option::of((1..5_u32, 1..40_000_u64));
    let start = (proptest::option::of(0..=50_u32), 0..100_u32, 0..=50_u32);
    (50..300_u32, costs, start, floor).prop_map(|(capacity, costs, start, floor)| TokenBudget {
        capacity,
        cost: costs[0],
        timeout_cost: costs[1],
        throttled_cost: costs[2],
        opening: start.0,
        bootstrap: start.1,
        bonus: start.2,
        slowdown: None,
        floor: floor.map(|(count, per)| Rate::new(count, ms(per))),
    })
}

proptest! {
    #[test]
    fn what_succeeded_bounds_the_retries_that_failed(
        budget in budgets(),
        seed in any::<u64>(),
        steps in 0..600_u64,
        longest in spans(NS..5_000 * MS),
    ) {
        let (policy, start) = (endless(budget), at(1_000 * SECOND));
        let guards = Guards::new(&policy, 1, 0);
        let mut now = start;
        let times = (0..steps).map(|k| { now += Span::from_nanos(draw(!seed, k)) % longest; now });
        let mut exceeded = None;
        run(&policy, &guards, budget, (true, seed), times, |tally, now| {
            if !tally.is_within(&budget, now - start) {
                exceeded = exceeded.or(Some((*tally, now - start)));
            }
        });
        prop_assert_eq!(exceeded.map(|it| format!("{it:?}")), None);
    }
}

#[test]
fn threads_keep_the_bound() {
    for (seed, step) in [(1, Span::ZERO), (2, 7 * MS), (3, 300 * MS)] {
        let (budget, steps) = (TokenBudget::earned(), 10_000);
        let budget = TokenBudget { slowdown: None, ..budget };
        let policy = endless(budget);
        let guards = Guards::new(&policy, 1, 0);
        let work = |thread: u64| {
            let times = (0..steps).map(|k| at(SECOND + k * step));
            run(&policy, &guards, budget, (false, draw(seed, thread)), times, |_, _| {})
        };
        let all: Vec<Tally> = thread::scope(|scope| {
            let work = &work;
            let all: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let sum = all.iter().fold(Tally::default(), |sum, it| Tally {
            failed: sum.failed + it.failed,
            successes: sum.successes + it.successes,
            won: sum.won + it.won,
        });
        assert!(sum.is_within(&budget, steps * step), "{sum:?}");
        assert!(sum.failed > 1_000 && sum.won > 10, "the bucket was used: {sum:?}");
    }
}
