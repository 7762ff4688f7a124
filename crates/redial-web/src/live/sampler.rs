//! Takes a sample of all upstreams once a second, and derives from it what a person at 3 a.m. has to know.

use std::collections::{HashMap, VecDeque};

use redial::telemetry::Snapshot;
use redial_core::Stop;
use redial_core::decide::Class;
use redial_core::storm::Level;

use super::advice;
use super::sample::{Sample, UpstreamSample, rounded};
use super::state::{LiveState, RecentOutcomes, Stopped, StormVerdict, UpstreamState};

/// What the top reason of an upstream is taken from.
const REASONS_OVER: usize = 60;
/// How many samples tell whether most attempts fail now.
const FAILING_OVER: usize = 3;
/// The last stops that are shown, and for how long stops of one kind count as one entry.
const MOST_STOPS: usize = 30;
const SAME_STOP_MS: u64 = 10_000;

/// What is remembered from one sample to the next.
#[derive(Default)]
pub(super) struct Sampler {
    last_id: u64,
    upstreams: HashMap<String, Memory>,
    stops: VecDeque<Stopped>,
}

struct Memory {
    last: Snapshot,
    /// The totals at the last samples, oldest first.
    totals: VecDeque<Totals>,
    /// When the level left calm.
    since: Option<u64>,
}

const CLASSES: usize = 10;

/// Counts since the start of the process.
#[derive(Clone, Copy, Default)]
struct Totals {
    attempts: u64,
    succeeded: u64,
    /// By class.
    failures: [u64; CLASSES],
}

/// When a sample is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// In Unix milliseconds.
    pub(super) now: u64,
    /// Since the sample before, by a clock that is never set.
    pub(super) span_ms: u64,
}

/// What the program adds to the numbers of the meters.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// The meter of each queue, and how long its oldest due job has waited, as far as is known.
    pub(super) oldest_due_ms: HashMap<String, Option<u64>>,
}

impl Sampler {
    /// Takes a sample of meters.
    pub(super) fn sample(
        &mut self,
        snapshots: Vec<Snapshot>,
        time: Time,
        backlog: &Backlog,
    ) -> (Sample, LiveState) {
        let Time { now, span_ms } = time;
        // A clock that is set back must not repeat numbers.
        self.last_id = now.max(self.last_id + 1);
        let mut sample = Sample { id: self.last_id, at: now, span_ms, upstreams: Vec::new() };
        let mut upstreams = Vec::new();
        for snapshot in snapshots {
            let known = self.upstreams.get(&snapshot.upstream);
            let name = snapshot.upstream.clone();
            let one = UpstreamSample::between(&name, known.map(|it| &it.last), &snapshot);
            let stops = known.map_or([0; Stop::ALL.len()], |it| it.last.stops);
            note_stops(&mut self.stops, &name, (stops, snapshot.stops), now);
            let memory = self.upstreams.entry(snapshot.upstream.clone()).or_insert_with(|| {
                Memory {
                    last: snapshot.clone(), // A meter that appears has counted from zero.
                    totals: VecDeque::from([Totals::default()]),
                    since: None,
                }
            });
            memory.remember(snapshot, now);
            let queue = backlog.oldest_due_ms.get(&memory.last.upstream);
            let oldest_due_ms = queue.copied().flatten();
            // A meter without calls is shown only if jobs wait for it.
            if memory.last.calls > 0 || oldest_due_ms.is_some_and(|due| due > 0) {
                upstreams.push(memory.upstream(&one, queue.is_some(), oldest_due_ms));
            }
            if memory.last.calls > 0 {
                sample.upstreams.push(one);
            }
        }
        upstreams.sort_by(|a, b| b.badness().total_cmp(&a.badness()).then(a.name.cmp(&b.name)));
        let verdict = StormVerdict::of(&upstreams);
        let stops = self.stops.iter().rev().cloned().collect();
        (sample, LiveState { verdict, upstreams, stops })
    }
}

impl Memory {
    fn remember(&mut self, snapshot: Snapshot, now: u64) {
        self.last = snapshot;
        if self.totals.len() > REASONS_OVER {
            self.totals.pop_front();
        }
        let Snapshot { attempts, succeeded, failures, .. } = self.last;
        self.totals.push_back(Totals { attempts, succeeded, failures });
        match self.last.reading.level {
            Level::Calm => self.since = None,
            _ => self.since = self.since.or(Some(now)),
        }
    }

    /// The attempts of the last minute.
    fn recent_attempts(&self) -> u64 {
        let before = self.totals.front().map_or(0, |before| before.attempts);
        self.last.attempts.saturating_sub(before)
    }

    /// Whether most attempts of the last seconds failed.
    fn outcomes(&self) -> RecentOutcomes {
        let before = self.totals.iter().rev().nth(FAILING_OVER).copied().unwrap_or_default();
        RecentOutcomes {
            attempts: self.last.attempts.saturating_sub(before.attempts),
            succeeded: self.last.succeeded.saturating_sub(before.succeeded),
        }
    }

    /// The class of most failures of the last minute, and how many there were.
    fn top_failure(&self) -> Option<(Class, u64)> {
        let before = self.totals.front()?.failures;
        let both = self.last.failures.iter().zip(before);
        let recent = both.map(|(now, before)| now.saturating_sub(before));
        // A loser of a hedge has not failed.
        let counted = Class::all().zip(recent).filter(|(class, _)| *class != Class::Cancelled);
        counted.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count)
    }

    fn upstream(
        &self,
        sample: &UpstreamSample,
        is_queue: bool,
        oldest_due_ms: Option<u64>,
    ) -> UpstreamState {
        let Snapshot { reading, balance, breakers, in_flight, parked, .. } = self.last;
        let top = self.top_failure();
        let mut upstream = UpstreamState {
            name: self.last.upstream.clone(),
            level: reading.level.name(),
            multiplier: sample.multiplier,
            amplification: sample.amplification,
            surge: reading.surge().map(rounded),
            since: self.since,
            reason: top.map(|(class, _)| advice::failures(class)),
            failures: top.map_or(0, |(_, count)| count),
            attempts: self.recent_attempts(),
            budget_left: balance,
            breaker: breakers.map(advice::breaker),
            in_flight,
            parked,
            is_queue,
            oldest_due_ms,
            action: None,
            is_failing: self.outcomes().are_failures(),
            outcomes: self.outcomes(),
            rank: reading.level as u8,
            had_calls: self.last.calls > 0,
        };
        upstream.action = advice::action(&upstream, &self.last, top.map(|(class, _)| class));
        upstream
    }
}

/// Adds what stopped between two samples to the list.
fn note_stops<const N: usize>(
    list: &mut VecDeque<Stopped>,
    name: &str,
    (before, now): ([u64; N], [u64; N]),
    at: u64,
) {
    for (reason, (before, now)) in Stop::ALL.into_iter().zip(before.into_iter().zip(now)) {
        let count = now.saturating_sub(before);
        // A caller that left is not a decision of ours.
        if count == 0 || reason == Stop::Cancelled {
            continue;
        }
        let is_same = |known: &&mut Stopped| {
            known.upstream == *name
                && known.reason == reason.name()
                && at.saturating_sub(known.first) < SAME_STOP_MS
        };
        if let Some(known) = list.iter_mut().rev().find(is_same) {
            known.count += count;
            known.at = at;
            continue;
        }
        if list.len() >= MOST_STOPS {
            list.pop_front();
        }
        let (upstream, meaning) = (name.to_owned(), reason.to_string());
        let reason = reason.name();
        list.push_back(Stopped { at, first: at, upstream, reason, meaning, count });
    }
}
