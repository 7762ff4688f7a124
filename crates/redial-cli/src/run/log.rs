//! The log of one call. The command writes to the same stderr, so each message is one line and is written at once.

use std::io;

use redial_core::{Span, Stop, Time};
use serde::Serialize;
use serde_json::{Value, json};

use super::attempt::End;
use crate::clock;
use crate::duration::{self, ms};
use crate::log::{Form, json_line, text_line};
use crate::process::Status;
use crate::stderr::{LAST_FLUSH, Stderr};

pub(super) struct Log {
    form: Form,
    started: Time,
    stderr: Stderr,
}

impl Log {
    pub(super) fn new(form: Form, started: Time) -> Self {
        Self { form, started, stderr: Stderr::new(form) }
    }

    pub(super) fn warn(&self, warning: &str) {
        self.text(|| warning.to_owned());
        self.json("warning", || json!({ "message": warning }));
    }

    pub(super) fn attempt(&self, number: u32, expires_in: Option<Span>) {
        self.json("attempt", || json!({ "attempt": number, "timeout_ms": expires_in.map(ms) }));
    }

    /// Every result has the same fields; `error` is why the command could not be started.
    pub(super) fn ended(&self, number: u32, taken: Span, end: Result<&End, &io::Error>) {
        self.json("ended", || {
            let (code, signal) = match end.map(|end| end.status) {
                Ok(Status::Code(code)) => (Some(code), None),
                Ok(Status::Signal(signal)) => (None, Some(signal)),
                Err(_) => (None, None),
            };
            let is = |what: fn(&End) -> bool| end.is_ok_and(what);
            let hint = end.ok().and_then(|end| end.found.hint()).map(|hint| ms(hint.after()));
            json!({
                "attempt": number, "took_ms": ms(taken), "exit_code": code, "signal": signal,
                "timed_out": is(|end| end.timed_out), "retry_on_output": is(|end| end.found.retry),
                "stop_on_output": is(|end| end.found.stop), "hint_ms": hint,
                "error": end.err().map(ToString::to_string),
            })
        });
    }

    pub(super) fn waits(&self, failed: u32, why: &str, delay: Span) {
        let wait = duration::text(delay);
        self.text(|| format!("attempt {failed}: {why}; next attempt in {wait}"));
        self.json(
            "wait",
            || json!({ "attempt": failed + 1, "delay_ms": ms(delay), "reason": why }),
        );
    }

    /// `repeated` has the exit codes of the attempts that were followed by another one.
    pub(super) fn succeeded(&self, attempts: u32, repeated: &[u8]) {
        self.json("succeeded", || json!({ "attempts": attempts, "repeated": repeated }));
    }

    /// `hint` is what the user can do about it.
    pub(super) fn stopped(
        &self,
        attempts: u32,
        repeated: &[u8],
        why: &str,
        stop: Stop,
        hint: Option<&str>,
        exit: u8,
    ) {
        let is_usual = matches!(stop, Stop::Permanent | Stop::Cancelled | Stop::Attempts);
        if !is_usual || attempts > 1 || hint.is_some() {
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            self.text(|| format!("attempt {attempts}: {why}; giving up: {stop}{hint}"));
        }
        self.json("stopped", || {
            json!({
                "attempts": attempts, "repeated": repeated, "reason": stop.name(), "failure": why,
                "exit_code": exit,
            })
        });
    }

    fn text(&self, line: impl FnOnce() -> String) {
        if self.form == Form::Text {
            self.write(text_line(&line()));
        }
    }

    fn json(&self, event: &str, fields: impl FnOnce() -> Value) {
        if self.form != Form::Json {
            return;
        }
        let elapsed_ms = ms(clock::now() - self.started);
        self.write(json_line(event, Fields { elapsed_ms, fields: fields() }));
    }

    /// The command may have the same stderr, and its next output belongs below.
    fn write(&self, line: String) {
        self.stderr.line(line);
        self.stderr.keep_order();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stderr.flush(LAST_FLUSH);
    }
}

#[derive(Serialize)]
struct Fields {
    elapsed_ms: f64,
    #[serde(flatten)]
    fields: Value,
}
