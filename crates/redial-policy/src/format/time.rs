//! Durations in the configs of meshes, which all have a resolution of a millisecond.

use std::time::Duration;

use redial_core::{Draft, DurationText, MS, NEVER, Nanos, parse_duration};

use super::import::Import;
use crate::found::Note;
use crate::source::Problem;
use crate::tree::Cursor;

/// A duration in protobuf's JSON: seconds.
pub(super) fn seconds(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    let form = || here.problem("must be seconds such as \"0.25s\" or \"15s\"");
    let text = here.text().map_err(|_| form())?;
    let digits = text.strip_suffix('s').ok_or_else(form)?;
    if digits.contains(|c: char| !c.is_ascii_digit() && c != '.') {
        return Err(form());
    }
    parse_duration(text).map_err(|_| form())
}

/// A Go duration, as in Istio, Linkerd and the Gateway API: `1h10m`, `500ms`, `0`.
pub(super) fn units(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    let text = here.scalar()?;
    if text == "0" {
        return Ok(0);
    }
    let form = || here.problem("must be a duration such as 500ms or 1m30s, with h, m, s or ms");
    let fits = !text.contains(['d', ' ']);
    parse_duration(&text).ok().filter(|_| fits).ok_or_else(form)
}

/// A duration that must not be zero.
pub(super) fn above_zero(here: &Cursor<'_>, nanos: Nanos) -> Result<Nanos, Problem> {
    if nanos == 0 { Err(here.problem("must be above zero")) } else { Ok(nanos) }
}

/// Rounded up to whole milliseconds: a timeout of zero would mean none.
pub(super) fn whole_ms(nanos: Nanos) -> Nanos {
    nanos.div_ceil(MS).max(1).saturating_mul(MS)
}

/// A duration in protobuf's JSON.
pub(crate) fn as_seconds(nanos: Nanos) -> String {
    let ms = nanos.div_ceil(MS);
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        rest => format!("{}.{}s", ms / 1000, format!("{rest:03}").trim_end_matches('0')),
    }
}

/// A duration in one unit, for Linkerd and Istio.
pub(crate) fn as_unit(nanos: Nanos) -> String {
    DurationText(nanos.div_ceil(MS).saturating_mul(MS)).to_string()
}

/// A duration in hours, minutes, seconds and milliseconds, each of at most five digits (GEP-2257).
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

/// Ten times the base, which is Envoy's default cap, within the range of a policy.
pub(super) fn tenfold(base: Nanos) -> Nanos {
    base.saturating_mul(10).min(redial_core::LONGEST).max(base)
}

/// The ttl of a budget, which must be 1 s to 60 s here, and a note if that changes it.
pub(super) fn window(asked: Nanos, here: Option<&Cursor<'_>>) -> (Nanos, Option<Note>) {
    let ttl = asked.clamp(1_000 * MS, 60_000 * MS);
    let text = format!("ttl = {}: a policy has 1s to 60s", DurationText(ttl));
    let note = here.filter(|_| ttl != asked).map(|here| Note::approximated(here.path(), text));
    (ttl, note)
}

pub(super) fn std(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos)
}

/// The timeouts of a call and of an attempt, where zero means none. An attempt timeout above the call's has no effect,
/// and is clipped.
pub(super) struct Timeouts<'a> {
    pub(super) call: Option<Cursor<'a>>,
    pub(super) attempt: Option<Cursor<'a>>,
    /// The default timeout of a call.
    pub(super) default: Nanos,
    pub(super) read: fn(&Cursor<'_>) -> Result<Nanos, Problem>,
}

impl Timeouts<'_> {
    pub(super) fn apply(self, draft: Draft, import: &mut Import<'_>) -> Result<Draft, Problem> {
        let read = |here: &Cursor<'_>| {
            (self.read)(here).map(|nanos| if nanos == 0 { NEVER } else { nanos })
        };
        let deadline = self.call.as_ref().map_or(Ok(self.default), read)?;
        if let Some(here) = &self.call {
            import.kept(here, "deadline", format!("deadline = {}", DurationText(deadline)));
        }
        let draft = if deadline == NEVER { draft } else { draft.deadline(std(deadline)) };
        let Some(here) = self.attempt else { return Ok(draft) };
        let timeout = read(&here)?;
        if timeout == NEVER {
            import.kept(&here, "attempt_timeout", "attempt_timeout = none");
            return Ok(draft);
        }
        let clipped = timeout.min(deadline);
        let text = format!("attempt_timeout = {}", DurationText(clipped));
        if clipped < timeout {
            import.approximated(
                &here,
                "attempt_timeout",
                format!("{text}, the timeout of the call"),
            );
        } else {
            import.kept(&here, "attempt_timeout", text);
        }
        Ok(draft.attempt_timeout(std(clipped)))
    }
}
