use std::thread;

use redial_core::admit::Guards;
use redial_core::admit::budget::{
    Account, Budget, Deposit, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::decide::{Class, Outcome};
use redial_core::{Event, Rate, Span, Stop, Time, Verdict};

use crate::support::{Lab, MS, NS, SECOND, at, fail, ms, policy};

const YEAR: Span = Span::from_secs(365 * 24 * 3600);

fn window(budget: WindowBudget) -> Lab {
    Lab::new(policy(|p| p.budget(Budget::Window(budget)).attempts(2)))
}

fn only(ratio: f64) -> WindowBudget {
    WindowBudget::ratio(ratio).floor(Rate::ZERO)
}

/// Retries granted for `pairs` calls that each want one, at frozen time.
fn granted(guards: &Guards, stripe: usize, pairs: u32, now: Time) -> u64 {
    (0..pairs)
        .map(|_| {
            guards.deposit(stripe, 1, now);
            guards.withdraw_up_to(1, Class::Timeout, now)
        })
        .sum()
}

#[test]
fn a_window_issues_its_ratio_for_every_ratio() {
    for ten_thousandths in (1..=10_000_u32).step_by(97).chain([4_000, 6_000, 7_000, 9_000, 10_000])
    {
        let ratio = f64::from(ten_thousandths) / 10_000.0;
        for floor in [0, 1, 10] {
            let lab = window(WindowBudget::ratio(ratio).floor(Rate::per_second(floor)));
            let got = granted(&lab.guards, 0, 10_000, lab.now);
            let want = (u64::from(ten_thousandths) + u64::from(floor) * 10).min(10_000);
            assert!(got.abs_diff(want) <= 1, "ratio {ratio} floor {floor}: {got}, not {want}");
        }
    }
}

/// What a call earns leaves the window with it, so a rest that is too small for a retry is lost. A client with few calls gets
/// less than its share, and none gets more. The page on budgets and the readme have these figures.
#[test]
fn a_window_issues_less_than_its_ratio_to_small_clients() {
    for (calls_per_second, expected) in [(1, 9_091), (10, 9_375), (100, 9_938), (1_000, 9_994)] {
        let lab = window(only(0.1));
        let sent = |call| at(call * SECOND / calls_per_second);
        let retries: u64 = (0..100_000).map(|call| granted(&lab.guards, 0, 1, sent(call))).sum();
        assert_eq!(retries, expected, "{calls_per_second} calls a second, a ratio of 0.1");
    }
}

#[test]
fn a_third_is_a_third() {
    let lab = window(only(1.0 / 3.0));
    assert_eq!(granted(&lab.guards, 0, 9_000, lab.now), 2_999);
    assert_eq!(granted(&lab.guards, 0, 1, lab.now), 1);
}

#[test]
fn threads_do_not_overdraw() {
    for threads in [1_u32, 2, 8] {
        for ratio in [0.0001, 0.1, 0.25, 0.7, 1.0] {
            let policy = policy(|p| p.budget(Budget::Window(WindowBudget::ratio(ratio))));
            let guards = Guards::new(&policy, threads as usize, 0);
            let got: u64 = thread::scope(|scope| {
                let work = |stripe| granted(&guards, stripe, 10_000, at(SECOND));
                let all: Vec<_> =
                    (0..threads).map(|t| scope.spawn(move || work(t as usize))).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            // The last withdrawal may come before the last deposit.
            let want = (f64::from(threads) * 10_000.0 * ratio + 0.5) as u64 + 10;
            assert!(got <= want, "{threads} threads, ratio {ratio}: {got} of {want}");
            let rest = guards.balance(at(SECOND)).unwrap();
            assert!((got + rest).abs_diff(want) <= 1, "{got} and {rest} left of {want}");
        }
    }
}

#[test]
fn threads_that_move_time_on_do_not_overdraw() {
    let budget = only(0.5).ttl(ms(1_000));
    let guards = Guards::new(&policy(|p| p.budget(Budget::Window(budget))), 4, 0);
    let (calls, slices) = (2_000, 40);
    let got: u64 = thread::scope(|scope| {
        let work = |stripe: usize| -> u64 {
            let slice = |s: u64| granted(&guards, stripe, calls, at(SECOND + s * 70 * MS));
            (0..slices).map(slice).sum()
        };
        let all: Vec<_> = (0..4).map(|t| scope.spawn(move || work(t))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(got <= u64::from(calls) * slices * 4 / 2, "{got}");
}

#[test]
fn a_year_of_silence_changes_nothing() {
    let mut lab = window(WindowBudget::ratio(0.1).floor(Rate::per_second(10)));
    assert_eq!(granted(&lab.guards, 0, 1_000, lab.now), 200);
    lab.now += YEAR;
    assert_eq!(lab.balance(), 100, "the reserve, and nothing that was banked");
    assert_eq!(granted(&lab.guards, 0, 1_000, lab.now), 200);
}

#[test]
fn deposits_and_withdrawals_expire_with_the_window() {
    let mut lab = window(only(0.1));
    lab.guards.deposit(0, 100, lab.now);
    lab.now += 9 * SECOND;
    assert_eq!(lab.balance(), 10);
    assert_eq!(lab.guards.withdraw_up_to(4, Class::Timeout, lab.now), 4);
    lab.now += 2 * SECOND;
    assert_eq!(lab.balance(), 0, "the deposits are gone, what they bought still counts");
    lab.guards.deposit(0, 100, lab.now);
    assert_eq!(lab.balance(), 6);
    lab.now += 9 * SECOND;
    assert_eq!(lab.balance(), 10, "the withdrawals have expired too");
}

#[test]
fn a_window_is_never_shorter_than_its_ttl_and_longer_by_a_fifteenth() {
    let mut lab = window(only(1.0).ttl(ms(15_000)));
    lab.guards.deposit(0, 7, lab.now);
    lab.now += 16 * SECOND - NS;
    assert_eq!(lab.balance(), 7, "slices are a second here, and this one began with the deposit");
    lab.now += NS;
    assert_eq!(lab.balance(), 0);
}

#[test]
fn the_bulk_forms_are_the_single_forms() {
    let (mut one, bulk) = (window(only(0.37)), window(only(0.37)));
    for _ in 0..1_000 {
        one.guards.deposit(0, 1, one.now);
    }
    bulk.guards.deposit(0, 1_000, bulk.now);
    let singles: u64 =
        (0..500).map(|_| one.guards.withdraw_up_to(1, Class::Timeout, one.now)).sum();
    assert_eq!(singles, bulk.guards.withdraw_up_to(500, Class::Timeout, bulk.now));
    one.now += 60 * SECOND;
    assert_eq!(one.guards.withdraw_up_to(u64::MAX, Class::Timeout, one.now), 0);
    let boot = window(only(0.5).bootstrap(5));
    boot.guards.deposit(0, 4, boot.now);
    assert_eq!(boot.guards.withdraw_up_to(9, Class::Timeout, boot.now), 2 + 5);
    let inflight = Lab::new(policy(|p| p.budget(Budget::Inflight(InflightBudget::default()))));
    assert_eq!(inflight.guards.withdraw_up_to(9, Class::Timeout, inflight.now), 3);
    assert_eq!(inflight.balance(), 3, "asked, not charged");
}

#[test]
fn a_whole_token_is_needed() {
    let mut lab = window(only(0.3));
    let ends: Vec<_> = (0..10).map(|_| lab.failing(Class::Reset).attempts).collect();
    assert_eq!(ends, [1, 1, 1, 2, 1, 1, 2, 1, 1, 2], "0.3, 0.6, 0.9, 1.2 …");
}

#[test]
fn an_empty_budget_stops_the_call() {
    let mut lab = window(only(0.1));
    let trace = lab.failing(Class::Reset);
    assert_eq!((trace.end, trace.attempts, trace.elapsed), (Err(Stop::Budget), 1, Span::ZERO));
    assert!(lab.events.take().contains(&Event::BudgetDry));
}

#[test]
fn deposits_on_success_end_when_everything_fails() {
    let mut lab = window(only(0.5).deposit_on_success());
    for _ in 0..4 {
        lab.call(&[Outcome::Success]);
    }
    let retried = (0..100).filter(|_| lab.failing(Class::Reset).attempts == 2).count();
    assert_eq!(retried, 2);
}

#[test]
fn one_deposit_per_call_not_per_retry() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(only(1.0))).attempts(4)));
    let attempts: u32 = (0..1_000).map(|_| lab.failing(Class::Reset).attempts).sum();
    assert_eq!(attempts, 2_000);
}

#[test]
fn a_bootstrap_allowance_is_spent_once() {
    let mut lab = window(only(0.1).bootstrap(5));
    let retried =
        |lab: &mut Lab| (0..50).filter(|_| lab.failing(Class::Reset).attempts == 2).count();
    assert_eq!(retried(&mut lab), 10);
    lab.now += 3600 * SECOND;
    assert_eq!(retried(&mut lab), 5);
}

/// A call that waits for its retry, and the end of that wait.
fn waiting(lab: &Lab) -> (redial_core::Call, Time) {
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    match call.settle(&lab.cx(), permit, &fail(Class::Reset), lab.now, || 1) {
        Verdict::Wait(until) => (call, until),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_charge_that_is_not_sent_is_refunded() {
    for budget in [
        Budget::Window(WindowBudget::default()),
        Budget::Window(only(0.1).bootstrap(3)),
        Budget::Tokens(TokenBudget::default()),
    ] {
        let lab = Lab::new(policy(|p| p.budget(budget)));
        let before = lab.balance();
        let (mut call, _) = waiting(&lab);
        assert_eq!(lab.balance(), before - 1, "{budget:?}");
        call.cancel(&lab.cx(), lab.now + MS);
        assert_eq!(lab.balance(), before, "{budget:?}");
        call.cancel(&lab.cx(), lab.now + MS);
        assert_eq!(lab.balance(), before, "cancelled twice, refunded once");
    }
}

#[test]
fn a_refund_goes_to_its_own_slice_or_is_lost() {
    let mut lab = window(WindowBudget::ratio(0.1).floor(Rate::per_second(1)));
    let (mut early, _) = waiting(&lab);
    let (mut late, _) = waiting(&lab);
    assert_eq!(lab.balance(), 8);
    lab.now += 5 * SECOND;
    early.cancel(&lab.cx(), lab.now);
    assert_eq!(lab.balance(), 9, "refunded while its slice is in the window");
    lab.now += 7 * SECOND;
    assert_eq!(lab.balance(), 10, "the withdrawal has expired, and the refund with it");
    late.cancel(&lab.cx(), lab.now);
    assert_eq!(lab.balance(), 10, "an expired charge is not refunded");
}

#[test]
fn a_wait_longer_than_the_ttl_is_charged_again() {
    let mut lab = window(WindowBudget::ratio(0.1).floor(Rate::per_second(1)).ttl(ms(1_000)));
    let (mut call, _) = waiting(&lab);
    lab.now += 3 * SECOND;
    assert_eq!(lab.balance(), 1);
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(lab.balance(), 0);
    call.settle(&lab.cx(), permit, &Outcome::Success, lab.now, || 1);

    lab.now += 60 * SECOND;
    let (mut call, _) = waiting(&lab);
    lab.now += 3 * SECOND;
    lab.guards.withdraw_up_to(1, Class::Reset, lab.now);
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Budget);
}

#[test]
fn the_aws_bucket_charges_by_class_and_refunds_on_success() {
    let budget = Budget::Tokens(TokenBudget::new(500, 5).timeout_cost(10));
    let mut lab = Lab::new(policy(|p| p.budget(budget).attempts(3)));
    let retries = |class| {
        let mut lab = Lab::new(policy(|p| p.budget(budget).attempts(2)));
        (0..200).filter(|_| lab.failing(class).attempts == 2).count()
    };
    assert_eq!(retries(Class::Timeout), 50);
    assert_eq!(retries(Class::Reset), 100);
    lab.failing(Class::Reset);
    assert_eq!(lab.balance(), 98, "two retries at 5");
    lab.call(&[fail(Class::Timeout), Outcome::Success]);
    assert_eq!(lab.balance(), 98, "10 for the timeout were refunded with its success");
    for _ in 0..5 {
        lab.call(&[Outcome::Success]);
    }
    assert_eq!(lab.balance(), 99, "one token for each call that needed no retry");
    for _ in 0..100 {
        lab.call(&[Outcome::Success]);
    }
    assert_eq!(lab.balance(), 100, "and never more than the capacity");
}

#[test]
fn grpc_throttling_stops_at_half() {
    let budget = Budget::Throttling(ThrottlingBudget::new(10, 0.1));
    let mut lab = Lab::new(policy(|p| p.budget(budget).attempts(2)));
    let attempts: Vec<_> = (0..5).map(|_| lab.failing(Class::Overloaded).attempts).collect();
    assert_eq!(attempts, [2, 2, 1, 1, 1], "9, 8 · 7, 6 · 5: at half, no more");
    for _ in 0..30 {
        lab.call(&[Outcome::Success]);
    }
    assert_eq!(lab.failing(Class::Overloaded).attempts, 1, "3 + 3.0 - 1 is 5");
    for _ in 0..21 {
        lab.call(&[Outcome::Success]);
    }
    assert_eq!(lab.failing(Class::Overloaded).attempts, 2, "5 + 2.1 - 1 is above 5");
    assert_eq!(lab.failing(Class::Permanent).attempts, 1);
    assert_eq!(lab.balance(), 0);

    let mut lab = Lab::new(policy(|p| p.budget(budget)));
    lab.request.safety = redial_core::decide::Safety::Unsafe;
    for _ in 0..10 {
        lab.failing(Class::Overloaded);
    }
    assert_eq!(lab.balance(), 0, "a failure that was only not safe to repeat counts too");
}

#[test]
fn a_retry_that_is_answered_not_yet_gets_its_tokens_back() {
    let budget = Budget::Tokens(TokenBudget::new(100, 10));
    let mut lab = Lab::new(policy(|p| p.budget(budget)));
    lab.call(&[fail(Class::Reset), Outcome::NotYet(None), Outcome::Success]);
    assert_eq!(lab.balance(), 10);
}

#[test]
fn an_inflight_budget_counts_retries_in_flight_not_waiting_ones() {
    let budget = Budget::Inflight(InflightBudget::new(0.2, 1));
    let lab = Lab::new(policy(|p| p.budget(budget)));
    let mut calls: Vec<_> = (0..10).map(|_| waiting(&lab)).collect();
    assert_eq!(lab.balance(), 2, "ten calls in flight, none of their retries");
    let until = calls.iter().map(|(_, until)| *until).max().unwrap();
    let first = calls[0].0.admit(&lab.cx(), until).unwrap();
    let second = calls[1].0.admit(&lab.cx(), until).unwrap();
    assert_eq!(calls[2].0.admit(&lab.cx(), until).unwrap_err(), Stop::Budget);
    calls[0].0.settle(&lab.cx(), first, &Outcome::Success, until, || 1);
    let third = calls[3].0.admit(&lab.cx(), until);
    assert_eq!(third.unwrap_err(), Stop::Budget, "8 calls in flight allow 1, and 1 is in flight");
    calls[1].0.settle(&lab.cx(), second, &Outcome::Success, until, || 1);
    for (call, _) in &mut calls[4..] {
        call.cancel(&lab.cx(), until);
    }
    assert_eq!(lab.balance(), 1, "nothing is in flight: the floor");
}

#[test]
fn a_cancelled_attempt_is_no_longer_in_flight() {
    let budget = Budget::Inflight(InflightBudget::new(0.0, 1));
    let lab = Lab::new(policy(|p| p.budget(budget)));
    let (mut call, until) = waiting(&lab);
    let permit = call.admit(&lab.cx(), until).unwrap();
    assert_eq!(lab.balance(), 0);
    call.abandon(&lab.cx(), permit, until);
    call.cancel(&lab.cx(), until);
    assert_eq!(lab.balance(), 1);
}

#[test]
fn polling_costs_no_budget() {
    let mut lab = Lab::new(policy(|p| {
        p.attempts(1_000).without_deadline().budget(Budget::Window(only(0.1)))
    }));
    let mut outcomes = vec![Outcome::NotYet(None); 20];
    outcomes.push(Outcome::Success);
    let trace = lab.call(&outcomes);
    assert_eq!((trace.attempts, trace.end), (21, Ok(())));
}

#[test]
fn a_fleet_has_the_floors_of_all_its_processes() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::per_second(2)).bootstrap(3);
    let policy = policy(|p| p.budget(Budget::Window(budget)));
    let fleet = Guards::fleet(&policy, 7);
    assert_eq!(fleet.balance(Time::ZERO), Some(7 * (2 * 10 + 3)));
    fleet.deposit(0, 100, Time::ZERO);
    assert_eq!(fleet.balance(Time::ZERO), Some(7 * 23 + 10));
    assert_eq!((budget.lifetime(), budget.deposits()), (10 * SECOND, Deposit::Request));
}

#[test]
fn guards_and_code_without_guards_share_an_account() {
    let account = Account::new(&Budget::Window(only(0.25)), 1);
    let policies = [policy(|p| p.attempts(2)), policy(|p| p.attempts(2).concurrency(9))];
    let [mut one, mut other] = policies.map(|policy| {
        let mut lab = Lab::new(policy);
        lab.guards = Guards::sharing(&lab.policy, &account, 0);
        lab
    });
    one.call(&[Outcome::Success]);
    other.call(&[Outcome::Success]);
    account.deposit(0, 6, one.now);
    assert_eq!([one.balance(), other.balance(), account.balance(one.now).unwrap()], [2; 3]);
    assert_eq!(one.failing(Class::Reset).attempts, 2);
    assert_eq!(account.withdraw_up_to(9, Class::Reset, one.now), 1);
    assert_eq!(other.failing(Class::Reset).end, Err(Stop::Budget));
    let saved = one.guards.save();
    assert!(!one.guards.restore(&saved), "it is not for one of them to change");
}
