//! A queue, servers, and work that goes on when nobody waits for it any more.
//!
//! Requests of a tick and an attempt number stay together in the queue. When a server begins with some of them it
//! is known when they will be done, and with that whether anybody will still be there to hear of it: those that
//! will be heard of leave the pending ones, and whoever is pending when the time-out comes has timed out.

use std::collections::VecDeque;

use super::draws::{Selection, whole};
use super::faults::Faults;
use super::ring::{Cell, Ring};
use super::work::Work;
use crate::Stream;

/// The row of requests for which nobody has ever waited.
const NO_CALLER: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct Backend {
    /// `u64::MAX` without a limit.
    servers: u64,
    busy: u64,
    /// How many were done in this tick. When it matters, about as many are begun.
    turnover: u64,
    queue: VecDeque<Batch>,
    /// Requests in it.
    queued: u64,
    most_queued: u64,
    work: Work,
    cancels: bool,
    lost_replies: f64,
    pending: Option<Pending>,
    /// Requests that will be answered, by when they are done and by their number.
    done: Ring,
    rows: usize,
    /// Requests that nobody will hear of, by when they are done.
    unheard: Box<[u64]>,
    longest: u64,
}

/// How long callers wait.
#[derive(Debug)]
struct Pending {
    /// A reply that leaves this long after the request's arrival is in time.
    reply: f64,
    /// This long after the request's arrival its caller gives up.
    end: u64,
    /// Requests that nobody has answered or will answer in time, by when they arrived and by their number.
    pending: Ring,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    arrived: u64,
    row: usize,
    cell: Cell,
}

/// What a backend is made of, in ticks.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) servers: Option<u64>,
    pub(super) most_queued: u64,
    pub(super) backlog: u64,
    pub(super) work: Work,
    pub(super) cancels: bool,
    pub(super) lost_replies: f64,
    /// How long callers wait for a reply, and how long one is on its way.
    pub(super) timeout: Option<f64>,
    pub(super) latency: u64,
    pub(super) rows: usize,
}

impl Build {
    /// The longest that a request is worked on.
    fn longest(&self, faults: &Faults) -> u64 {
        (self.work.longest() * faults.most_slowdown()) as u64 + 2
    }

    fn give_up(&self) -> Option<u64> {
        self.timeout.map(|timeout| (timeout.round() as u64).saturating_sub(self.latency))
    }

    /// How many cells it takes.
    pub(super) fn len(&self, faults: &Faults) -> u64 {
        let pending = self.give_up().map_or(0, |end| Ring::len(end + 1, self.rows));
        Ring::len(self.longest(faults), self.rows + 1).saturating_add(pending)
    }

    pub(super) fn build(self, faults: &Faults) -> Backend {
        let (longest, rows) = (self.longest(faults), self.rows);
        let ticks = (longest + 1).next_power_of_two() as usize;
        let pending = self.timeout.zip(self.give_up()).map(|(timeout, end)| Pending {
            reply: timeout - 2.0 * self.latency as f64,
            end,
            pending: Ring::new(end + 1, rows),
        });
        let backlog = Batch { arrived: 0, row: NO_CALLER, cell: Cell::default().of(self.backlog) };
        Backend {
            servers: self.servers.unwrap_or(u64::MAX),
            busy: 0,
            turnover: 0,
            queue: VecDeque::from_iter((self.backlog > 0).then_some(backlog)),
            queued: self.backlog,
            most_queued: self.most_queued,
            work: self.work,
            cancels: self.cancels,
            lost_replies: self.lost_replies,
            pending,
            done: Ring::new(longest, rows),
            rows,
            unheard: vec![0; ticks].into(),
            longest,
        }
    }
}

/// What became of the requests that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// For how many a server is free.
    pub(super) serve: u64,
    /// How many can wait.
    pub(super) wait: u64,
}

impl Backend {
    pub(super) fn is_idle(&self) -> bool {
        self.busy == 0 && self.queued == 0
    }

    /// What is done in this tick, for callers that will hear of it; says how much it was in all. Then servers
    /// begin with what has waited.
    pub(super) fn finish(
        &mut self,
        now: u64,
        faults: &Faults,
        stream: &mut Stream,
        mut reply: impl FnMut(usize, Cell, &mut Stream),
    ) -> u64 {
        let place = now as usize & (self.unheard.len() - 1);
        let mut served = std::mem::take(&mut self.unheard[place]);
        for row in 0..self.rows {
            let cell = self.done.take(now, row);
            if cell.n > 0 {
                served += cell.n;
                reply(row, cell, stream);
            }
        }
        self.busy -= served;
        self.turnover = served;
        served + self.begin_waiting(now, faults, stream, &mut reply)
    }

    fn free(&self, now: u64, faults: &Faults) -> u64 {
        faults.servers(self.servers, now).saturating_sub(self.busy)
    }

    fn begin_waiting(
        &mut self,
        now: u64,
        faults: &Faults,
        stream: &mut Stream,
        reply: &mut impl FnMut(usize, Cell, &mut Stream),
    ) -> u64 {
        let mut served = 0;
        let mut free = self.free(now, faults).min(self.queued);
        while free > 0 {
            let Some(Batch { arrived, .. }) = self.queue.front().copied() else { break };
            let group = self.queue.iter().take_while(|batch| batch.arrived == arrived).count();
            let all = self.queue.iter().take(group).map(|batch| batch.cell.n).sum();
            let mut selection = Selection::new(free, all);
            for index in 0..group {
                let batch = &mut self.queue[index];
                let n = selection.of(batch.cell.n, stream);
                let begun = Batch { cell: batch.cell.take(n), ..*batch };
                served += self.begin(begun, now, faults, stream, reply);
                (free, self.queued) = (free - n, self.queued - n);
            }
            while self.queue.front().is_some_and(|batch| batch.cell.n == 0) {
                self.queue.pop_front();
            }
        }
        served
    }

    /// How many requests it could take in now.
    pub(super) fn room(&self, now: u64, faults: &Faults) -> Room {
        let waits = if self.servers == u64::MAX { 0 } else { self.most_queued - self.queued };
        let serve = if self.servers == u64::MAX { u64::MAX } else { self.free(now, faults) };
        Room { serve, wait: waits }
    }

    /// Callers wait for these, until they hear of them or the time-out comes.
    pub(super) fn await_reply(&mut self, row: usize, cell: Cell, now: u64, stream: &mut Stream) {
        if let Some(pending) = &mut self.pending {
            pending.pending.at(now, row).add(cell, stream);
        }
    }

    pub(super) fn enqueue(&mut self, row: usize, cell: Cell, now: u64, stream: &mut Stream) {
        if cell.n > 0 {
            self.await_reply(row, cell, now, stream);
            self.queued += cell.n;
            self.queue.push_back(Batch { arrived: now, row, cell });
        }
    }

    /// Servers begin with requests that have just arrived; says how many of them are done at once.
    pub(super) fn serve(
        &mut self,
        row: usize,
        cell: Cell,
        now: u64,
        faults: &Faults,
        stream: &mut Stream,
        mut reply: impl FnMut(usize, Cell, &mut Stream),
    ) -> u64 {
        self.await_reply(row, cell, now, stream);
        self.begin(Batch { arrived: now, row, cell }, now, faults, stream, &mut reply)
    }

    fn begin(
        &mut self,
        batch: Batch,
        now: u64,
        faults: &Faults,
        stream: &mut Stream,
        reply: &mut impl FnMut(usize, Cell, &mut Stream),
    ) -> u64 {
        let Batch { arrived, row, cell } = batch;
        if cell.n == 0 {
            return 0;
        }
        let waited = (now - arrived) as f64;
        let (mut begun, mut heard, mut served) = (0, 0, 0);
        let Self { work, pending, done, unheard, busy, .. } = self;
        let reply_by = match pending {
            _ if row == NO_CALLER => f64::NEG_INFINITY,
            Some(pending) => pending.reply - waited,
            None => f64::INFINITY,
        };
        work.split(cell.n, self.turnover, faults.slowdown(now), stream, |n, length, stream| {
            if n == 0 {
                return;
            }
            let ticks = whole(length, stream).min(self.longest);
            let mut part = if n == 1 { cell.one(begun) } else { cell.of(n) };
            begun += n;
            if length > reply_by {
                // What a server has begun with it finishes, even where the queue forgets those who gave up.
                *busy += n;
                unheard[(now + ticks.max(1)) as usize & (unheard.len() - 1)] += n;
                return;
            }
            let lost = part.thin(self.lost_replies, stream).n;
            heard += part.n;
            if ticks == 0 {
                served += n;
                reply(row, part, stream);
            } else {
                *busy += n;
                done.at(now + ticks, row).add(part, stream);
                unheard[(now + ticks) as usize & (unheard.len() - 1)] += lost;
            }
        });
        if let Some(pending) = &mut self.pending
            && heard > 0
        {
            pending.pending.at(arrived, row).n -= heard;
        }
        served
    }

    /// Those whose time-out is in this tick.
    pub(super) fn expire(&mut self, now: u64, mut expired: impl FnMut(usize, Cell)) {
        let Some(pending) = &mut self.pending else { return };
        let Some(arrived) = now.checked_sub(pending.end) else { return };
        for row in 0..self.rows {
            let cell = pending.pending.take(arrived, row);
            if cell.n > 0 {
                expired(row, cell);
            }
        }
        if self.cancels {
            self.drop_until(arrived);
        }
    }

    /// What arrived by then is not worked on. It is at the front, behind what nobody has ever waited for: all
    /// callers are as patient as each other.
    fn drop_until(&mut self, arrived: u64) {
        let front = self.queue.iter().take_while(|batch| batch.row == NO_CALLER).count();
        while let Some(batch) = self.queue.get(front).filter(|batch| batch.arrived <= arrived) {
            self.queued -= batch.cell.n;
            self.queue.remove(front);
        }
    }
}
