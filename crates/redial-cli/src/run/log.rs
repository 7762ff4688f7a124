//! Whoever waits wants to know for what, and whoever reads logs wants to count. Both are told on stderr, which the
//! command has too, so each message is one line and is written at once.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::SystemTime;

use redial_core::{Nanos, Stop};
use serde_json::{Map, Value, json};

use super::attempt::{End, Status};
use super::clock;
use crate::failed::harmless;

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
    pub(super) form: Form,
    pub(super) started: Nanos,
}

impl Log {
    pub(super) fn warn(&self, warning: &str) {
        self.text(|| warning.to_owned());
        self.json("warning", || json!({ "message": warning }));
    }

    pub(super) fn attempt(&self, number: u32, expires_in: Option<Nanos>) {
        self.json("attempt", || json!({ "attempt": number, "timeout_ms": expires_in.map(ms) }));
    }

    pub(super) fn ended(&self, number: u32, taken: Nanos, end: &End) {
        self.json("ended", || {
            let (code, signal) = match end.status {
                Status::Code(code) => (Some(code), None),
                Status::Signal(signal) => (None, Some(signal)),
            };
            let hint = end.found.hint().map(|hint| ms(hint.after()));
            json!({
                "attempt": number, "took_ms": ms(taken), "exit_code": code, "signal": signal,
                "timed_out": end.timed_out, "retry_on_output": end.found.retry, "stop_on_output": end.found.stop,
                "hint_ms": hint,
            })
        });
    }

    pub(super) fn not_started(&self, number: u32, error: &io::Error) {
        self.json("ended", || json!({ "attempt": number, "error": error.to_string() }));
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
            write(format_args!("redial: {}", harmless(&line())));
        }
    }

    fn json(&self, event: &str, fields: impl FnOnce() -> Value) {
        if self.form != Form::Json {
            return;
        }
        let since = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut line = Map::new();
        line.insert("event".to_owned(), event.into());
        line.insert("time".to_owned(), since.as_secs_f64().into());
        line.insert("elapsed_ms".to_owned(), ms(clock::now().saturating_sub(self.started)).into());
        if let Value::Object(fields) = fields() {
            line.extend(fields);
        }
        write(Value::Object(line));
    }
}

/// A log that nobody can read must not end the command.
fn write(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn ms(nanos: Nanos) -> f64 {
    (nanos as f64 / 1e3).round() / 1e3
}

fn short(nanos: Nanos) -> String {
    let ms = ms(nanos);
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}
