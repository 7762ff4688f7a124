use redial::RetryBudget;
use redial::admit::budget::WindowBudget;
use redial::{Policy, Rate, Retry};
use tower::retry::budget::Budget;

#[test]
fn towers_budget_is_exact_when_it_is_ours() {
    let window = WindowBudget::ratio(0.4).floor(Rate::ZERO).ttl(std::time::Duration::from_secs(60));
    let budget = RetryBudget::new(window).unwrap();
    let retry = Retry::new(Policy::standard()).budget(&budget);
    let granted = (0..10_000).filter(|_| {
        Budget::deposit(&budget);
        budget.withdraw()
    });
    assert_eq!(granted.count(), 4_000);
    assert_eq!(retry.balance(), Some(0), "it is the same ledger");
}

#[test]
fn tower_decides_when_to_deposit() {
    let window = WindowBudget::ratio(1.0).floor(Rate::ZERO).deposit_on_success();
    let budget = RetryBudget::new(window).unwrap();
    assert!(!budget.withdraw());
    Budget::deposit(&budget);
    assert!(budget.withdraw());
}
