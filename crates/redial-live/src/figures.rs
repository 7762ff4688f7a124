use std::{error, fmt};

use redial_core::Nanos;
use redial_sim::Scenario;
use redial_sim::measure::{Recorder, Run};

use crate::lag::Late;
use crate::record::Log;

/// Why there are no figures: the generator was the limit, so they would be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It woke too late.
    Late(Late),
    /// So many attempts got no answer for want of a connection.
    Broken(u32),
}

/// What a run comes to, by the rules by which simulated ones are judged. How long callers waited between attempts is
/// not recorded, so the figures about waits are zero.
pub(crate) fn of(scenario: &Scenario, log: &Log) -> Run {
    let mut recorder = Recorder::new(scenario);
    let events = log.in_order();
    for event in &events {
        match *event {
            Event::Begun(at) => recorder.calls(at, 1),
            Event::Arrived { at, number } => recorder.attempts(at, number, 1),
            Event::Served(at) => recorder.served(at, 1),
            Event::Ended { started, at, succeeded } => recorder.ended(started, at, succeeded, 1),
        }
    }
    recorder.finish(None, events.len() as u64)
}

enum Event {
    Begun(Nanos),
    Arrived { at: Nanos, number: u32 },
    Served(Nanos),
    Ended { started: Nanos, at: Nanos, succeeded: bool },
}

impl Event {
    fn at(&self) -> Nanos {
        match *self {
            Self::Begun(at)
            | Self::Arrived { at, .. }
            | Self::Served(at)
            | Self::Ended { at, .. } => at,
        }
    }
}

impl Log {
    /// Server and callers write from threads of their own, so what they write is only nearly in order.
    fn in_order(&self) -> Vec<Event> {
        let begun = self.begun.iter().map(|at| Event::Begun(*at));
        let arrived =
            self.attempts.iter().map(|it| Event::Arrived { at: it.at, number: it.number });
        let served = self.served.iter().map(|at| Event::Served(*at));
        let ended = self.ended.iter().map(|it| Event::Ended {
            started: it.started,
            at: it.at,
            succeeded: it.succeeded,
        });
        let mut events: Vec<Event> = begun.chain(arrived).chain(served).chain(ended).collect();
        events.sort_by_key(Event::at);
        events
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the generator was the limit: ")?;
        match self {
            Self::Late(late) => write!(f, "{late}"),
            Self::Broken(count) => write!(f, "{count} attempts found no connection"),
        }
    }
}

impl error::Error for Refusal {}
