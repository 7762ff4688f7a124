//! Many writers of one row: how long should a client wait whose write was refused?
//!
//! With optimistic locking all clients may read a row and write it back, and a write is refused if the row has
//! changed in between. Of N clients that start together one wins, and N − 1 have to read and write again. If their
//! waits are too short most writes are wasted; if they are too long the row is idle. This is the model of AWS's
//! article "Exponential Backoff And Jitter", which is cited for full jitter. It has one versioned row. A client
//! reads it (one hop there, one back) and writes it (there and back). A write with a stale version is refused, and
//! the client waits as the engine says and starts over.
//!
//! Every client is a [`Call`] of the engine. [`BACKOFFS`] are those of the article.

use std::thread;

use redial_core::admit::Guards;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{
    Call, Context, Deadline, Draft, Invalid, Permit, Policy, Request, Span, Time, Verdict,
};

pub use crate::measure::Spread;
use crate::scenario::{Drawn, HowLong};
use crate::{Stream, Wheel};

/// How long a message takes.
const HOP: HowLong =
    HowLong::Drawn(Drawn::Normal { mean: Span::from_millis(10), sd: Span::from_millis(2) });

/// The names of the article's backoffs, in the order of its table.
pub const BACKOFFS: [&str; 5] = ["none", "exponential", "equal", "full", "decorrelated"];

/// The backoff of the article with this name. The article's first retry waits for up to 2·5 ms, so the base is 10
/// ms here; decorrelated starts from 5 ms, and its draws are clipped.
///
/// A wait cannot be zero, so `none` is a wait of one nanosecond.
pub fn backoff(name: &str) -> Option<Backoff> {
    use core::time::Duration;
    let cap = Duration::from_secs(2);
    let doubling = Backoff::exponential(Duration::from_millis(10), cap);
    match name {
        "none" => Some(Backoff::constant(Duration::from_nanos(1)).jitter(Jitter::None)),
        "exponential" => Some(doubling.jitter(Jitter::None)),
        "equal" => Some(doubling.jitter(Jitter::Equal)),
        "full" => Some(doubling),
        "decorrelated" => {
            let tripling = Backoff::exponential(Duration::from_millis(5), cap);
            Some(tripling.jitter(Jitter::Decorrelated).clipped())
        }
        _ => None,
    }
}

/// Clients that write the same row at once.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// The backoff after a refused write.
    pub backoff: Backoff,
    /// How many clients there are. With short waits the writes grow with their square.
    pub clients: u32,
    /// How many runs to make, each with its own random numbers; at least one.
    pub runs: u32,
    /// The seed.
    pub seed: u64,
}

/// The figures of all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContentionSummary {
    /// Writes in a run, refused or not.
    pub writes: Spread,
    /// Until the last client knows that its write succeeded.
    pub completion_ms: Spread,
    /// The events of all runs.
    pub events: u64,
}

impl Contention {
    /// Runs it on this many threads, at least one. Their number does not change the result.
    ///
    /// # Errors
    ///
    /// The backoff is out of its range.
    pub fn run(&self, threads: usize) -> Result<ContentionSummary, Invalid> {
        let policy = &self.policy()?;
        let mut runs = vec![Run::default(); self.runs.max(1) as usize];
        let share = runs.len().div_ceil(threads.max(1));
        thread::scope(|scope| {
            for (chunk, first) in runs.chunks_mut(share).zip((0_u64..).step_by(share)) {
                scope.spawn(move || {
                    for (run, number) in chunk.iter_mut().zip(first..) {
                        *run = Row::new(self, policy, number).race();
                    }
                });
            }
        });
        Ok(ContentionSummary {
            writes: Spread::of(runs.iter().map(|run| run.writes as f64)),
            completion_ms: Spread::of(
                runs.iter().map(|run| run.ended.since_zero().as_millis_f64()),
            ),
            events: runs.iter().map(|run| run.events).sum(),
        })
    }

    /// In this model clients never give up, so only the backoff of a policy matters.
    fn policy(&self) -> Result<Policy, Invalid> {
        Draft::bare(1_000_000).backoff(self.backoff).build()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    writes: u64,
    ended: Time,
    events: u64,
}

/// The next step of a client, in the order of a cycle. The reply to a read is not a step: the write leaves when it
/// arrives.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends its read.
    Start,
    /// Its read arrives at the row.
    Read,
    /// Its write arrives at the row.
    Write,
    /// The reply to its write arrives.
    Reply,
}

impl Step {
    const ALL: [Self; 4] = [Self::Start, Self::Read, Self::Write, Self::Reply];

    /// An event of the wheel: the client, and this step in the lowest bits.
    fn of(self, client: u32) -> u32 {
        client << 2 | self as u32
    }

    fn read(what: u32) -> (u32, Self) {
        (what >> 2, Self::ALL[(what & 3) as usize])
    }
}

struct Client {
    call: Call,
    /// Held from the start of a cycle to its end.
    permit: Option<Permit>,
    /// The version that it read last.
    read: u64,
    outcome: Outcome,
}

/// The row and its writers.
struct Row<'a> {
    policy: &'a Policy,
    clients: Vec<Client>,
    /// By client and step, so that events at the same nanosecond are ordered.
    due: Wheel,
    /// The number of successful writes.
    version: u64,
    hops: Stream,
    /// The client's number selects its stream, which seeds its call.
    seeds: Stream,
    run: Run,
}

impl<'a> Row<'a> {
    fn new(setting: &Contention, policy: &'a Policy, run: u64) -> Self {
        let stream = Stream::new(setting.seed).of(run);
        let client = || Client {
            call: Call::new(policy, Time::ZERO, Deadline::NONE),
            permit: None,
            read: 0,
            outcome: Outcome::Success,
        };
        let mut due = Wheel::default();
        (0..setting.clients).for_each(|client| due.push(Time::ZERO, Step::Start.of(client)));
        Self {
            policy,
            clients: (0..setting.clients).map(|_| client()).collect(),
            due,
            version: 0,
            hops: stream.of(0),
            seeds: stream.of(1),
            run: Run::default(),
        }
    }

    fn race(mut self) -> Run {
        let policy = self.policy;
        let guards = Guards::new(policy, 1, 0);
        let cx = Context { policy, guards: &guards, observer: None, request: Request::default() };
        while let Some((now, what)) = self.due.pop() {
            self.run.events += 1;
            self.run.ended = now;
            let (client, step) = Step::read(what);
            if let Some((at, next)) = self.step(&cx, now, client, step) {
                self.due.push(at, next.of(client));
            }
        }
        self.run
    }

    /// Takes one step of a client, and returns the next one and its time.
    fn step(
        &mut self,
        cx: &Context<'_>,
        now: Time,
        number: u32,
        step: Step,
    ) -> Option<(Time, Step)> {
        let client = &mut self.clients[number as usize];
        match step {
            Step::Start => {
                client.permit = Some(client.call.admit(cx, now).ok()?);
                Some((now + self.hop(), Step::Read))
            }
            Step::Read => {
                client.read = self.version;
                Some((now + self.hop() + self.hop(), Step::Write))
            }
            Step::Write => {
                self.run.writes += 1;
                client.outcome = if client.read == self.version {
                    self.version += 1;
                    Outcome::Success
                } else {
                    // A refused write has changed nothing, so it is safe to repeat.
                    Failure::new(Class::Refused).into()
                };
                Some((now + self.hop(), Step::Reply))
            }
            Step::Reply => {
                let seed = || self.seeds.of(number.into()).bits();
                match client.call.settle(cx, client.permit.take()?, &client.outcome, now, seed) {
                    Verdict::Wait(wake) => Some((wake, Step::Start)),
                    Verdict::Done | Verdict::InFlight | Verdict::Stop(_) => None,
                }
            }
        }
    }

    fn hop(&mut self) -> Span {
        HOP.draw(&mut self.hops)
    }
}
