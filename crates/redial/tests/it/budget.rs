//! A budget that `Retry`s and other code share.

use std::io::{Error, ErrorKind};
use std::thread;

use redial::admit::BreakerRule;
use redial::admit::budget::{Budget, TokenBudget, WindowBudget};
use redial::{Policy, Rate, Retry, RetryBudget, Stop, testing};

use crate::support::ms;

fn budget(ratio: f64) -> RetryBudget {
    RetryBudget::new(WindowBudget::ratio(ratio).floor(Rate::ZERO).ttl(ms(60_000))).unwrap()
}

fn retry(budget: &RetryBudget) -> Retry {
    Retry::new(Policy::draft().attempts(2).build().unwrap()).budget(budget)
}

fn down() -> Result<(), Error> {
    Err(ErrorKind::ConnectionRefused.into())
}

/// The retries of one failed call.
fn retries(retry: &Retry) -> u32 {
    retry.run_blocking(|_| down()).unwrap_err().attempts() - 1
}

#[test]
fn two_retries_and_a_hand_written_loop_share_one_budget() {
    let _fast = testing::skip_waits(9);
    let budget = budget(0.4);
    let (one, other) = (retry(&budget), retry(&budget).idempotent());
    let by_hand = || {
        budget.deposit();
        u32::from(down().is_err() && budget.try_withdraw())
    };
    let mut granted = [0; 3];
    for _ in 0..100 {
        granted[0] += retries(&one);
        granted[1] += by_hand();
        granted[2] += retries(&other);
    }
    assert_eq!(granted.iter().sum::<u32>(), 120, "{granted:?}");
    assert!(granted.iter().all(|share| *share > 0), "{granted:?}");
    assert_eq!([one.balance(), other.balance()], [Some(budget.balance()); 2]);
    assert_eq!(one.run_blocking(|_| down()).unwrap_err().reason(), Stop::Budget);
}

#[test]
fn threads_do_not_overdraw_it() {
    let budget = budget(0.25);
    let granted: u64 = thread::scope(|scope| {
        let work = || {
            let retry = retry(&budget);
            let by_hand = (0..1_000).filter(|_| {
                budget.deposit();
                budget.try_withdraw()
            });
            let by_hand = by_hand.count() as u64;
            let _fast = testing::skip_waits(9);
            by_hand + (0..1_000).map(|_| u64::from(retries(&retry))).sum::<u64>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(granted + budget.balance(), 2_000, "a quarter of 8,000 calls");
}

#[test]
fn destinations_share_it_and_keep_their_own_breakers() {
    let _fast = testing::skip_waits(9);
    let budget = budget(1.0);
    let breaker = BreakerRule::default().last_calls(2).open_for(ms(60_000), 0.0);
    let policy = Policy::draft().attempts(2).breaker(breaker).build().unwrap();
    let before = Retry::new(policy.clone()).scope("bad").budget(&budget);
    let after = Retry::new(policy).budget(&budget).scope("good");
    assert_eq!(retries(&before), 1);
    assert_eq!(before.run_blocking(|_| down()).unwrap_err().reason(), Stop::BreakerOpen);
    budget.deposit();
    assert_eq!([before.balance(), after.balance()], [Some(1); 2]);
    assert_eq!(after.run_blocking(|_| Ok::<_, Error>(7)).unwrap(), 7);
    assert_eq!(budget.balance(), 2);
}

#[test]
fn it_replaces_the_budget_of_the_policy() {
    let policy = Policy::draft().budget(Budget::Tokens(TokenBudget::default())).build().unwrap();
    let budget = budget(0.5);
    assert_eq!(Retry::new(policy.clone()).balance(), Some(100));
    assert_eq!(Retry::new(policy).budget(&budget).balance(), Some(0));
    let said = RetryBudget::new(WindowBudget::ratio(1.5)).unwrap_err().to_string();
    assert!(said.starts_with("budget.window.ratio is 1.5, but must be"), "{said}");
}

#[test]
fn switching_off_reaches_clones_with_another_budget() {
    let _fast = testing::skip_waits(9);
    let original = Retry::new(Policy::standard());
    let other = original.clone().budget(&budget(1.0));
    original.set_enabled(false);
    assert_eq!(other.run_blocking(|_| down()).unwrap_err().reason(), Stop::SwitchedOff);
}
