use redial::admit::budget::{Budget as Currency, InflightBudget, WindowBudget};
use redial::tower::SharedBudget;
use redial::{Policy, Rate, Retry};
use tower::retry::budget::Budget;

fn retry(currency: Currency) -> Retry {
    Retry::new(Policy::draft().budget(currency).build().unwrap())
}

#[test]
fn towers_budget_is_exact_when_it_is_ours() {
    let window = WindowBudget::ratio(0.4).floor(Rate::ZERO).ttl(std::time::Duration::from_secs(60));
    let retry = retry(Currency::Window(window));
    let budget = SharedBudget::of(&retry).unwrap();
    let granted = (0..10_000).filter(|_| {
        budget.deposit();
        budget.withdraw()
    });
    assert_eq!(granted.count(), 4_000);
    assert_eq!(retry.balance(), Some(0), "it is the same ledger");
}

#[test]
fn tower_decides_when_to_deposit() {
    let window = WindowBudget::ratio(1.0).floor(Rate::ZERO).deposit_on_success();
    let budget = SharedBudget::of(&retry(Currency::Window(window))).unwrap();
    assert!(!budget.withdraw());
    budget.deposit();
    assert!(budget.withdraw());
}

#[test]
fn a_currency_that_tower_cannot_feed_is_refused() {
    let inflight = Currency::Inflight(InflightBudget::default());
    assert!(SharedBudget::of(&retry(inflight)).is_none());
}
