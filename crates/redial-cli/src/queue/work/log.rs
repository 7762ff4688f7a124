//! A backend that is down makes every job of a queue fail, and a line for each of them would be a storm of its own. A few
//! lines tell what is going on; of the others, how many they are.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use redial_core::admit::{RateLimit, RateRule};
use redial_core::{Rate, Stop};
use redial_queue::WorkEvent;
use redial_queue::durable::{Job, Report};
use serde_json::{Value, json};

use super::super::print::ms;
use super::super::time::short;
use crate::failed::harmless;
use crate::run::{Form, clock};
use crate::stderr::Stderr;

/// So many lines, in the long run and at once.
const LINES: Rate = Rate::per_second(5);
const BURST: u32 = 50;
/// The most causes that are told of jobs that cannot be tried.
const MOST_CAUSES: usize = 100;

pub(super) struct Log {
    form: Form,
    limit: RateLimit,
    left_out: AtomicU64,
    /// The causes for which jobs could not be tried.
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
        if self.form == Form::None || is_usual(event) || self.was_said(event) {
            return;
        }
        if self.limit.take(clock::now()).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.tell_left_out();
        let (text, name, fields) = line(event);
        self.write(&text, name, fields);
    }

    /// Why jobs cannot be tried here is said once: it is the same for each of them.
    fn was_said(&self, event: &WorkEvent<'_, Job>) -> bool {
        match event {
            WorkEvent::Postponed { stop: None | Some(Stop::Concurrency), cause, .. }
                if !cause.is_empty() =>
            {
                let mut said = self.not_tried.lock().unwrap_or_else(PoisonError::into_inner);
                if said.contains(*cause) {
                    return true;
                }
                if said.len() >= MOST_CAUSES {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                !said.insert((*cause).to_owned())
            }
            _ => false,
        }
    }

    pub(super) fn warn(&self, warning: &str) {
        self.write(warning, "warning", json!({ "message": warning }));
    }

    /// Metrics are to be had there.
    pub(super) fn serves(&self, url: &str) {
        self.write(&format!("metrics at {url}"), "metrics", json!({ "url": url }));
    }

    pub(super) fn ended(&self, report: &Report) {
        self.tell_left_out();
        let Report { done, retried, dead, postponed, returned, lost, stale, .. } = *report;
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
        self.write(&text, "ended", fields);
    }

    fn tell_left_out(&self) {
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let text =
                format!("{count} lines were left out; `redial queue stats` counts everything");
            self.write(&text, "left_out", json!({ "lines": count }));
        }
    }

    /// Each message is one line.
    fn write(&self, text: &str, event: &str, fields: Value) {
        let line = match self.form {
            Form::None => return,
            Form::Text => format!("redial: {}\n", harmless(text)),
            Form::Json => {
                let time = seconds(clock::wall());
                let fields = fields.to_string();
                let fields = fields.strip_prefix('{').unwrap_or(&fields);
                format!("{{\"event\":\"{event}\",\"time\":{time},{fields}\n")
            }
        };
        self.stderr.line(line);
    }
}

/// What there is one of for each job that goes well.
fn is_usual(event: &WorkEvent<'_, Job>) -> bool {
    matches!(event, WorkEvent::Started { .. } | WorkEvent::Done { .. })
}

/// An event as a text, and as the name and the fields of a JSON line.
fn line(event: &WorkEvent<'_, Job>) -> (String, &'static str, Value) {
    match event {
        WorkEvent::Retry { item: job, wait, cause, .. } => (
            format!("{}: {cause}; the next attempt in {}", attempt(job), short(*wait)),
            "retry",
            about(job, json!({ "wait_ms": ms(*wait), "outcome": cause })),
        ),
        WorkEvent::Postponed { item: job, wait, stop, cause, .. } => {
            let given_back = if cause.is_empty() { "this worker gives it back" } else { cause };
            let why = match stop {
                None | Some(Stop::Concurrency) => given_back.to_owned(),
                Some(stop) => stop.to_string(),
            };
            let text = format!("job {} was not tried: {why}; again in {}", job.id, short(*wait));
            let stop = stop.map(|stop| stop.name());
            (
                text,
                "postponed",
                about(job, json!({ "wait_ms": ms(*wait), "stop": stop, "outcome": cause })),
            )
        }
        WorkEvent::Dead { item: job, reason, cause } => (
            format!("{}: {cause}; given up: {reason}", attempt(job)),
            "dead",
            about(job, json!({ "reason": reason, "outcome": cause })),
        ),
        WorkEvent::Lost(job) => (
            format!("{}: the store was not reached before the lease was over; ended", attempt(job)),
            "lost",
            about(job, json!({})),
        ),
        WorkEvent::Stale(job) => (
            format!(
                "{}: somebody else has the job by now; what came of this does not count",
                attempt(job)
            ),
            "stale",
            about(job, json!({})),
        ),
        WorkEvent::StoreUnavailable { error, wait } => (
            format!("{error}; asked again in {}", short(*wait)),
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

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as f64 / 1e3
}
