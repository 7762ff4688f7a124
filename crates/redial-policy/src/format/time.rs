//! Durations, as the meshes write them. All of them keep whole milliseconds and no more.

use std::time::Duration;

use redial_core::{Draft, DurationText, MS, NEVER, Nanos, parse_duration};

use super::account::Account;
use crate::found::Note;
use crate::source::Problem;
use crate::tree::Here;

/// Protobuf's JSON: seconds, and nothing else.
pub(super) fn seconds(here: &Here<'_>) -> Result<Nanos, Problem> {
    let form = || here.wrong("must be seconds such as \"0.25s\" or \"15s\"");
    let text = here.text().map_err(|_| form())?;
    let digits = text.strip_suffix('s').ok_or_else(form)?;
    if digits.contains(|c: char| !c.is_ascii_digit() && c != '.') {
        return Err(form());
    }
    parse_duration(text).map_err(|_| form())
}

/// Go's durations, which Istio, Linkerd and the Gateway API have: `1h10m`, `500ms`, `0`.
pub(super) fn units(here: &Here<'_>) -> Result<Nanos, Problem> {
    let text = here.word()?;
    if text == "0" {
        return Ok(0);
    }
    let form = || here.wrong("must be a duration such as 500ms or 1m30s, with h, m, s or ms");
    let fits = !text.contains(['d', ' ']);
    parse_duration(&text).ok().filter(|_| fits).ok_or_else(form)
}

/// What cannot be zero.
pub(super) fn above_zero(here: &Here<'_>, nanos: Nanos) -> Result<Nanos, Problem> {
    if nanos == 0 { Err(here.wrong("must be above zero")) } else { Ok(nanos) }
}

/// Up to the next millisecond: a timeout that is rounded down to zero is none at all.
pub(super) fn whole_ms(nanos: Nanos) -> Nanos {
    nanos.div_ceil(MS).max(1).saturating_mul(MS)
}

/// As protobuf's JSON has it.
pub(crate) fn as_seconds(nanos: Nanos) -> String {
    let ms = nanos.div_ceil(MS);
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        rest => format!("{}.{}s", ms / 1000, format!("{rest:03}").trim_end_matches('0')),
    }
}

/// In one unit, as Linkerd and Istio have it.
pub(crate) fn as_unit(nanos: Nanos) -> String {
    DurationText(nanos.div_ceil(MS).saturating_mul(MS)).to_string()
}

/// In hours, minutes, seconds and milliseconds, each of at most five digits (GEP-2257).
pub(crate) fn as_parts(nanos: Nanos) -> String {
    let ms = nanos.div_ceil(MS);
    let parts =
        [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1000 % 60, "s"), (ms % 1000, "ms")];
    let written: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if written.is_empty() { "0s".to_owned() } else { written }
}

/// Ten times as much, which is Envoy's cap for a base; no policy has more than 366 days.
pub(super) fn tenfold(base: Nanos) -> Nanos {
    base.saturating_mul(10).min(redial_core::LONGEST).max(base)
}

/// How long a budget looks back, which is 1 s to 60 s here, and what is to be said when that is not what `here` asks for.
pub(super) fn window(asked: Nanos, here: Option<&Here<'_>>) -> (Nanos, Option<Note>) {
    let ttl = asked.clamp(1_000 * MS, 60_000 * MS);
    let text = format!("ttl = {}: we know 1s to 60s", DurationText(ttl));
    let note = here.filter(|_| ttl != asked).map(|here| Note::approximated(here.path(), text));
    (ttl, note)
}

pub(super) fn std(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos)
}

/// The timeouts of a call and of an attempt, of which zero is none. One for an attempt that is longer than the call has
/// no effect, and is clipped.
pub(super) struct Timeouts<'a> {
    pub(super) call: Option<Here<'a>>,
    pub(super) attempt: Option<Here<'a>>,
    /// What the call has when nothing is said.
    pub(super) default: Nanos,
    pub(super) read: fn(&Here<'_>) -> Result<Nanos, Problem>,
}

impl Timeouts<'_> {
    pub(super) fn apply(self, draft: Draft, account: &mut Account<'_>) -> Result<Draft, Problem> {
        let read =
            |here: &Here<'_>| (self.read)(here).map(|nanos| if nanos == 0 { NEVER } else { nanos });
        let deadline = self.call.as_ref().map_or(Ok(self.default), read)?;
        if let Some(here) = &self.call {
            account.kept(here, "deadline", format!("deadline = {}", DurationText(deadline)));
        }
        let draft = if deadline == NEVER { draft } else { draft.deadline(std(deadline)) };
        let Some(here) = self.attempt else { return Ok(draft) };
        let timeout = read(&here)?;
        if timeout == NEVER {
            account.kept(&here, "attempt_timeout", "attempt_timeout = none");
            return Ok(draft);
        }
        let clipped = timeout.min(deadline);
        let text = format!("attempt_timeout = {}", DurationText(clipped));
        if clipped < timeout {
            let why = "the whole call has no more";
            account.approximated(&here, "attempt_timeout", format!("{text}: {why}"));
        } else {
            account.kept(&here, "attempt_timeout", text);
        }
        Ok(draft.attempt_timeout(std(clipped)))
    }
}
