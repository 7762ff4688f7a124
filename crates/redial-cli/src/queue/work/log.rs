//! While a backend is down every job of a queue fails, and a line for each of them would flood the log. So the rate of
//! lines is limited, and a line reports how many were left out.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redial_core::admit::{RateLimit, RateRule};
use redial_core::{Rate, Stop};
use redial_queue::WorkEvent;
use redial_queue::durable::{Job, WorkerReport};
use serde_json::{Value, json};

use crate::clock;
use crate::duration::{ms, text};
use crate::log::{Form, json_line, text_line};
use crate::stderr::Stderr;

/// The most lines, in the long run and at once.
const LINES: Rate = Rate::per_second(5);
const BURST: u32 = 50;
/// The most different causes for which jobs cannot be tried that are logged.
const MOST_CAUSES: usize = 100;

pub(super) struct Log {
    form: Form,
    limit: RateLimit,
    left_out: AtomicU64,
    /// The causes for which jobs could not be tried, as far as they have been logged.
    not_tried: Mutex<HashSet<String>>,
    stderr: Arc<Stderr>,
}

impl Log {
    pub(super) fn new(form: Form) -> Self {
        let limit = RateLimit::new(&RateRule::new(LINES, BURST));
        let (left_out, not_tried) = (AtomicU64::new(0), Mutex::default());
        Self { form, limit, left_out, not_tried, stderr: Arc::new(Stderr::new(form)) }
    }

    pub(super) fn stderr(&self) -> &Arc<Stderr> {
        &self.stderr
    }

    pub(super) fn event(&self, event: &WorkEvent<'_, Job>) {
        if self.form == Form::None || is_usual(event) || self.is_logged(event) {
            return;
        }
        if self.limit.take(clock::now()).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.report_left_out();
        let (text, name, fields) = describe(event);
        self.write(&text, name, &fields);
    }

    /// Whether the cause for which a job cannot be tried has been logged: it is the same for all jobs.
    fn is_logged(&self, event: &WorkEvent<'_, Job>) -> bool {
        match event {
            WorkEvent::Postponed { stop: None | Some(Stop::Concurrency), cause, .. }
                if !cause.is_empty() =>
            {
                let mut logged = self.not_tried.lock().unwrap_or_else(PoisonError::into_inner);
                if logged.contains(*cause) {
                    return true;
                }
                if logged.len() >= MOST_CAUSES {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                !logged.insert((*cause).to_owned())
            }
            _ => false,
        }
    }

    pub(super) fn warn(&self, warning: &str) {
        self.write(warning, "warning", &json!({ "message": warning }));
    }

    /// Metrics are served at this URL.
    pub(super) fn serves(&self, url: &str) {
        self.write(&format!("metrics at {url}"), "metrics", &json!({ "url": url }));
    }

    pub(super) fn ended(&self, report: &WorkerReport) {
        self.report_left_out();
        let WorkerReport { done, retried, dead, postponed, returned, lost, stale, .. } = *report;
        let mut text = format!("done {done}, retried {retried}, dead {dead}");
        for (name, count) in
            [("postponed", postponed), ("given back", returned), ("lost", lost), ("stale", stale)]
        {
            if count > 0 {
                text += &format!(", {name} {count}");
            }
        }
        let dropped = self.stderr.dropped();
        if dropped > 0 {
            text += &format!(", log lines dropped {dropped}");
        }
        let fields = json!({
            "done": done, "retried": retried, "dead": dead, "postponed": postponed,
            "returned": returned, "lost": lost, "stale": stale, "dropped_lines": dropped,
        });
        self.write(&text, "ended", &fields);
    }

    fn report_left_out(&self) {
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let text =
                format!("{count} lines were left out; `redial queue stats` counts everything");
            self.write(&text, "left_out", &json!({ "lines": count }));
        }
    }

    fn write(&self, text: &str, event: &str, fields: &Value) {
        match self.form {
            Form::None => {}
            Form::Text => self.stderr.line(text_line(text)),
            Form::Json => self.stderr.line(json_line(event, fields)),
        }
    }
}

/// Whether it happens for every job that succeeds.
fn is_usual(event: &WorkEvent<'_, Job>) -> bool {
    matches!(event, WorkEvent::Started { .. } | WorkEvent::Done { .. })
}

/// An event as a text, and as the name and the fields of a JSON line.
fn describe(event: &WorkEvent<'_, Job>) -> (String, &'static str, Value) {
    match event {
        WorkEvent::Retry { item: job, wait, cause, .. } => (
            format!("{}: {cause}; next attempt in {}", attempt(job), text(*wait)),
            "retry",
            about(job, json!({ "wait_ms": ms(*wait), "outcome": cause })),
        ),
        WorkEvent::Postponed { item: job, wait, stop, cause, .. } => {
            let returned = if cause.is_empty() { "returned by this worker" } else { cause };
            let why = match stop {
                None | Some(Stop::Concurrency) => returned.to_owned(),
                Some(stop) => stop.to_string(),
            };
            let line = format!("job {} was not tried: {why}; due in {}", job.id, text(*wait));
            let stop = stop.map(|stop| stop.name());
            (
                line,
                "postponed",
                about(job, json!({ "wait_ms": ms(*wait), "stop": stop, "outcome": cause })),
            )
        }
        WorkEvent::Dead { item: job, reason, cause } => (
            format!("{}: {cause}; giving up: {reason}", attempt(job)),
            "dead",
            about(job, json!({ "reason": reason, "outcome": cause })),
        ),
        WorkEvent::Lost(job) => (
            format!("{}: stopped: the lease expired before the store was reached", attempt(job)),
            "lost",
            about(job, json!({})),
        ),
        WorkEvent::Stale(job) => (
            format!("{}: the result is ignored: another worker has the job", attempt(job)),
            "stale",
            about(job, json!({})),
        ),
        WorkEvent::StoreUnavailable { error, wait } => (
            format!("{error}; trying again in {}", text(*wait)),
            "trouble",
            json!({ "error": error.to_string(), "wait_ms": ms(*wait) }),
        ),
        other => (format!("{other:?}"), "other", json!({ "message": format!("{other:?}") })),
    }
}

fn attempt(job: &Job) -> String {
    format!("job {}, attempt {}", job.id, job.progress.attempts)
}

fn about(job: &Job, mut fields: Value) -> Value {
    fields["job"] = job.id.0.into();
    fields["attempt"] = job.progress.attempts.into();
    fields
}
