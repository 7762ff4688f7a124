//! What the page says about numbers on both sides of each line. The meters are their own registry's, in the server's time,
//! which only the test moves.

mod aged;

use std::future::poll_fn;
use std::io::BufReader;
use std::net::TcpStream;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redial::telemetry::{Meter, Registry};
use redial::{Inbound, Retry};
use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget};
use redial_core::admit::{BreakerRule, ParkRule};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Draft, Event, Observer as _};
use redial_queue::durable::DurableQueue;
use redial_web::{App, Live};
use serde_json::Value;

use self::aged::Aged;
use crate::page::{Clock, Page, until};

/// A server that shows the meters of a registry.
struct Scene {
    page: Page,
    clock: Clock,
    registry: Registry,
    stream: BufReader<TcpStream>,
}

impl Scene {
    fn new() -> Self {
        Self::with_queues(Vec::new())
    }

    /// Each of the queues has a meter with its name.
    fn with_queues(queues: Vec<DurableQueue>) -> Self {
        let registry = Registry::new();
        let live = Live::new(&registry);
        let (page, clock) = Page::with_clock(App { live: Some(live.clone()), ..App::default() });
        let mut stream = page.follow("/api/live", "");
        until(&mut stream, "retry: ");
        let named = queues.into_iter().map(|queue| (queue.name().to_owned(), queue)).collect();
        page.runtime.spawn(async move { live.run(named).await });
        // It has begun, and takes its first sample at the next moment.
        page.run(async {});
        clock.advance(Duration::from_millis(1));
        until(&mut stream, "data: ");
        Self { page, clock, registry, stream }
    }

    /// The state at the next sample, a second later.
    fn state(&mut self) -> Value {
        self.clock.advance(Duration::from_secs(1));
        let sample: Value = serde_json::from_str(&until(&mut self.stream, "data: ")).unwrap();
        sample["state"].clone()
    }

    /// The suggested action for an upstream at the next sample.
    fn action(&mut self, name: &str) -> Option<String> {
        let state = self.state();
        let mut all = state["upstreams"].as_array().unwrap().iter();
        let upstream =
            all.find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {state}"));
        upstream["action"].as_str().map(str::to_owned)
    }

    fn meter(&self, name: &str, traffic: Traffic) -> Meter {
        let (registry, new) = (self.registry.clone(), name.to_owned());
        self.page.run(async move { traffic.pass(&registry.meter(new)).await });
        self.registry.meter(name)
    }

    /// Traffic of callers with this budget, which lives as long as the result.
    fn with_budget(&self, name: &str, budget: InflightBudget, traffic: Traffic) -> Retry {
        let meter = self.meter(name, traffic);
        let policy = Draft::bare(3).budget(Budget::Inflight(budget)).build().unwrap();
        Retry::new(policy).meter(meter)
    }
}

/// Calls and their attempts.
#[derive(Clone, Copy, Default)]
struct Traffic {
    calls: u64,
    /// Calls for requests that are retries of a layer above.
    inherited: u64,
    /// Attempts of all calls.
    attempts: u64,
    /// The failures among the attempts.
    failed: Option<(Class, u64)>,
}

fn calls(calls: u64, attempts: u64) -> Traffic {
    Traffic { calls, attempts, ..Traffic::default() }
}

/// Calls of one attempt each.
fn failing(class: Class, failures: u64, attempts: u64) -> Traffic {
    Traffic { calls: attempts, attempts, failed: Some((class, failures)), inherited: 0 }
}

impl Traffic {
    async fn pass(self, meter: &Meter) {
        let (class, mut failures) = self.failed.unwrap_or((Class::Timeout, 0));
        let mut attempt = |number| {
            meter.event(&Event::Attempt { number, hedge: false });
            let outcome = match failures {
                0 => Outcome::Success,
                _ => Outcome::Failure(Failure::new(class)),
            };
            failures = failures.saturating_sub(1);
            meter.event(&Event::AttemptEnded { number, taken: Duration::ZERO, outcome });
        };
        // All retries are those of the last call.
        let retries = self.attempts - self.calls - self.inherited;
        let from_above = Inbound::default().with_attempt(2);
        from_above.scope(async { (0..self.inherited).for_each(|_| attempt(1)) }).await;
        (0..self.calls).for_each(|_| attempt(1));
        (0..retries).for_each(|number| attempt(2 + number as u32));
    }
}

/// A budget that is not dry.
fn some() -> InflightBudget {
    InflightBudget::new(0.1, 1)
}

#[test]
fn a_storm_is_named_by_the_share_of_its_retries() {
    let mut scene = Scene::new();
    let cases = [
        (149, None),
        (150, Some("A third or more of the traffic is retries: lower the budget's ratio.")),
        (199, Some("A third or more of the traffic is retries: lower the budget's ratio.")),
        (200, Some("Half or more of the traffic is retries: lower the budget's ratio.")),
        (399, Some("Half or more of the traffic is retries: lower the budget's ratio.")),
        (400, Some("Three quarters or more of the traffic is retries: lower the budget's ratio.")),
    ];
    for (attempts, action) in cases {
        let name = format!("{attempts} for 100");
        let kept = scene.with_budget(&name, some(), calls(100, attempts));
        assert_eq!(scene.action(&name).as_deref(), action, "{name}");
        drop(kept);
    }
    // A few attempts are no storm.
    for (attempts, action) in [(19, None), (20, Some("no budget"))] {
        let name = format!("{attempts} without a budget");
        scene.meter(&name, calls(5, attempts));
        let said = scene.action(&name);
        assert_eq!(said.is_some(), action.is_some(), "{name}: {said:?}");
        assert!(said.is_none_or(|said| said.contains("have no budget")), "{name}");
    }
}

#[test]
fn retries_of_the_layer_above_are_named_if_they_are_most() {
    let mut scene = Scene::new();
    let kept = [(10, 30, false), (11, 31, true)].map(|(inherited, attempts, is_above)| {
        let name = format!("{inherited} inherited");
        let traffic = Traffic { inherited, ..calls(10, attempts) };
        let kept = scene.with_budget(&name, some(), traffic);
        let said = scene.action(&name).unwrap();
        assert_eq!(said.contains("come from the layer above"), is_above, "{name}: {said}");
        kept
    });
    drop(kept);
}

#[test]
fn a_dry_budget_is_named_if_something_fails() {
    let mut scene = Scene::new();
    for (left, failures, is_dry) in [(0, 1, true), (0, 0, false), (1, 1, false)] {
        let name = format!("{failures} failures, {left} left");
        let traffic = failing(Class::ServerError, failures, 100);
        let kept = scene.with_budget(&name, InflightBudget::new(0.1, left), traffic);
        let said = scene.action(&name);
        assert_eq!(said.is_some_and(|said| said.contains("is dry")), is_dry, "{name}");
        drop(kept);
    }
}

#[test]
fn parked_calls_are_counted() {
    let mut scene = Scene::new();
    let budget = Budget::Tokens(TokenBudget::new(200, 20).opening(20));
    let policy = Draft::bare(2)
        .deadline(Duration::from_secs(10))
        .budget(budget)
        .park(ParkRule::default())
        .build()
        .unwrap();
    let retry = Retry::new(policy).idempotent().meter(scene.meter("held", calls(0, 0)));
    let failing = retry.clone();
    scene.page.run(async move {
        let reset = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let mut call =
            Box::pin(async move { failing.run(|_| async { Err::<(), _>(reset()) }).await });
        poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
        // Without another poll it stays parked.
        std::mem::forget(call);
    });
    let said = scene.action("held").unwrap();
    assert!(said.starts_with("1 call is parked"), "{said}");
}

#[test]
fn an_open_breaker_is_named() {
    let mut scene = Scene::new();
    let rule = BreakerRule::default().last_calls(4).minimum_calls(3).failure_ratio(0.5);
    let policy = Draft::bare(1).breaker(rule).build().unwrap();
    for (failures, is_open) in [(2, false), (3, true)] {
        let name = format!("{failures} failures");
        let retry = Retry::new(policy.clone()).meter(scene.meter(&name, calls(0, 0)));
        let calling = retry.clone();
        scene.page.run(async move {
            for _ in 0..failures {
                let refused = std::io::ErrorKind::ConnectionReset;
                let failed = calling.run(|_| async { Err::<(), _>(std::io::Error::from(refused)) });
                failed.await.unwrap_err();
            }
        });
        let said = scene.action(&name);
        assert_eq!(said.is_some_and(|said| said.contains("breaker is open")), is_open, "{name}");
    }
}

#[test]
fn frequent_failures_are_named_for_a_minute() {
    let mut scene = Scene::new();
    let cases = [
        // One in twenty, and not more.
        (Class::Throttled, 3, 60, None),
        (Class::Throttled, 3, 59, Some("The upstream limits you")),
        (Class::Timeout, 3, 60, None),
        (Class::Timeout, 3, 59, Some("Attempts time out")),
        // Two are no pattern.
        (Class::Timeout, 2, 10, None),
        (Class::Timeout, 3, 10, Some("Attempts time out")),
        (Class::ServerError, 10, 10, None),
    ];
    for (class, failures, attempts, action) in cases {
        let name = format!("{failures} {class:?} of {attempts}");
        scene.meter(&name, failing(class, failures, attempts));
        let said = scene.action(&name);
        assert_eq!(said.is_some(), action.is_some(), "{name}: {said:?}");
        assert!(said.unwrap_or_default().starts_with(action.unwrap_or_default()), "{name}");
    }
    let name = "once";
    scene.meter(name, failing(Class::Timeout, 3, 10));
    for sample in 1..=62 {
        assert_eq!(scene.action(name).is_some(), sample <= 60, "{sample}");
    }
}

#[test]
fn jobs_that_wait_for_a_minute_are_named() {
    let folder = Aged::folder();
    let queue = |ms: u64| {
        let store = Aged::new(&folder, Duration::from_millis(ms));
        DurableQueue::new(Arc::new(store), &format!("due for {ms} ms")).unwrap()
    };
    let mut scene = Scene::with_queues(vec![queue(0), queue(59_999), queue(60_000)]);
    for (ms, is_named) in [(0, false), (59_999, false), (60_000, true)] {
        let name = format!("due for {ms} ms");
        scene.meter(&name, calls(1, 1));
        let said = scene.action(&name);
        assert_eq!(said.is_some_and(|said| said.starts_with("Jobs wait")), is_named, "{name}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The workers of a queue have a budget for each destination, which its meter does not know.
#[test]
fn a_queue_is_not_said_to_have_no_budget() {
    let folder = Aged::folder();
    let queue = DurableQueue::new(Arc::new(Aged::new(&folder, Duration::ZERO)), "mail").unwrap();
    let mut scene = Scene::with_queues(vec![queue]);
    scene.meter("mail", calls(10, 40));
    scene.meter("api", calls(10, 40));
    let state = scene.state();
    let of = |name: &str| {
        let mut all = state["upstreams"].as_array().unwrap().iter();
        all.find(|it| it["name"] == name).unwrap()
    };
    assert_eq!((&of("mail")["is_queue"], &of("api")["is_queue"]), (&true.into(), &false.into()));
    assert_eq!(of("mail")["oldest_due_ms"], 0);
    let action = |name: &str| of(name)["action"].as_str().unwrap();
    assert_eq!(
        action("mail"),
        "Three quarters or more of the attempts are retries: repair the destination that fails, or pause the queue."
    );
    assert!(action("api").contains("have no budget"), "{}", action("api"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_verdict_without_traffic_is_idle() {
    let mut scene = Scene::new();
    let verdict = |scene: &mut Scene| scene.state()["verdict"]["text"].as_str().unwrap().to_owned();
    assert_eq!(verdict(&mut scene), "No traffic yet");
    scene.meter("api", calls(100, 103));
    assert_eq!(verdict(&mut scene), "Calm · api 1.03×");
    // The detector looks back on a minute, in steps of two seconds.
    for _ in 0..58 {
        assert!(verdict(&mut scene).starts_with("Calm · api 1."));
    }
    scene.clock.advance(Duration::from_secs(2));
    until(&mut scene.stream, "data: ");
    assert_eq!(verdict(&mut scene), "Idle · no requests lately");
    scene.meter("api", calls(1, 1));
    assert_eq!(verdict(&mut scene), "Calm · api 1.00×");
}
