//! The standard hedging handler has hedges instead of retries: when an attempt is slow, and also when it fails, the next one
//! is sent.

use std::time::Duration;

use redial_core::schedule::HedgeRule;
use redial_core::{Draft, Nanos, Policy, SECOND};

use super::super::export::hedges_instead;
use super::super::import::{HEDGE_AFTER_FAILURE, Import};
use super::super::usual_failures;
use super::get;
use super::read::{DAY, span, time_span, unknown};
use super::write::{as_span, ticks};
use crate::found::Note;
use crate::source::Problem;
use crate::tree::{Cursor, Value};

pub(super) fn read(hedging: &Cursor<'_>, import: &mut Import<'_>) -> Result<Draft, Problem> {
    unknown(hedging, &["MaxHedgedAttempts", "Delay", "Name"], import);
    import.places.put("hedge", import.place(hedging));
    let most = match get(hedging, "MaxHedgedAttempts") {
        Some(here) => {
            let most = here.count(1..=10)?;
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
        Some(here) if here.scalar()?.trim().strip_prefix('-').and_then(time_span).is_some() => {
            import.dropped(
                &here,
                "a negative delay: an attempt follows only a failure, as a retry here",
            );
            return Ok(draft);
        }
        Some(here) => {
            let delay = span(&here, 0..=DAY)?;
            if delay == 0 {
                let text = "hedge.after = 1ns: all attempts are sent at once";
                import.approximated(&here, "hedge.after", text);
            } else {
                import.kept(&here, "hedge.after", "hedge.after");
            }
            delay.max(1)
        }
        None => {
            import.notes.push(Note::kept("Hedging:Delay", "hedge.after = 2s, the default"));
            2 * SECOND
        }
    };
    Ok(draft.hedge(HedgeRule::after(Duration::from_nanos(delay)).at_most(most)))
}

pub(super) fn write(policy: &Policy, delay: Nanos, notes: &mut Vec<Note>) -> Value {
    let most = policy.worst_case().in_flight - 1;
    notes.push(hedges_instead("Hedging"));
    let text = format!("MaxHedgedAttempts = {most}: the hedges that may be in flight together");
    notes.push(Note::approximated("attempts", text));
    Value::table([("MaxHedgedAttempts", most.into()), ("Delay", as_span(ticks(delay)).into())])
}
