//! Whoever waits wants to know for what, and whoever reads logs wants to count. Both are told on stderr, which the
//! command has too, so each message is one line and is written at once.

use std::io;
use std::time::SystemTime;

use redial_core::{Nanos, Stop, nanos};
use serde_json::{Value, json};

use super::attempt::{End, Status};
use super::clock;
use crate::failed::harmless;
use crate::stderr::{GOODBYE, Stderr};

/// How a call is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// A line for each retry, and why there is no other
    Text,
    /// An object in a line for each thing that happens
    Json,
    /// Nothing
    None,
}

pub(super) struct Log {
    form: Form,
    started: Nanos,
    stderr: Stderr,
}

impl Log {
    pub(super) fn new(form: Form, started: Nanos) -> Self {
        Self { form, started, stderr: Stderr::new(form) }
    }

    pub(super) fn warn(&self, warning: &str) {
        self.text(|| warning.to_owned());
        self.json("warning", || json!({ "message": warning }));
    }

    pub(super) fn attempt(&self, number: u32, expires_in: Option<Nanos>) {
        self.json("attempt", || json!({ "attempt": number, "timeout_ms": expires_in.map(ms) }));
    }

    /// With the same fields for every end; `error` is why it could not be started.
    pub(super) fn ended(&self, number: u32, taken: Nanos, end: Result<&End, &io::Error>) {
        self.json("ended", || {
            let (code, signal) = match end.map(|end| end.status) {
                Ok(Status::Code(code)) => (Some(code), None),
                Ok(Status::Signal(signal)) => (None, Some(signal)),
                Err(_) => (None, None),
            };
            let is = |what: fn(&End) -> bool| end.is_ok_and(what);
            let hint =
                end.ok().and_then(|end| end.found.hint()).map(|hint| ms(nanos(hint.after())));
            json!({
                "attempt": number, "took_ms": ms(taken), "exit_code": code, "signal": signal,
                "timed_out": is(|end| end.timed_out), "retry_on_output": is(|end| end.found.retry),
                "stop_on_output": is(|end| end.found.stop), "hint_ms": hint,
                "error": end.err().map(ToString::to_string),
            })
        });
    }

    pub(super) fn waits(&self, failed: u32, why: &str, delay: Nanos) {
        self.text(|| format!("attempt {failed}: {why}; the next one in {}", short(delay)));
        self.json(
            "wait",
            || json!({ "attempt": failed + 1, "delay_ms": ms(delay), "reason": why }),
        );
    }

    pub(super) fn succeeded(&self, attempts: u32) {
        self.json("succeeded", || json!({ "attempts": attempts }));
    }

    /// `about` is what the user can do about it.
    pub(super) fn stopped(
        &self,
        attempts: u32,
        why: &str,
        stop: Stop,
        about: Option<&str>,
        exit: u8,
    ) {
        let retried = attempts > 1;
        let silent = matches!(stop, Stop::Permanent | Stop::Cancelled | Stop::Attempts) && !retried;
        if !silent {
            let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
            self.text(|| format!("attempt {attempts}: {why}; no other one: {stop}{about}"));
        }
        self.json("stopped", || {
            json!({ "attempts": attempts, "reason": stop.name(), "failure": why, "exit_code": exit })
        });
    }

    fn text(&self, line: impl FnOnce() -> String) {
        if self.form == Form::Text {
            self.write(format!("redial: {}\n", harmless(&line())));
        }
    }

    fn json(&self, event: &str, fields: impl FnOnce() -> Value) {
        if self.form != Form::Json {
            return;
        }
        let since = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (time, elapsed) =
            (since.as_millis() as f64 / 1e3, ms(clock::now().saturating_sub(self.started)));
        let fields = fields().to_string();
        // A map would sort them, and whoever reads along wants to know first what happened.
        let head = format!(r#"{{"event":"{event}","time":{time},"elapsed_ms":{elapsed},"#);
        self.write(head + fields.strip_prefix('{').unwrap_or(&fields) + "\n");
    }

    /// The command may have the same stderr, and what it prints next belongs below.
    fn write(&self, line: String) {
        self.stderr.line(line);
        self.stderr.keep_order();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stderr.flush(GOODBYE);
    }
}

fn ms(nanos: Nanos) -> f64 {
    (nanos as f64 / 1e3).round() / 1e3
}

fn short(nanos: Nanos) -> String {
    let ms = ms(nanos);
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}
