//! Jobs for people and for programs. A payload is whatever somebody put into it, so nothing of it reaches a terminal as it
//! is.

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

/// Everything about a job. A payload that is no text is in base64, under another name.
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

/// When something is, seen from now.
pub(super) fn relative(time: SystemTime, now: SystemTime) -> String {
    match time.duration_since(now) {
        Ok(ahead) if ahead.is_zero() => "now".to_owned(),
        Ok(ahead) => format!("in {}", duration::text(ahead)),
        Err(ago) => format!("{} ago", duration::text(ago.duration())),
    }
}

/// For how long something has been so.
pub(super) fn age(since: SystemTime, now: SystemTime) -> String {
    duration::text(now.duration_since(since).unwrap_or_default())
}

/// A text in a line, cut where it is too long for a table.
pub(super) fn cell(text: &str) -> String {
    let line = sanitise(&text.replace(['\n', '\r', '\t'], " "));
    if line.chars().count() <= WIDEST {
        return line;
    }
    line.chars().take(WIDEST - 1).chain(['…']).collect()
}

/// A payload in a line: text if it is some, or else how much it is.
pub(super) fn payload_cell(payload: &[u8]) -> String {
    // A character may be cut in two.
    let start = &payload[..payload.len().min(4 * WIDEST)];
    match std::str::from_utf8(start) {
        Ok(text) => cell(text),
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            cell(&String::from_utf8_lossy(&start[..error.valid_up_to()]))
        }
        Err(_) => format!("({} bytes)", payload.len()),
    }
}

/// Lines as they are if they are text, else with escapes.
pub(super) fn payload_lines(payload: &[u8]) -> Vec<String> {
    match std::str::from_utf8(payload) {
        Ok(text) => text.lines().map(|line| sanitise(&line.replace('\t', "    "))).collect(),
        Err(_) => vec![payload.escape_ascii().to_string()],
    }
}

/// When a job's state changes by itself.
pub(super) fn when(job: &Job, now: SystemTime) -> String {
    match job.state {
        State::Waiting | State::Held => relative(job.due, now),
        State::Running => format!("leased {}", relative(job.due, now)),
        State::Dead => "-".to_owned(),
    }
}

/// A table whose columns are as wide as they have to be.
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
