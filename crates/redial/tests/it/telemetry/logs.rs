use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial::admit::BreakerState::{Closed, HalfOpen, Open};
use redial::admit::{BreakerRule, RateRule};
use redial::decide::Class;
use redial::schedule::{Backoff, Jitter};
use redial::telemetry::{Logs, Meter};
use redial::{Event, Observer as _, Policy, Rate, Retry};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep_until};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry};

use crate::support::{Fault, Log, RESET, Script, ms, plain, unbounded};

/// The lines logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Line>>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    level: String,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl Line {
    pub(crate) fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("-", |value| value)
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.get(field).parse().unwrap()
    }
}

impl<S: tracing::Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "redial" {
            let level = event.metadata().level().to_string();
            let mut line = Line { level, ..Line::default() };
            event.record(&mut line);
            self.0.lock().unwrap().push(line);
        }
    }
}

impl Journal {
    pub(crate) fn start() -> (Self, DefaultGuard) {
        let journal = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(journal.clone()));
        (journal, guard)
    }

    pub(crate) fn take(&self) -> Vec<Line> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn transitions(&self) -> Vec<String> {
        self.take().iter().map(|line| line.get("transition").to_owned()).collect()
    }
}

async fn fail(retry: &Retry) {
    retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
}

async fn succeed(retry: &Retry) {
    retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_transition_of_a_key_is_logged_once() {
    let (journal, _guard) = Journal::start();
    let logs = Logs::new("inventory").every(Duration::from_secs(1));
    let policy = unbounded(|p| p.without_deadline());
    let retry = Retry::new(policy).idempotent().observe(logs).cooldown_key("cart");
    succeed(&retry).await;
    assert_eq!(journal.transitions(), [""; 0], "nothing has changed");

    // Waits of 100, 200 and 400 ms; the second growth comes within the interval of the first.
    fail(&retry).await;
    let lines = journal.take();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let expected = [("first-failure", "INFO", "1", "-"), ("backoff-growing", "INFO", "3", "200")];
    for (line, (transition, level, attempt, delay)) in lines.iter().zip(expected) {
        assert_eq!((line.get("transition"), &*line.level), (transition, level));
        assert_eq!((line.get("attempt"), line.get("delay_ms")), (attempt, delay));
        assert_eq!((line.get("upstream"), line.get("class")), ("inventory", "reset"));
        assert_eq!((line.get("key").len(), line.number("suppressed")), (16, 0));
    }
    let key = lines[0].get("key").to_owned();

    advance(Duration::from_secs(2)).await;
    fail(&retry).await;
    let lines = journal.take();
    assert_eq!(lines.len(), 1, "waits as long as before are not logged: {lines:#?}");
    assert_eq!((lines[0].get("transition"), &*lines[0].level), ("repeated-failure", "WARN"));
    assert_eq!((lines[0].get("stop"), lines[0].number("failures")), ("attempts", 2));
    assert_eq!((lines[0].get("attempt"), lines[0].get("key")), ("4", &*key));

    for _ in 0..3 {
        retry.run(|_| async { Err::<(), _>(Fault(Class::Permanent, "no")) }).await.unwrap_err();
    }
    assert_eq!(journal.transitions(), [""; 0], "one in an interval");
    succeed(&retry).await;
    succeed(&retry).await;
    let lines = journal.take();
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].get("transition"), lines[0].number("failures")), ("recovered", 11));

    advance(Duration::from_secs(2)).await;
    retry.run(|_| async { Err::<(), _>(Fault(Class::Permanent, "no")) }).await.unwrap_err();
    retry.run(|_| async { Err::<(), _>(Fault(Class::Permanent, "no")) }).await.unwrap_err();
    let lines = journal.take();
    let told: Vec<_> =
        lines.iter().map(|l| (l.get("transition"), l.number("suppressed"))).collect();
    assert_eq!(told, [("first-failure", 0), ("repeated-failure", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_helps_is_a_failure_and_a_recovery() {
    let (journal, _guard) = Journal::start();
    let retry = Retry::new(unbounded(|p| p)).idempotent().observe(Logs::new("inventory"));
    let script = Script::new(&[Err(Fault(Class::Overloaded, "busy")), Ok(())]);
    retry.run(|_| async { script.next() }).await.unwrap();
    let lines = journal.take();
    let told: Vec<_> =
        lines.iter().map(|l| (l.get("transition"), l.get("class"), l.get("key"))).collect();
    assert_eq!(told, [("first-failure", "overloaded", "-"), ("recovered", "-", "-")]);
    // A dropped call has not failed.
    let never = retry.run(|_| std::future::pending::<Result<(), Fault>>());
    tokio::time::timeout(ms(1), never).await.unwrap_err();
    assert_eq!(journal.transitions(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn budget_and_breaker_are_logged_per_upstream() {
    let (journal, _guard) = Journal::start();
    let policy = plain(|p| p.breaker(BreakerRule::default()));
    // Lines about keys do not count against the limit of the upstream.
    let logs = Logs::new("inventory").at_most(RateRule::new(Rate::per_second(1), 3));
    let retry = Retry::new(policy).idempotent().observe(logs);
    for key in 0..200 {
        let keyed = retry.clone().cooldown_key(key);
        keyed.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    }
    let lines = journal.take();
    let of = |transition: &str| -> Vec<&Line> {
        lines.iter().filter(|line| line.get("transition") == transition).collect()
    };
    assert_eq!(of("budget-dry")[0].level, "WARN");
    assert_eq!(of("budget-dry")[0].get("upstream"), "inventory");
    let opened = of("breaker-moved");
    assert_eq!((opened[0].get("state"), &*opened[0].level), ("open", "WARN"));
    assert_eq!(opened.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_state_of_a_flapping_breaker_is_logged() {
    let (journal, _guard) = Journal::start();
    let logs = Logs::new("inventory");
    let states = || {
        let lines = journal.take();
        let moved = lines.iter().filter(|line| line.get("transition") == "breaker-moved");
        moved.map(|l| (l.get("state").to_owned(), l.number("suppressed"))).collect::<Vec<_>>()
    };
    let told = |state: &str, suppressed| (state.to_owned(), suppressed);
    for to in [Open, HalfOpen, Open, HalfOpen, Closed] {
        logs.event(&Event::BreakerMoved { to });
        advance(ms(1_000)).await;
    }
    assert_eq!(states(), [told("open", 0), told("half-open", 0), told("closed", 0)]);
    logs.event(&Event::BreakerMoved { to: Open });
    logs.event(&Event::Succeeded { attempts: 1 });
    assert_eq!(states(), []);
    advance(ms(10_000)).await;
    logs.event(&Event::Succeeded { attempts: 1 });
    logs.event(&Event::Succeeded { attempts: 1 });
    assert_eq!(states(), [told("open", 1)], "late, and once");
    advance(ms(10_000)).await;
    logs.event(&Event::BreakerMoved { to: HalfOpen });
    assert_eq!(states(), [told("half-open", 1)]);
}

/// Makes failing calls over a minute, a thousand at once, for the given keys.
async fn a_minute_of_failures(retry: &Retry, about: impl Fn(u64) -> u64) {
    let start = Instant::now();
    for batch in 0..100 {
        sleep_until(start + ms(600 * batch)).await;
        let mut calls = JoinSet::new();
        for call in 0..1_000 {
            let retry = retry.clone().cooldown_key(about(1_000 * batch + call));
            calls.spawn(async move { fail(&retry).await });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    }
}

fn flat() -> Policy {
    let backoff = Backoff::exponential(ms(1), ms(1)).jitter(Jitter::None);
    plain(|p| p.attempts(2).backoff(backoff))
}

fn counted(lines: &[Line]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.get("transition")).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_failing_calls_of_one_key_are_thirteen_lines() {
    let (journal, _guard) = Journal::start();
    let retry = Retry::new(flat()).idempotent().observe(Logs::new("inventory"));
    a_minute_of_failures(&retry, |_| 7).await;
    let lines = journal.take();
    let expected = [("budget-dry", 6), ("first-failure", 1), ("repeated-failure", 6)];
    assert_eq!(counted(&lines), BTreeMap::from(expected));
    let repeated = lines.iter().filter(|line| line.get("transition") == "repeated-failure");
    let (last, told) = repeated.fold((0, 0), |(_, told), line| {
        (line.number("failures"), told + 1 + line.number("suppressed"))
    });
    // The first call that gives up is not repeated; every other one is logged or counted.
    assert_eq!(told + 1, last);
    assert!(last > 80_000);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_failing_keys_are_some_dozens_of_lines() {
    let (journal, _guard) = Journal::start();
    let retry = Retry::new(flat()).idempotent().observe(Logs::new("inventory"));
    a_minute_of_failures(&retry, |call| call).await;
    let lines = journal.take();
    // A burst of 20, and one every 3 s.
    let expected = [("budget-dry", 6), ("first-failure", 39)];
    assert_eq!(counted(&lines), BTreeMap::from(expected));
    let first = |line: &&Line| line.get("transition") == "first-failure";
    let told: u64 = lines.iter().filter(first).map(|line| line.number("suppressed") + 1).sum();
    let others: u64 = lines.iter().map(|line| line.number("others_suppressed")).sum();
    // All but the lines of keys that are still in the table, and of the last seconds.
    assert!((90_000..100_000).contains(&(told + others)), "{told} {others}");
}

#[tokio::test(start_paused = true)]
async fn a_storm_level_is_one_line_and_all_observers_are_notified() {
    let (journal, _guard) = Journal::start();
    let (logs, own) = (Arc::new(Logs::new("stormy")), Log::default());
    let meter = Meter::over("logs-stormy", Duration::from_secs(10));
    let told = Arc::clone(&logs);
    meter.on_change(move |changed| told.storm(changed));
    let policy = unbounded(|p| p.attempts(4));
    let retry = Retry::new(policy).idempotent().meter(meter.clone()).observe((logs, own.clone()));
    for _ in 0..20 {
        fail(&retry).await;
    }
    meter.reading();
    let storms = |lines: Vec<Line>| -> Vec<(String, String, Option<f64>)> {
        let lines = lines.into_iter().filter(|line| line.get("transition") == "storm-level");
        let read = |line: Line| {
            let multiplier = line.get("multiplier").parse().ok();
            (line.get("level").to_owned(), line.level, multiplier)
        };
        lines.map(read).collect()
    };
    let seen = storms(journal.take());
    assert!(seen.iter().all(|(_, level, _)| level == "WARN"), "it only rose: {seen:?}");
    let (level, _, multiplier) = seen.last().unwrap();
    assert!(level == "critical" && *multiplier >= Some(4.0), "{seen:?}");
    advance(Duration::from_secs(60)).await;
    meter.reading();
    let seen = storms(journal.take());
    assert_eq!((&*seen.last().unwrap().0, &*seen.last().unwrap().1), ("calm", "INFO"), "{seen:?}");
    assert!(own.take().len() > 20 * 4);
}
