//! The cohort engine: one tick after the other.

use redial_core::Policy;
use redial_core::admit::budget::{Account, Budget, Deposit};
use redial_core::admit::{Guards, RateLimit};
use redial_core::decide::Class;

use super::arrivals::CallStarts;
use super::backend::{Backend, Room};
use super::causes::{Cause, Causes};
use super::draws::{Selection, binomial};
use super::faults::Faults;
use super::plan::Plan;
use super::ring::{Cell, Clock, Ring};
use super::waiting::{WaitingCalls, Within};
use crate::Stream;
use crate::measure::{Recorder, Run};
use crate::watch::Watch;

/// Progress is reported every this many ticks.
const REPORT: u64 = 4096;

#[derive(Debug)]
pub(super) struct World<'a> {
    policy: &'a Policy,
    clock: Clock,
    /// The first tick in which no call begins.
    end: u64,
    latency: u64,
    starts: CallStarts,
    causes: Causes,
    waiting: Vec<WaitingCalls>,
    faults: Faults,
    backend: Backend,
    limit: Option<RateLimit>,
    errors: f64,
    lost_replies: f64,
    guards: Guards,
    deposits: Option<Deposit>,
    /// Requests on the network, by attempt.
    requests: Ring,
    /// Replies on the network: of served requests by attempt, of refused ones by cause and attempt.
    replies: Ring,
    refusals: Ring,
    rows: usize,
    /// Attempts that failed in this tick, and may be retried.
    failed: Vec<Failed>,
    /// Calls that began in this tick, and how many of them were refused in it.
    begun: (u64, u64),
    /// Calls that are not over.
    open: u64,
    events: u64,
    recorder: Recorder,
    stream: Stream,
}

#[derive(Debug)]
struct Failed {
    cause: Cause,
    row: usize,
    cell: Cell,
    within: Within,
}

impl<'a> World<'a> {
    pub(super) fn new(plan: Plan<'a>, seed: u64) -> Self {
        let Plan { scenario, subject, tick, .. } = plan;
        let (rows, latency) = (plan.rows, plan.latency);
        let causes = plan.causes.count();
        let starts = CallStarts::new(scenario, tick);
        let waiting = plan.waits.iter().map(|wait| wait.build(tick)).collect();
        let deposits = match subject.policy.budget() {
            Budget::Window(window) => Some(window.deposits()),
            _ => None,
        };
        let fleet = subject.policy.fleet();
        let ledgers = fleet.map_or(scenario.clients.instances, |_| 1);
        Self {
            policy: &subject.policy,
            clock: Clock { tick, offset: starts.offset() },
            end: scenario.duration.round_up(tick) / tick,
            latency,
            starts,
            waiting,
            backend: plan.build.build(&plan.faults),
            faults: plan.faults,
            limit: plan.limit.map(|rule| RateLimit::new(&rule)),
            errors: scenario.backend.errors,
            lost_replies: scenario.backend.lost_replies,
            guards: if fleet.is_some() || scenario.keeps_state(&subject.policy) {
                Guards::fleet(&subject.policy, ledgers)
            } else {
                Guards::sharing(&subject.policy, &Account::new(&Budget::None, 1), 0)
            },
            deposits,
            requests: Ring::new(latency, rows),
            replies: Ring::new(latency, rows),
            refusals: Ring::new(latency, rows * causes),
            causes: plan.causes,
            rows,
            failed: Vec::new(),
            begun: (0, 0),
            open: 0,
            events: 0,
            recorder: Recorder::new(scenario),
            stream: Stream::new(seed),
        }
    }

    pub(super) fn run(mut self, watch: &Watch) -> Run {
        let mut now = 0;
        while now < self.end || self.open > 0 || !self.backend.is_idle() {
            if now % REPORT == 0 {
                if watch.is_stopped() {
                    break;
                }
                if now < self.end {
                    watch.advance(REPORT.min(self.end - now) as f64 / self.end as f64);
                }
            }
            self.tick(now);
            now += 1;
        }
        let run = self.recorder.finish(None, self.events);
        // The recovery is defined by the start times of the last failed calls. A cell keeps two start times, and a
        // few that are too late would make the fault seem longer.
        Run { recover_ms: None, ..run }
    }

    fn tick(&mut self, now: u64) {
        self.send(now);
        self.work(now);
        self.receive(now);
        self.deliver(now);
        self.decide(now);
    }

    /// Calls begin, and others return from their wait.
    fn send(&mut self, now: u64) {
        self.begun = (0, 0);
        if now < self.end {
            let n = self.starts.calls(now, &self.faults, &mut self.stream);
            if n > 0 {
                self.open += n;
                self.begun.0 = n;
                self.events += 1;
                self.recorder.calls(self.clock.at(now), n);
                if self.deposits == Some(Deposit::Request) {
                    self.guards.deposit(0, n, self.clock.at(now));
                }
                let calls = Cell::new(n, now);
                self.requests.at(now + self.latency, 0).add(calls, &mut self.stream);
            }
        }
        for waiting in &mut self.waiting {
            let cell = waiting.pop(now, &mut self.stream);
            if cell.n > 0 {
                self.events += 1;
                self.recorder.woke(cell.n);
                let row = waiting.retry() as usize;
                self.requests.at(now + self.latency, row).add(cell, &mut self.stream);
            }
        }
    }

    /// Servers finish work and start queued requests.
    fn work(&mut self, now: u64) {
        let (replies, at) = (&mut self.replies, now + self.latency);
        let reply = |row, cell, stream: &mut Stream| replies.at(at, row).add(cell, stream);
        let served = self.backend.finish(now, &self.faults, &mut self.stream, reply);
        if served > 0 {
            self.events += 1;
            self.recorder.served(self.clock.at(now), served);
        }
    }

    /// Requests arrive.
    fn receive(&mut self, now: u64) {
        let has_outage = self.faults.has_outage(now);
        let mut all = 0;
        for row in 0..self.rows {
            let n = self.requests.at(now, row).n;
            if n > 0 {
                self.recorder.attempts(self.clock.at(now), row as u32 + 1, n);
                if has_outage {
                    self.apply_outages(row, now);
                }
                all += self.requests.at(now, row).n;
            }
        }
        if all > 0 {
            all -= self.limit(now, all);
            all -= self.fail_at_random(now);
            self.take_in(now, all);
        }
    }

    /// Outages refuse their share.
    fn apply_outages(&mut self, row: usize, now: u64) {
        let at = self.starts.moment(row).map(|moment| moment.arrives);
        for outage in 0..self.causes.outages.len() {
            let share = self.faults.outage_probability(outage, now, at);
            let hit = self.requests.at(now, row).thin(share, &mut self.stream);
            self.refuse(self.causes.outages[outage], row, hit, now);
        }
    }

    fn limit(&mut self, now: u64, all: u64) -> u64 {
        let Some(limit) = &self.limit else { return 0 };
        let over = all - limit.take_up_to(all, self.clock.at(now));
        let mut selection = Selection::new(over, all);
        for row in 0..self.rows {
            let cell = self.requests.at(now, row);
            let n = selection.of(cell.n, &mut self.stream);
            let refused = cell.take(n);
            self.refuse(Some(self.causes.limited), row, refused, now);
        }
        over
    }

    fn fail_at_random(&mut self, now: u64) -> u64 {
        let mut failed = 0;
        if self.errors > 0.0 {
            for row in 0..self.rows {
                let hit = self.requests.at(now, row).thin(self.errors, &mut self.stream);
                failed += hit.n;
                self.refuse(Some(self.causes.error), row, hit, now);
            }
        }
        failed
    }

    fn take_in(&mut self, now: u64, all: u64) {
        let Room { serve, wait } = self.backend.room(now, &self.faults);
        let serve = serve.min(all);
        let (mut served, left) = (Selection::new(serve, all), all - serve);
        let mut waiting = Selection::new(wait.min(left), left);
        let mut done = 0;
        for row in 0..self.rows {
            let mut cell = self.requests.take(now, row);
            if cell.n == 0 {
                continue;
            }
            let begun = served.of(cell.n, &mut self.stream);
            let begun = cell.take(begun);
            let queued = waiting.of(cell.n, &mut self.stream);
            let queued = cell.take(queued);
            let (replies, at) = (&mut self.replies, now + self.latency);
            let reply = |row, cell, stream: &mut Stream| replies.at(at, row).add(cell, stream);
            if begun.n > 0 {
                let stream = &mut self.stream;
                done += self.backend.serve(row, begun, now, &self.faults, stream, reply);
            }
            self.backend.enqueue(row, queued, now, &mut self.stream);
            self.refuse(self.causes.full, row, cell, now);
            self.events += 1;
        }
        if done > 0 {
            self.recorder.served(self.clock.at(now), done);
        }
    }

    /// These requests get this outcome instead of being served, or no reply.
    fn refuse(&mut self, cause: Option<Cause>, row: usize, mut cell: Cell, now: u64) {
        if cell.n == 0 {
            return;
        }
        let lost = cell.thin(self.lost_replies, &mut self.stream);
        if lost.n > 0 {
            self.backend.await_reply(row, lost, now, &mut self.stream);
        }
        match cause {
            Some(Cause(cause)) => {
                let place = self.refusals.at(now + self.latency, cause * self.rows + row);
                place.add(cell, &mut self.stream);
            }
            None => self.backend.await_reply(row, cell, now, &mut self.stream),
        }
    }

    /// Delivers replies, and expires attempts.
    fn deliver(&mut self, now: u64) {
        for row in 0..self.rows {
            let cell = self.replies.take(now, row);
            if cell.n > 0 {
                if self.deposits == Some(Deposit::Success) {
                    self.guards.deposit(0, cell.n, self.clock.at(now));
                }
                self.over(cell, now, true);
            }
            for cause in 0..self.causes.count() {
                let cell = self.refusals.take(now, cause * self.rows + row);
                if cell.n > 0 {
                    let moment = self.starts.moment(row).map(|moment| moment.refused);
                    let within = within(moment);
                    self.begun.1 += if row == 0 { cell.n } else { 0 };
                    self.failed.push(Failed { cause: Cause(cause), row, cell, within });
                }
            }
        }
        let mut expired = std::mem::take(&mut self.failed);
        let timeout = self.causes.timeout;
        let starts = &self.starts;
        self.backend.expire(now, |row, cell| {
            let moment = starts.moment(row).map(|moment| moment.expires);
            expired.push(Failed { cause: timeout, row, cell, within: within(moment) });
        });
        self.failed = expired;
    }

    fn over(&mut self, cell: Cell, now: u64, succeeded: bool) {
        self.open -= cell.n;
        self.events += 1;
        cell.end(now, succeeded, self.clock, &mut self.recorder);
    }

    /// The failed attempts withdraw from the budget together.
    fn decide(&mut self, now: u64) {
        if self.failed.is_empty() {
            return;
        }
        let mut failed = std::mem::take(&mut self.failed);
        failed.retain(|it| {
            let repeats = !self.causes.waiting(it.cause, it.row).is_empty();
            if !repeats {
                self.over(it.cell, now, false);
            }
            repeats
        });
        let all = failed.iter().map(|it| it.cell.n).sum();
        // The class only matters to budgets that do not fit cohorts.
        let granted = self.guards.withdraw_up_to(all, Class::Transient, self.clock.at(now));
        let mut favoured = if granted < all { self.favoured(granted) } else { 0 };
        let mut selection = Selection::new(granted - favoured, all - favoured);
        for mut it in failed.drain(..) {
            let first = if it.row == 0 { favoured.min(it.cell.n) } else { 0 };
            favoured -= first;
            let n = first + selection.of(it.cell.n - first, &mut self.stream);
            let retried = it.cell.take(n);
            if it.cell.n > 0 {
                self.over(it.cell, now, false);
            }
            self.wait(it.cause, it.row, retried, it.within, now);
        }
        self.failed = failed;
    }

    /// How many withdrawals of a dry budget go to calls that have just begun. A call that is refused as soon as it
    /// is made is the first to withdraw the token that it deposited itself.
    fn favoured(&mut self, granted: u64) -> u64 {
        if self.latency > 0 || self.deposits != Some(Deposit::Request) {
            return 0;
        }
        let (begun, refused) = self.begun;
        let share = refused as f64 / begun.max(1) as f64;
        binomial(granted.min(refused), share.min(1.0), &mut self.stream)
    }

    fn wait(&mut self, cause: Cause, row: usize, mut cell: Cell, within: Within, now: u64) {
        let places = self.causes.waiting(cause, row);
        for (index, place) in places.iter().enumerate() {
            let part = cell.thin(1.0 / (places.len() - index) as f64, &mut self.stream);
            if part.n > 0 {
                let (recorder, stream) = (&mut self.recorder, &mut self.stream);
                self.waiting[*place].push(part, now, within, self.policy, recorder, stream);
                self.events += 1;
            }
        }
    }
}

fn within(moment: Option<f64>) -> Within {
    moment.map_or(Within::Spread, Within::At)
}
