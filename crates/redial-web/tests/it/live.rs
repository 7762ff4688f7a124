//! The stream of samples.

use redial::telemetry::{Meter, Registry};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Event, Observer as _, Stop};
use redial_web::{App, Live};
use serde_json::Value;
use std::time::Duration;

use crate::page::{Page, until};

fn page() -> Page {
    let live = Live::new(Registry::global());
    let page = Page::new(App { live: Some(live.clone()), ..App::default() });
    page.runtime.spawn(async move { live.run(Vec::new()).await });
    page
}

fn id(text: &str) -> u64 {
    text.parse().unwrap()
}

#[test]
fn samples_continue_where_a_reader_was() {
    let page = page();
    let mut stream = page.follow("/api/live", "");
    assert!(until(&mut stream, "content-type: ").starts_with("text/event-stream"));
    let retry = id(&until(&mut stream, "retry: "));
    assert!((1000..3000).contains(&retry), "{retry}");
    let ids: Vec<u64> = (0..3).map(|_| id(&until(&mut stream, "id: "))).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    drop(stream);
    // The browser's own header counts, and so does the address that it is reopened with.
    let mut again = page.follow("/api/live", &format!("Last-Event-ID: {}", ids[0]));
    assert_eq!(id(&until(&mut again, "id: ")), ids[1]);
    let mut again = page.follow(&format!("/api/live?after={}", ids[1]), "");
    assert_eq!(id(&until(&mut again, "id: ")), ids[2]);
    // What is no longer there is reported as a gap.
    let mut again = page.follow("/api/live?after=1000", "");
    let gap: Value = {
        assert_eq!(until(&mut again, "event: "), "gap");
        serde_json::from_str(&until(&mut again, "data: ")).unwrap()
    };
    assert_eq!(gap["from"], 1000);
    assert!(gap["to"].as_u64().unwrap() <= ids[0], "{gap}");
    assert_eq!(page.get("/api/live?after=yesterday").status, 400);
}

/// A page that was open while the clock was set back and the server restarted has samples of the future.
#[test]
fn a_reader_that_is_ahead_of_the_clock_starts_again() {
    let page = page();
    let mut stream = page.follow("/api/live", "");
    let known = id(&until(&mut stream, "id: "));
    let is_reset = |text: String| serde_json::from_str::<Value>(&text).unwrap()["reset"] == true;
    for after in [known + 3_600_000, u64::MAX] {
        let mut again = page.follow(&format!("/api/live?after={after}"), "");
        assert_eq!(until(&mut again, "event: "), "gap");
        assert!(is_reset(until(&mut again, "data: ")));
        assert!(id(&until(&mut again, "id: ")) <= known, "all samples follow");
    }
    // The first sample of a server may come after the reader.
    let late = Live::new(Registry::global());
    let page = Page::new(App { live: Some(late.clone()), ..App::default() });
    let mut early = page.follow(&format!("/api/live?after={}", u64::MAX), "");
    until(&mut early, "retry: ");
    page.runtime.spawn(async move { late.run(Vec::new()).await });
    assert_eq!(until(&mut early, "event: "), "gap");
    assert!(is_reset(until(&mut early, "data: ")));
    assert!(id(&until(&mut early, "id: ")) > 0);
}

#[test]
fn the_history_has_both_resolutions() {
    let page = page();
    let mut stream = page.follow("/api/live", "");
    until(&mut stream, "id: ");
    let seconds: Value = serde_json::from_str(&body(&page, "/api/history?range=10m")).unwrap();
    assert_eq!(seconds["step_ms"], 1000);
    assert!(!seconds["samples"].as_array().unwrap().is_empty(), "{seconds}");
    let steps: Value = serde_json::from_str(&body(&page, "/api/history")).unwrap();
    assert_eq!(steps["step_ms"], 10_000);
    assert_eq!(page.get("/api/history?range=1y").status, 400);
    let alone = Page::new(App::default());
    assert_eq!(alone.get("/api/live").status, 404);
    assert_eq!(alone.get("/api/history").status, 404);
}

/// The body, which hyper may have sent in chunks.
fn body(page: &Page, path: &str) -> String {
    let body = page.get(path).body;
    let (start, end) = (body.find('{').unwrap(), body.rfind('}').unwrap());
    body[start..=end].to_owned()
}

/// A name of an upstream may be any text: it stays text.
#[test]
fn a_storm_is_named_with_its_cause_and_an_action() {
    const NAME: &str = "pay <img src=x onerror=alert(1)>";
    let page = page();
    let mut stream = page.follow("/api/live", "");
    until(&mut stream, "id: ");
    // Twelve calls with five attempts each, four of which time out; one call gives up.
    let meter = Meter::new(NAME);
    let outcome = Outcome::Failure(Failure::new(Class::Timeout));
    let taken = Duration::from_millis(30);
    for call in 0..12 {
        for number in 1..=5 {
            meter.event(&Event::Attempt { number, hedge: false });
            let outcome = if number == 5 && call > 0 { Outcome::Success } else { outcome };
            meter.event(&Event::AttemptEnded { number, taken, outcome });
        }
        meter.event(&match call {
            0 => Event::Stopped { reason: Stop::Budget, attempts: 5 },
            _ => Event::Succeeded { attempts: 5 },
        });
    }
    // The calls may have been counted in two samples.
    let mut counted = [0; 4];
    let named = |all: &Value| all.as_array()?.iter().find(|it| it["name"] == NAME).cloned();
    let (sample, one) = loop {
        let sample: Value = serde_json::from_str(&until(&mut stream, "data: ")).unwrap();
        let Some(one) = named(&sample["upstreams"]) else { continue };
        let counts = ["calls", "attempts", "succeeded", "stopped"].map(|it| one[it].as_u64());
        counted.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.unwrap());
        if counted == [12, 60, 11, 1] {
            break (sample, one);
        }
    };
    let upstream = named(&sample["state"]["upstreams"]).unwrap();
    assert_eq!(upstream["multiplier"], 5.0, "{upstream}");
    assert_eq!(upstream["amplification"], 5.0, "{upstream}");
    assert_eq!(upstream["level"], "critical", "{upstream}");
    assert!(upstream["since"].as_u64().unwrap() > 0, "{upstream}");
    assert!(upstream["action"].as_str().unwrap().contains("budget"), "{upstream}");
    assert_eq!(upstream["reason"], "timeouts", "{upstream}");
    let stops = sample["state"]["stops"].as_array().unwrap();
    let stop = stops.iter().find(|it| it["upstream"] == NAME).unwrap();
    assert_eq!((&stop["reason"], &stop["count"]), (&"budget".into(), &1.into()), "{stop}");
    let verdict = &sample["state"]["verdict"];
    assert_eq!(verdict["cause"], "timeouts", "{verdict}");
    assert_eq!(verdict["text"], format!("Critical storm: {NAME} 5.0×"), "{verdict}");
    assert!(sample["span_ms"].as_u64().unwrap() > 0, "{sample}");
    let p50 = one["p50_ms"].as_f64().unwrap();
    assert!((25.0..=50.0).contains(&p50), "30 ms lies in a bucket from 25 to 50 ms: {one}");
}
