//! That a call was parked, and for how long, in metrics, logs and spans.

use opentelemetry::KeyValue;
use redial::Retry;
use redial::telemetry::{Logs, Meter, Registry};
use tokio::time::advance;

use super::logs::Journal;
use super::scrape::scrape;
use super::spans::Recorder;
use crate::park::{dry, fails_once, parking, policy, settle, succeed};
use crate::support::{RESET, ms};

#[tokio::test]
async fn the_log_says_why_a_call_is_not_parked() {
    let (journal, _guard) = Journal::start();
    let policy = policy(|p| p.budget(dry()));
    let retry = Retry::new(policy).idempotent().observe(Logs::new("api"));
    retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    let lines = journal.take();
    let line = lines.iter().find(|line| line.get("transition") == "not-parked").unwrap();
    assert_eq!(line.get("reason"), "alone");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_is_counted_logged_and_traced() {
    let ((journal, _guard), recorder, registry) =
        (Journal::start(), Recorder::new(), Registry::new());
    let meter: Meter = registry.meter("api");
    let retry = parking().meter(meter).observe(Logs::new("api")).traced(recorder.otel());
    let call = fails_once(&retry, || ());
    settle().await;
    scrape(&registry).check(&[("redial_parked", 1.0), ("redial_parked_seconds_count", 0.0)]);
    assert_eq!(registry.snapshots()[0].parked, 1);
    advance(ms(20)).await;
    settle().await;
    succeed(&retry).await;
    call.await.unwrap();
    scrape(&registry).check(&[
        ("redial_parked", 0.0),
        ("redial_parked_seconds_count", 1.0),
        ("redial_parked_seconds_sum", 0.02),
    ]);

    let lines = journal.take();
    let of = |name: &str| lines.iter().find(|line| line.get("transition") == name).unwrap();
    assert_eq!(of("parked").number("attempt"), 2);
    assert_eq!(of("released").number("parked_ms"), 20);

    let spans = recorder.spans();
    let events: Vec<_> = spans.iter().flat_map(|span| span.events.iter()).collect();
    let names: Vec<_> = events.iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["redial.parked", "redial.released"]);
    assert_eq!(events[1].attributes, [KeyValue::new("redial.parked_seconds", 0.02)]);
}
