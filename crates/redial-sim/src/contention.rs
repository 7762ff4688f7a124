//! Many writers, one row: how long should the loser of a race wait?
//!
//! Optimistic locking lets everybody read a row and write it back, and refuses the write if somebody else was
//! faster. Of N clients that start together one wins, and N − 1 have to read and write again: with waits that
//! are too short most writes are for nothing, with waits that are too long the row is idle. This is the model
//! behind AWS's article "Exponential Backoff And Jitter", which is cited for full jitter. It has one
//! versioned row. A client reads it (one hop there, one back) and writes it (there and back); a write whose
//! version is stale is refused, and the client waits for as long as the engine says and starts over.
//!
//! Every client is a [`Call`] of the engine. [`BACKOFFS`] are the article's.

use std::thread;

use redial_core::admit::Guards;
use redial_core::admit::budget::Budget;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Call, Context, Invalid, MS, NEVER, Nanos, Permit, Policy, Request, Verdict};

pub use crate::measure::Spread;
use crate::scenario::{Drawn, Time};
use crate::{Stream, Wheel};

/// How long a message takes.
const HOP: Time = Time::Drawn(Drawn::Normal { mean: 10 * MS, sd: 2 * MS });

/// The names of the article's backoffs, in the order of its table.
pub const BACKOFFS: [&str; 5] = ["none", "exponential", "equal", "full", "decorrelated"];

/// The backoff of the article with this name. Its first retry waits for up to 2·5 ms, so the base is 10 ms
/// here; decorrelated starts from the 5 ms themselves, and its draws are clipped.
///
/// A wait cannot be zero, so `none` is the shortest there is: always a nanosecond.
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

/// So many clients, all of them at the row at once.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// How long those wait whose write was refused.
    pub backoff: Backoff,
    /// How many there are. With short waits the writes grow with their square.
    pub clients: u32,
    /// How often it is repeated, each time with other random numbers; at least once.
    pub runs: u32,
    /// Names the random numbers.
    pub seed: u64,
}

/// What came of all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Calls that write, refused or not, in a run.
    pub writes: Spread,
    /// Until the last client has heard that its write was done.
    pub completion_ms: Spread,
    /// What happened in all runs together.
    pub events: u64,
}

impl Contention {
    /// Runs it on so many threads, of which there is at least one. Their number changes nothing in the result.
    ///
    /// # Errors
    ///
    /// The backoff is out of its range.
    pub fn run(&self, threads: usize) -> Result<Summary, Invalid> {
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
        Ok(Summary {
            writes: Spread::of(runs.iter().map(|run| run.writes as f64)),
            completion_ms: Spread::of(runs.iter().map(|run| run.ended as f64 / MS as f64)),
            events: runs.iter().map(|run| run.events).sum(),
        })
    }

    /// The model knows no giving up, so nothing but the waits is left of a policy.
    fn policy(&self) -> Result<Policy, Invalid> {
        let draft = Policy::draft().backoff(self.backoff).budget(Budget::None);
        draft.attempts(1_000_000).without_deadline().build()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    writes: u64,
    ended: Nanos,
    events: u64,
}

/// What happens next to a client, in the order of a cycle. The reply to a read is none of these: the write
/// leaves the moment it arrives.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It sends its read.
    Start,
    /// Its read is at the row.
    Read,
    /// Its write is at the row.
    Write,
    /// It hears what came of its write.
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
    /// Held from the start of a cycle to its reply.
    permit: Option<Permit>,
    /// The version that it read last.
    read: u64,
    outcome: Outcome,
}

/// The row, and everybody who wants to write it.
struct Row<'a> {
    policy: &'a Policy,
    clients: Vec<Client>,
    /// By client and step, so that what happens at the same nanosecond has an order of its own.
    due: Wheel,
    /// Writes that were done.
    version: u64,
    hops: Stream,
    /// The client's number names its stream in here, from which its call draws.
    seeds: Stream,
    run: Run,
}

impl<'a> Row<'a> {
    fn new(setting: &Contention, policy: &'a Policy, run: u64) -> Self {
        let stream = Stream::new(setting.seed).of(run);
        let client = || Client {
            call: Call::new(policy, 0, NEVER),
            permit: None,
            read: 0,
            outcome: Outcome::Success,
        };
        let mut due = Wheel::default();
        (0..setting.clients).for_each(|client| due.push(0, Step::Start.of(client)));
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

    /// Does one step of a client, and says which one follows and when.
    fn step(
        &mut self,
        cx: &Context<'_>,
        now: Nanos,
        number: u32,
        step: Step,
    ) -> Option<(Nanos, Step)> {
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
                    // A refused write has changed nothing, so anybody may repeat it.
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

    fn hop(&mut self) -> Nanos {
        HOP.draw(&mut self.hops)
    }
}
