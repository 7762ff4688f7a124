use std::{error, fmt};

use redial_core::Time;
use redial_sim::Scenario;
use redial_sim::measure::{Recorder, Run};

use crate::lag::Late;
use crate::record::EventLog;

/// Why there are no figures: the load generator was the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconclusive {
    /// It woke too late.
    Late(Late),
    /// This many attempts found no connection.
    Broken(u32),
}

/// Computes the figures of a run by the same rules as for simulated runs. Waits between attempts are not recorded,
/// so the figures about them are zero.
pub(crate) fn of(scenario: &Scenario, log: &EventLog) -> Run {
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
    Begun(Time),
    Arrived { at: Time, number: u32 },
    Served(Time),
    Ended { started: Time, at: Time, succeeded: bool },
}

impl Event {
    fn at(&self) -> Time {
        match *self {
            Self::Begun(at)
            | Self::Arrived { at, .. }
            | Self::Served(at)
            | Self::Ended { at, .. } => at,
        }
    }
}

impl EventLog {
    /// Server and callers record from their own threads, so their events are only nearly ordered.
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

impl fmt::Display for Inconclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the generator was the limit: ")?;
        match self {
            Self::Late(late) => write!(f, "{late}"),
            Self::Broken(count) => write!(f, "{count} attempts found no connection"),
        }
    }
}

impl error::Error for Inconclusive {}
