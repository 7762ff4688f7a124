//! The standard hedging handler has hedges instead of retries: when an attempt is slow, and also when it fails, the next one
//! is sent.

use redial_core::schedule::HedgeRule;
use redial_core::{Draft, Policy, Span};

use super::super::export::hedges_instead;
use super::super::import::{HEDGE_AFTER_FAILURE, Import};
use super::super::time::SHORTEST_DURATION;
use super::super::usual_failures;
use super::read::{span, time_span, unknown};
use super::write::{as_time_span, ticks};
use super::{DAY, get};
use crate::format::Note;
use crate::tree::{Cursor, Value};

pub(super) fn read(hedging: &Cursor<'_>, import: &mut Import<'_>) -> Draft {
    unknown(hedging, &["MaxHedgedAttempts", "Delay", "Name"], import);
    import.places.put("hedge", import.place(hedging));
    let most = match get(hedging, "MaxHedgedAttempts") {
        Some(here) => {
            let most = import.problems.or(1, here.count(1..=10));
            import.kept(&here, "attempts", format!("attempts = {}: it counts hedges", most + 1));
            most
        }
        None => {
            let text = "attempts = 2: one hedge by default";
            import.notes.push(Note::kept("Hedging:MaxHedgedAttempts", text));
            1
        }
    };
    let draft = Draft::bare(most + 1).retry_on(usual_failures());
    import.notes.push(Note::approximated(hedging.path(), HEDGE_AFTER_FAILURE));
    let delay = match get(hedging, "Delay") {
        Some(here) if is_negative(&here) => {
            import.dropped(
                &here,
                "a negative delay: an attempt follows only a failure, as a retry here",
            );
            return draft;
        }
        Some(here) => {
            let delay = import.problems.or(Span::from_secs(2), span(&here, Span::ZERO..=DAY));
            if delay.is_zero() {
                let text = "hedge.after = 1ns: all attempts are sent at once";
                import.approximated(&here, "hedge.after", text);
            } else {
                import.kept(&here, "hedge.after", "hedge.after");
            }
            delay.max(SHORTEST_DURATION)
        }
        None => {
            import.notes.push(Note::kept("Hedging:Delay", "hedge.after = 2s, the default"));
            Span::from_secs(2)
        }
    };
    draft.hedge(HedgeRule::after(delay.into()).at_most(most))
}

fn is_negative(delay: &Cursor<'_>) -> bool {
    let text = delay.scalar().unwrap_or_default();
    text.trim().strip_prefix('-').and_then(time_span).is_some()
}

pub(super) fn write(policy: &Policy, delay: Span, notes: &mut Vec<Note>) -> Value {
    let most = policy.worst_case().in_flight - 1;
    notes.push(hedges_instead("Hedging"));
    let text = format!("MaxHedgedAttempts = {most}: the hedges that may be in flight together");
    notes.push(Note::approximated("attempts", text));
    Value::table([("MaxHedgedAttempts", most.into()), ("Delay", as_time_span(ticks(delay)).into())])
}
