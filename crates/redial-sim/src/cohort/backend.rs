//! A queue and servers that continue work after its caller has given up.
//!
//! Requests with the same tick and attempt number stay together in the queue. When a server starts some of them it
//! is known when they will be done, and so whether their replies will be in time. Requests with a reply in time
//! leave `pending`; a request that is still pending at its timeout has timed out.

use std::collections::VecDeque;

use super::draws::{Selection, whole};
use super::faults::Faults;
use super::ring::{Cell, Ring};
use super::work::Work;
use crate::Stream;

/// The row of requests without a caller.
const NO_CALLER: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct Backend {
    /// `None` without a limit.
    servers: Option<u64>,
    busy: u64,
    /// How many were finished in this tick: about as many are started.
    turnover: u64,
    queue: VecDeque<Batch>,
    /// Requests in the queue.
    queued: u64,
    most_queued: u64,
    work: Work,
    cancels: bool,
    lost_replies: f64,
    pending: Option<Pending>,
    /// Requests whose replies will be in time, by when they are done and by attempt.
    done: Ring,
    rows: usize,
    /// Requests whose replies will not be in time, by when they are done.
    unheard: Box<[u64]>,
    longest: u64,
}

/// Requests with a timeout.
#[derive(Debug)]
struct Pending {
    /// A reply is in time if it leaves within this long of the request's arrival.
    reply: f64,
    /// The caller gives up this long after the request's arrival.
    end: u64,
    /// Requests without a reply in time so far, by arrival and by attempt.
    pending: Ring,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    arrived: u64,
    row: usize,
    cell: Cell,
}

/// The parameters of a backend, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Build {
    pub(super) servers: Option<u64>,
    pub(super) most_queued: u64,
    pub(super) backlog: u64,
    pub(super) work: Work,
    pub(super) cancels: bool,
    pub(super) lost_replies: f64,
    /// How long callers wait for a reply, and how long it takes to reach them.
    pub(super) timeout: Option<f64>,
    pub(super) latency: u64,
    pub(super) rows: usize,
}

impl Build {
    /// The longest time that a request is served.
    fn longest(&self, faults: &Faults) -> u64 {
        (self.work.longest() * faults.most_slowdown()) as u64 + 2
    }

    fn give_up(&self) -> Option<u64> {
        self.timeout.map(|timeout| (timeout.round() as u64).saturating_sub(self.latency))
    }

    /// How many cells it needs.
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
            servers: self.servers,
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

/// Free places for requests that arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Free servers.
    pub(super) serve: u64,
    /// Free places in the queue.
    pub(super) wait: u64,
}

impl Backend {
    pub(super) fn is_idle(&self) -> bool {
        self.busy == 0 && self.queued == 0
    }

    /// Finishes the work of this tick, then lets servers start queued requests. Returns how many requests were
    /// finished, and calls `reply` for those with a reply in time.
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
        faults.servers(self.servers.unwrap_or(u64::MAX), now).saturating_sub(self.busy)
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

    /// How many requests it could accept now.
    pub(super) fn room(&self, now: u64, faults: &Faults) -> Room {
        match self.servers {
            None => Room { serve: u64::MAX, wait: 0 },
            Some(_) => Room { serve: self.free(now, faults), wait: self.most_queued - self.queued },
        }
    }

    /// Starts the timeout of these requests.
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

    /// Servers start requests that have just arrived. Returns how many of them are finished at once.
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
                // A server finishes what it has started, even where cancelled requests leave the queue.
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

    /// Calls `expired` for the requests that time out in this tick.
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

    /// Drops requests from the queue that arrived by then. They are at the front, behind the backlog: all callers
    /// have the same timeout.
    fn drop_until(&mut self, arrived: u64) {
        let front = self.queue.iter().take_while(|batch| batch.row == NO_CALLER).count();
        while let Some(batch) = self.queue.get(front).filter(|batch| batch.arrived <= arrived) {
            self.queued -= batch.cell.n;
            self.queue.remove(front);
        }
    }
}
