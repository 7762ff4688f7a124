//! Durations in the configs of meshes, which all have a resolution of a millisecond.

use redial_core::schedule::Backoff;
use redial_core::{Draft, LONGEST_DURATION, Span, TimeLimit};

use super::import::Import;
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Cursor;

/// The base of Envoy's waits, if a config does not set it.
pub(super) const ENVOY_BASE: Span = Span::from_millis(25);
/// The shortest duration of a policy.
pub(super) const SHORTEST_DURATION: Span = Span::from_nanos(1);

/// A duration in protobuf's JSON: seconds.
pub(super) fn seconds(here: &Cursor<'_>) -> Result<Span, Problem> {
    let form = || here.problem("must be seconds such as \"0.25s\" or \"15s\"");
    let text = here.text().map_err(|_| form())?;
    let digits = text.strip_suffix('s').ok_or_else(form)?;
    if digits.contains(|c: char| !c.is_ascii_digit() && c != '.') {
        return Err(form());
    }
    text.parse().map_err(|_| form())
}

/// A Go duration, as in Istio, Linkerd and the Gateway API: `1h10m`, `500ms`, `0`.
pub(super) fn units(here: &Cursor<'_>) -> Result<Span, Problem> {
    let text = here.scalar()?;
    if text == "0" {
        return Ok(Span::ZERO);
    }
    let form = || here.problem("must be a duration such as 500ms or 1m30s, with h, m, s or ms");
    let fits = !text.contains(['d', ' ']);
    text.parse().ok().filter(|_| fits).ok_or_else(form)
}

/// A duration that must not be zero.
pub(super) fn above_zero(here: &Cursor<'_>, span: Span) -> Result<Span, Problem> {
    if span.is_zero() { Err(here.problem("must be above zero")) } else { Ok(span) }
}

/// Rounded up to whole milliseconds: a timeout of zero would mean none.
pub(super) fn whole_ms(span: Span) -> Span {
    span.max(SHORTEST_DURATION).round_up(Span::MILLISECOND)
}

/// A duration in protobuf's JSON.
pub(crate) fn as_seconds(span: Span) -> String {
    let ms = span.round_up(Span::MILLISECOND).as_millis();
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        rest => format!("{}.{}s", ms / 1000, format!("{rest:03}").trim_end_matches('0')),
    }
}

/// A duration in one unit, for Linkerd and Istio.
pub(crate) fn as_unit(span: Span) -> String {
    span.round_up(Span::MILLISECOND).to_string()
}

/// A duration in hours, minutes, seconds and milliseconds, each of at most five digits (GEP-2257).
pub(crate) fn as_parts(span: Span) -> String {
    let ms = span.round_up(Span::MILLISECOND).as_millis();
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
pub(super) fn tenfold(base: Span) -> Span {
    (base * 10).min(LONGEST_DURATION).max(base)
}

/// Envoy's waits with the default cap.
pub(super) fn doubling(base: Span) -> Backoff {
    Backoff::exponential(base.into(), tenfold(base).into())
}

/// The ttl of a budget, which must be 1 s to 60 s here, and a note if that changes it.
pub(super) fn window(asked: Span, here: Option<&Cursor<'_>>) -> (Span, Option<Note>) {
    let ttl = asked.clamp(Span::SECOND, Span::from_secs(60));
    let text = format!("ttl = {ttl}: a policy has 1s to 60s");
    let note = here.filter(|_| ttl != asked).map(|here| Note::approximated(here.path(), text));
    (ttl, note)
}

/// The timeouts of a call and of an attempt, where zero means none. An attempt timeout above the call's has no effect,
/// and is clipped.
pub(super) struct Timeouts<'a> {
    pub(super) call: Option<Cursor<'a>>,
    pub(super) attempt: Option<Cursor<'a>>,
    /// The default timeout of a call.
    pub(super) default: TimeLimit,
    pub(super) read: fn(&Cursor<'_>) -> Result<Span, Problem>,
}

impl Timeouts<'_> {
    pub(super) fn apply(self, draft: Draft, import: &mut Import<'_>) -> Draft {
        let read = |here: &Cursor<'_>, import: &Import<'_>| {
            let span = import.problems.or(Span::ZERO, (self.read)(here));
            TimeLimit::from(Some(span).filter(|span| !span.is_zero()))
        };
        let deadline = self.call.as_ref().map_or(self.default, |here| read(here, import));
        if let Some(here) = &self.call {
            import.kept(here, "deadline", format!("deadline = {deadline}"));
        }
        let draft = match deadline.duration() {
            Some(deadline) => draft.deadline(deadline),
            None => draft,
        };
        let Some(here) = self.attempt else { return draft };
        let Some(timeout) = read(&here, import).span() else {
            import.kept(&here, "attempt_timeout", "attempt_timeout = none");
            return draft;
        };
        let clipped = deadline.cap(timeout);
        let text = format!("attempt_timeout = {clipped}");
        if clipped < timeout {
            import.approximated(
                &here,
                "attempt_timeout",
                format!("{text}, the timeout of the call"),
            );
        } else {
            import.kept(&here, "attempt_timeout", text);
        }
        draft.attempt_timeout(clipped.into())
    }
}
