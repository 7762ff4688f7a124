//! The metrics of running programs: `redial doctor` finds their storms, and no others.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use redial_cli::diagnose::{Diagnosed, DiagnosedKind, Diagnosis, Scrape, Symptom, diagnose};
use redial_cli::exposition::samples;
use redial_core::storm::Level;
use redial_core::{Span, Time};

use super::example::{Storm, request};
use crate::{Scratch, eventually, redial, text};

fn scrape(page: &str, second: u64) -> Scrape {
    Scrape::read(page, Time::at(Span::from_secs(second))).unwrap()
}

/// What the example's counters show when some users ask within four seconds.
fn judge(policy: &str, phase: &str) -> Diagnosis {
    let storm = Storm::start(policy, phase);
    let (from, to) = (storm.page(), storm.after(200));
    diagnose(None, &scrape(&from, 0), &scrape(&to, 4))
}

fn subject<'a>(found: &'a Diagnosis, name: &str) -> &'a Diagnosed {
    found.subjects.iter().find(|subject| subject.name == name).unwrap()
}

fn symptoms(subject: &Diagnosed) -> Vec<Symptom> {
    subject.findings.iter().map(|finding| finding.symptom).collect()
}

#[test]
fn an_outage_of_a_naive_shop_is_its_own_storm() {
    let found = judge("naive", "outage");
    assert_eq!(found.level(), Some(Level::Storm), "{found:?}");
    let backend = &found.subjects[0];
    assert_eq!((backend.kind, backend.name.as_str()), (DiagnosedKind::Upstream, "backend"));
    let flow = backend.flow.unwrap();
    assert_eq!((flow.calls, flow.attempts, flow.from_above()), (200, 600, Some(0.0)));
    assert_eq!(symptoms(backend), [Symptom::Unbounded, Symptom::AttemptsUsed]);
    let shop = subject(&found, "shop");
    assert_eq!(shop.level(), Some(Level::Calm), "users ask once: {shop:?}");
}

#[test]
fn with_a_budget_the_same_outage_is_not_a_storm() {
    let found = judge("standard", "outage");
    assert_eq!(found.level(), Some(Level::Calm), "{found:?}");
    let backend = subject(&found, "backend");
    assert_eq!(backend.flow.unwrap().calls, 200, "{backend:?}");
    assert!(symptoms(backend).contains(&Symptom::BudgetDry), "{backend:?}");
}

#[test]
fn retries_of_a_gateway_come_from_above() {
    let found = judge("once", "layered");
    assert_eq!(found.level(), Some(Level::Storm), "{found:?}");
    for name in ["backend", "shop"] {
        let subject = subject(&found, name);
        let flow = subject.flow.unwrap();
        assert_eq!((flow.multiplier(), flow.from_above()), (Some(3.0), Some(1.0)), "{subject:?}");
        assert_eq!(symptoms(subject)[0], Symptom::FromAbove, "{subject:?}");
    }
    assert_eq!(subject(&found, "backend").flow.unwrap().amplification(), Some(1.0));
}

#[test]
fn a_surge_is_not_a_storm_and_is_found_by_the_baseline() {
    let storm = Storm::start("naive", "normal");
    let pages = [storm.page(), storm.after(50), storm.after(150)];
    let found = diagnose(Some(&scrape(&pages[0], 0)), &scrape(&pages[1], 4), &scrape(&pages[2], 8));
    assert_eq!(found.level(), Some(Level::Calm), "{found:?}");
    let backend = subject(&found, "backend");
    assert_eq!((backend.surge, symptoms(backend)), (Some(3.0), vec![Symptom::Surge]));
}

/// Ends with its handle.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn failing_jobs_of_a_queue_are_not_a_storm() {
    let scratch = Scratch::new("doctor-queue");
    let store = scratch.path("jobs.db");
    for _ in 0..30 {
        let added = redial(&["queue", "add", "--store", &store, "--payload", "x"]);
        assert!(added.status.success(), "{}", text(&added.stderr));
    }
    // Without a budget and with short waits, each job has many attempts in some seconds.
    let policy = scratch.file("policy.toml", "attempts = 1000\nbudget = 'none'\ndeadline = 'none'\nbackoff = { base = '10ms', cap = '10ms' }\n");
    let worker = crate::program(env!("CARGO_BIN_EXE_redial"))
        .args(["queue", "work", "--store", &store, "--exec", "exit 1", "--policy", &policy])
        .args(["--metrics", "127.0.0.1:0", "--depth-every", "100ms"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut worker = Worker(worker);
    let mut notes = BufReader::new(worker.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let url =
        notes.find_map(|note| Some(note.strip_prefix("redial: metrics at ")?.to_owned())).unwrap();
    // An unread pipe would block it.
    std::thread::spawn(move || notes.for_each(drop));

    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap();
    let page_with = |metric: &str, count: f64| {
        let mut page = String::new();
        eventually(|| {
            page = request(address.parse().unwrap(), "GET", "/metrics");
            total(&page, metric) >= count
        });
        page
    };
    let from = page_with("redial_calls_total", 30.0);
    let retried = total(&from, "redial_queue_retries_total");
    let to = page_with("redial_queue_retries_total", retried + 100.0);
    let found = diagnose(None, &scrape(&from, 0), &scrape(&to, 1));
    let of = |kind: DiagnosedKind| found.subjects.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(
        of(DiagnosedKind::Upstream).flow.unwrap().calls,
        0,
        "all jobs have begun: {found:?}"
    );
    assert_eq!(symptoms(of(DiagnosedKind::Queue)), [Symptom::QueueRetries], "{found:?}");
    assert_eq!(found.level(), None, "{found:?}");
}

/// The sum of a counter over its labels.
fn total(page: &str, metric: &str) -> f64 {
    let samples = samples(page).map(Result::unwrap).filter(|sample| sample.name == metric);
    samples.map(|sample| sample.value).sum()
}
