//! The servers of a service, and the requests that wait for them or share them.

use std::collections::VecDeque;
use std::mem;

use redial_core::{Span, Time};

use super::service_state::ServiceState;
use super::sharing::Sharing;
use crate::faults::Failing;
use crate::scenario::{Discipline, nearest};

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) busy: u32,
    queue: VecDeque<u32>,
    /// Requests in the queue that will not be served.
    dropped: u32,
    /// Rejections whose work was not started.
    pub(super) rejected: u64,
    /// Instead of all of these, where servers are shared.
    pub(super) sharing: Sharing,
}

/// In a queue with the newest first, dropped requests are removed when there are this many, and more than others.
const COMPACT_FROM: u32 = 64;

impl ServiceState<'_> {
    /// How many servers of a shard may start work now.
    #[inline]
    pub(super) fn servers(&mut self, now: Time) -> u32 {
        if self.servers_until.is_over(now) {
            self.count_servers(now);
        }
        self.servers
    }

    #[cold]
    fn count_servers(&mut self, now: Time) {
        let all = self.config.servers.map_or(u32::MAX, |servers| servers.0);
        self.servers = self.capacity.servers(all.into(), now) as u32;
        self.servers_until = self.capacity.next_change(now);
    }

    /// How long a server takes for a request that it starts now.
    #[inline(always)]
    pub(super) fn work(&mut self, shard: u32, failing: Option<Failing>, now: Time) -> Span {
        let time = &self.config.service;
        let mut work = time.base.draw(&mut self.stream);
        if !time.per_request.is_zero() {
            let it = &self.shards[shard as usize];
            work += time.per_request * u64::from(it.busy + it.sharing.requests);
        }
        if let Some(failing) = failing {
            work = nearest(work.as_nanos_f64() * f64::from(failing.cost));
        }
        self.capacity.service_time(work, now)
    }

    /// How long a server takes for a rejection.
    pub(super) fn rejection_work(&mut self, shard: u32, now: Time) -> Span {
        let work = self.work(shard, None, now);
        nearest(work.as_nanos_f64() * self.config.reject_cost)
    }

    /// Whether the servers work on all requests at once.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.config.discipline == Discipline::ProcessorSharing
    }

    /// Puts a request at the end of the queue, or to the others that share the servers.
    pub(super) fn enqueue(
        &mut self,
        shard: u32,
        request: u32,
        failing: Option<Failing>,
        now: Time,
    ) {
        if !self.is_shared() {
            return self.shards[shard as usize].queue.push_back(request);
        }
        self.progress(shard, now);
        self.shards[shard as usize].sharing.requests += 1;
        let work = self.work(shard, failing, now);
        self.shards[shard as usize].sharing.add(request, work);
    }

    /// Drops a queued request: it will not be served.
    pub(super) fn drop_queued(&mut self, shard: u32, now: Time) {
        self.inside -= 1;
        if !self.is_shared() {
            self.shards[shard as usize].dropped += 1;
            return;
        }
        self.progress(shard, now);
        self.shards[shard as usize].sharing.requests -= 1;
    }

    /// Counts the work of shared servers.
    pub(super) fn progress(&mut self, shard: u32, now: Time) {
        let servers = self.servers(now);
        self.shards[shard as usize].sharing.progress(servers, now);
    }

    /// When to look at shared servers next, unless an event is due by then.
    pub(super) fn set_timer(&mut self, shard: u32, now: Time) -> Option<Time> {
        self.progress(shard, now);
        self.shards[shard as usize].sharing.set_timer(self.servers_until)
    }

    /// Whether an event of shared servers is not stale.
    pub(super) fn take_timer(&mut self, shard: u32, now: Time) -> bool {
        self.shards[shard as usize].sharing.take_timer(now)
    }

    /// The next request that shared servers are done with. It may have been dropped.
    pub(super) fn next_done(&mut self, shard: u32, now: Time) -> Option<u32> {
        self.progress(shard, now);
        self.shards[shard as usize].sharing.next_done()
    }

    /// The queue, if so many of its requests were dropped that they should be removed. In a queue with the newest
    /// first they may never reach the front.
    pub(super) fn queue_to_compact(&mut self, shard: u32) -> Option<VecDeque<u32>> {
        let it = &mut self.shards[shard as usize];
        let compact = it.dropped >= COMPACT_FROM && it.dropped as usize > it.queue.len() / 2;
        (compact && self.config.discipline == Discipline::Lifo).then(|| {
            it.dropped = 0;
            mem::take(&mut it.queue)
        })
    }

    /// Puts the other requests back.
    pub(super) fn set_queue(&mut self, shard: u32, queue: VecDeque<u32>) {
        self.shards[shard as usize].queue = queue;
    }

    /// A dropped request has reached the front.
    pub(super) fn skip(&mut self, shard: u32) {
        self.shards[shard as usize].dropped -= 1;
    }

    /// A server has finished work that it started at `began`.
    pub(super) fn free(&mut self, shard: u32, began: Time, now: Time) {
        if self.is_shared() {
            self.progress(shard, now);
            self.shards[shard as usize].sharing.requests -= 1;
            return;
        }
        self.shards[shard as usize].busy -= 1;
        if let Some(slots) = &mut self.slots {
            slots.held(began, now);
        }
    }

    /// A server starts the work of a rejection, which takes this long.
    pub(super) fn begin_rejected(&mut self, shard: u32, now: Time) -> Option<Span> {
        let servers = self.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.rejected == 0 || it.busy >= servers {
            return None;
        }
        (it.rejected, it.busy) = (it.rejected - 1, it.busy + 1);
        Some(self.rejection_work(shard, now))
    }

    /// A server has finished the work of a rejection.
    pub(super) fn free_rejected(&mut self, shard: u32) {
        self.shards[shard as usize].busy -= 1;
    }

    /// The next queued request that a server can start. It may have been dropped.
    pub(super) fn next(&mut self, shard: u32, now: Time) -> Option<u32> {
        let servers = self.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.busy >= servers {
            return None;
        }
        match self.config.discipline {
            Discipline::Lifo => it.queue.pop_back(),
            _ => it.queue.pop_front(),
        }
    }

    pub(super) fn begin(&mut self, shard: u32, failing: Option<Failing>, now: Time) -> Span {
        self.shards[shard as usize].busy += 1;
        self.work(shard, failing, now)
    }
}

impl Shard {
    /// How many requests are queued, or share the servers.
    pub(super) fn waiting(&self) -> u64 {
        (self.queue.len() - self.dropped as usize) as u64 + u64::from(self.sharing.requests)
    }
}
