//! Prints jobs, for people or as JSON. A payload is untrusted, so it does not reach a terminal as it is.

use std::io::{self, Write};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redial_queue::durable::{Job, State, Tried};
use serde_json::{Value, json};

use super::time::Utc;
use crate::duration::{self, ms};
use crate::text::{aligned, sanitise, widths};

/// The most characters of a cell.
const WIDEST: usize = 48;

/// A job as JSON. A payload that is not UTF-8 is in base64, under another name.
pub(super) fn object(job: &Job) -> Value {
    let tried = |tried: &Tried| {
        json!({
            "attempt": tried.number,
            "ended": Utc(tried.ended).to_string(),
            "took_ms": ms(tried.took),
            "outcome": tried.outcome,
        })
    };
    let mut all = json!({
        "id": job.id.0,
        "queue": job.queue,
        "state": job.state.name(),
        "key": job.key,
        "priority": job.priority.level(),
        "policy": job.policy,
        "idempotency_key": job.idempotency_key,
        "created": Utc(job.created).to_string(),
        "due": Utc(job.due).to_string(),
        "begun": job.begun.map(|begun| Utc(begun).to_string()),
        "attempts": job.progress.attempts,
        "reason": job.reason,
        "headers": job.headers,
        "history": job.history.iter().map(tried).collect::<Vec<_>>(),
    });
    match std::str::from_utf8(&job.payload) {
        Ok(text) => all["payload"] = text.into(),
        Err(_) => all["payload_base64"] = STANDARD.encode(&job.payload).into(),
    }
    all
}

/// A time relative to now.
pub(super) fn relative(time: SystemTime, now: SystemTime) -> String {
    match time.duration_since(now) {
        Ok(ahead) if ahead.is_zero() => "now".to_owned(),
        Ok(ahead) => format!("in {}", duration::text(ahead)),
        Err(ago) => format!("{} ago", duration::text(ago.duration())),
    }
}

/// The time since then.
pub(super) fn age(since: SystemTime, now: SystemTime) -> String {
    duration::text(now.duration_since(since).unwrap_or_default())
}

/// A text on one line, cut if it is too long for a table.
pub(super) fn cell(text: &str) -> String {
    let line = sanitise(&text.replace(['\n', '\r', '\t'], " "));
    if line.chars().count() <= WIDEST {
        return line;
    }
    line.chars().take(WIDEST - 1).chain(['…']).collect()
}

/// A payload on one line: its text, or its size if it is not text.
pub(super) fn payload_cell(payload: &[u8]) -> String {
    // The end may cut a character.
    let start = &payload[..payload.len().min(4 * WIDEST)];
    match std::str::from_utf8(start) {
        Ok(text) => cell(text),
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            cell(&String::from_utf8_lossy(&start[..error.valid_up_to()]))
        }
        Err(_) => format!("({} bytes)", payload.len()),
    }
}

/// The lines of a text, or one line with escapes if the payload is not text.
pub(super) fn payload_lines(payload: &[u8]) -> Vec<String> {
    match std::str::from_utf8(payload) {
        Ok(text) => text.lines().map(|line| sanitise(&line.replace('\t', "    "))).collect(),
        Err(_) => vec![payload.escape_ascii().to_string()],
    }
}

/// When the state of a job changes by itself.
pub(super) fn when(job: &Job, now: SystemTime) -> String {
    match job.state {
        State::Waiting | State::Held => relative(job.due, now),
        State::Running => format!("leased {}", relative(job.due, now)),
        State::Dead => "-".to_owned(),
    }
}

/// Prints a table.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: &[[String; N]],
    out: &mut impl Write,
) -> io::Result<()> {
    let head = head.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(rows.iter().map(|row| row.to_vec())).collect();
    let widths = widths(&rows);
    rows.iter().try_for_each(|row| writeln!(out, "{}", aligned(row, &widths, "  ", |_| true)))
}
