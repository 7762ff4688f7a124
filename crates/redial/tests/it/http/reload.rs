//! A reload replaces layers and keeps the guards of policies that did not change.

use redial::admit::BreakerRule;
use redial::admit::budget::{Budget, WindowBudget};
use redial::http::RetryLayer;
use redial::{Draft, Policy, Rate, Retry, Stop};
use tower::ServiceExt as _;

use super::script::{Server, attempts, client, get, status};
use crate::support::{ms, plain};

/// Two retries in a minute, and a breaker.
fn policy(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let floor = Rate::new(2, ms(60_000));
    let budget = WindowBudget::ratio(0.001).floor(floor).ttl(ms(60_000));
    let rule = BreakerRule::default().last_calls(50).open_for(ms(60_000), 0.0);
    plain(|p| change(p.budget(Budget::Window(budget)).breaker(rule).without_stall()))
}

/// The `Retry` of a policy that was read again: the one before, unless the policy is another.
fn reload(before: &Retry, policy: Policy) -> Retry {
    if *before.policy() == policy { before.clone() } else { Retry::new(policy) }
}

#[tokio::test(start_paused = true)]
async fn a_layer_around_the_same_retry_continues_with_its_guards() {
    let server = Server::new(&[status(503)]);
    let before = Retry::new(policy(|p| p));
    let first = RetryLayer::new(before.clone()).per_host();
    let whole = before.balance();
    while attempts(&client(&server, &RetryLayer::new(before.clone())).oneshot(get()).await.unwrap())
        .is_some_and(|it| it.stopped() != Some(Stop::Budget))
    {}
    client(&server, &first).oneshot(get()).await.unwrap();
    let per_host = before.clone().scope("api.example:0").balance();
    assert_eq!((before.balance(), per_host < whole), (Some(0), true));

    let same = reload(&before, policy(|p| p));
    let layer = RetryLayer::new(same.clone()).buffer(1).per_host();
    assert_eq!(same.balance(), Some(0), "the budget was not refilled");
    assert_eq!(same.clone().scope("api.example:0").balance(), per_host);
    let asked = server.asked();
    let response = client(&server, &RetryLayer::new(same.clone()).buffer(1)).oneshot(get()).await;
    assert_eq!(attempts(&response.unwrap()).unwrap().stopped(), Some(Stop::Budget));
    assert_eq!(server.asked(), asked + 1);
    drop(layer);

    same.open_breaker();
    let again = reload(&same, policy(|p| p));
    let error = client(&server, &RetryLayer::new(again)).oneshot(get()).await.unwrap_err();
    assert_eq!((error.reason(), error.status().as_u16()), (Stop::BreakerOpen, 503));

    let other = reload(&same, policy(|p| p.attempts(2)));
    assert_eq!(other.balance(), whole, "another policy has guards of its own");
    assert!(client(&server, &RetryLayer::new(other)).oneshot(get()).await.is_ok());
}
