use std::num::NonZeroU32;

use redial_core::{Progress, Span};
use redial_queue::Priority;
use redial_queue::durable::{
    Claim, Edit, Enqueued, Filter, Job, JobId, JobLease, JobVerdict, NewJob, QueueSettings,
    Redrive, Settled, Settlement, Start, State, Tried, WhenWaiting,
};

use super::super::shop::{HOUR, NOW, Shop};
use super::steps::{Add, End, Step};

/// A job of the model. Times are numbers of steps; [`LATER`] never comes.
#[derive(Clone, Debug)]
struct Kept {
    id: JobId,
    state: State,
    key: Option<u8>,
    level: u8,
    payload: String,
    due: u64,
    /// Whether its lease lasts. If not, it runs out at once.
    lasts: bool,
    fence: i64,
    attempts: u32,
    history: Vec<(u32, &'static str)>,
}

const LATER: u64 = u64::MAX;
const CAUSE: &str = "it failed";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    done: u64,
    retried: u64,
    died: u64,
    lost: u64,
}

pub(super) struct World<'a> {
    shop: &'a Shop,
    queue: String,
    per_key: u32,
    paused: bool,
    now: u64,
    jobs: Vec<Kept>,
    /// All claims so far.
    leases: Vec<JobLease>,
    totals: Totals,
}

impl<'a> World<'a> {
    pub(super) async fn new(shop: &'a Shop, queue: String, per_key: u32) -> Self {
        let settings =
            QueueSettings { per_key: NonZeroU32::new(per_key), ..QueueSettings::default() };
        shop.store.set(&queue, &settings).await.unwrap();
        let (jobs, leases, totals) = (Vec::new(), Vec::new(), Totals::default());
        Self { shop, queue, per_key, paused: false, now: 0, jobs, leases, totals }
    }

    pub(super) async fn take(&mut self, step: &Step, place: &str) {
        self.now += 1;
        match step {
            Step::Enqueue(adds) => self.enqueue(adds, place).await,
            Step::Claim { most, lasts } => self.claim(*most, *lasts, place).await,
            Step::Settle { place: which, end } => self.settle(*which, *end, place).await,
            Step::Beat { place: which, lasts } => self.beat(*which, *lasts, place).await,
            Step::Redrive { place: which, later } => self.redrive(*which, *later, place).await,
            Step::Remove { place: which } => self.remove(*which, place).await,
            Step::Edit { place: which } => self.edit(*which, place).await,
            Step::Pause(paused) => {
                self.paused = *paused;
                let settings = QueueSettings {
                    paused: *paused,
                    per_key: NonZeroU32::new(self.per_key),
                    ..QueueSettings::default()
                };
                self.shop.store.set(&self.queue, &settings).await.unwrap();
            }
        }
    }

    fn count_active(&self, key: u8) -> u32 {
        let out = |job: &&Kept| {
            job.key == Some(key) && matches!(job.state, State::Waiting | State::Running)
        };
        self.jobs.iter().filter(out).count() as u32
    }

    fn start_state(&self, key: Option<u8>) -> State {
        match key {
            Some(key) if self.per_key > 0 && self.count_active(key) >= self.per_key => State::Held,
            _ => State::Waiting,
        }
    }

    /// A job of this key has ended.
    fn release(&mut self, key: Option<u8>) {
        let Some(key) = key else { return };
        if self.per_key == 0 || self.count_active(key) >= self.per_key {
            return;
        }
        let held = |job: &&mut Kept| job.key == Some(key) && job.state == State::Held;
        if let Some(next) = self.jobs.iter_mut().filter(held).min_by_key(|job| job.id) {
            next.state = State::Waiting;
        }
    }

    async fn enqueue(&mut self, adds: &[Add], place: &str) {
        let name = |n: usize| format!("{}.{n}", self.now);
        let new = |(n, add): (usize, &Add)| {
            let start = if add.later { Start::After(HOUR) } else { Start::Now };
            let new = NewJob::new(name(n)).priority(Priority::new(add.level)).start(start);
            match add.key {
                Some(key) => new.key(key.to_string(), add.when_waiting),
                None => new,
            }
        };
        let news = adds.iter().enumerate().map(new).collect();
        let got = self.shop.store.enqueue(&self.queue, news).await.unwrap();
        assert_eq!(got.len(), adds.len(), "{place}");
        let names: Vec<String> = (0..adds.len()).map(name).collect();
        for ((add, payload), got) in adds.iter().zip(names).zip(got) {
            let expected = self.enqueue_one(add, payload, got.id());
            assert_eq!(got, expected, "{place}");
        }
    }

    fn enqueue_one(&mut self, add: &Add, payload: String, id: JobId) -> Enqueued {
        let due = if add.later { LATER } else { self.now };
        let waits = |job: &&mut Kept| {
            job.key == add.key && matches!(job.state, State::Waiting | State::Held)
        };
        let looks = add.key.is_some() && add.when_waiting != WhenWaiting::Append;
        let other = self.jobs.iter_mut().filter(waits).max_by_key(|job| job.id).filter(|_| looks);
        if let Some(other) = other {
            return match add.when_waiting {
                WhenWaiting::Keep => Enqueued::Kept(other.id),
                WhenWaiting::Refuse => Enqueued::Refused(other.id),
                WhenWaiting::Replace | WhenWaiting::Append => {
                    other.due = if other.attempts > 0 { due.max(other.due) } else { due };
                    (other.payload, other.level) = (payload, add.level);
                    (other.attempts, other.history) = (0, Vec::new());
                    Enqueued::Replaced(other.id)
                }
            };
        }
        let state = self.start_state(add.key);
        let (key, level) = (add.key, add.level);
        let (lasts, fence, attempts, history) = (false, i64::MIN, 0, Vec::new());
        self.jobs.push(Kept {
            id,
            state,
            key,
            level,
            payload,
            due,
            lasts,
            fence,
            attempts,
            history,
        });
        Enqueued::Added(id)
    }

    async fn claim(&mut self, most: usize, lasts: bool, place: &str) {
        let lease = if lasts { HOUR } else { NOW };
        let claim = Claim { queue: self.queue.clone(), most, lease };
        let got = self.shop.store.claim(&claim).await.unwrap().jobs;
        let now = self.now;
        let is_due = |job: &&mut Kept| match job.state {
            State::Waiting => job.due <= now,
            State::Running => !job.lasts,
            State::Held | State::Dead => false,
        };
        let mut due: Vec<&mut Kept> = self.jobs.iter_mut().filter(is_due).collect();
        due.sort_by_key(|job| (std::cmp::Reverse(job.level), job.due, job.id));
        due.truncate(if self.paused { 0 } else { most });
        let ids: Vec<JobId> = due.iter().map(|job| job.id).collect();
        let got_ids: Vec<JobId> = got.iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(got_ids, ids, "{place}");
        for (kept, claimed) in due.into_iter().zip(&got) {
            if kept.state == State::Running {
                self.totals.lost += 1;
                kept.history.push((kept.attempts, Tried::LOST));
            }
            assert!(claimed.lease.fence > kept.fence, "{place}");
            (kept.state, kept.lasts, kept.fence) = (State::Running, lasts, claimed.lease.fence);
            kept.attempts += 1;
            self.leases.push(claimed.lease);
            check(kept, &claimed.job, place);
        }
    }

    /// One of all claims, and the job if the claim is still its last one.
    fn lease(&mut self, place: usize) -> Option<(JobLease, Option<usize>)> {
        let lease = *self.leases.get(place % self.leases.len().max(1))?;
        let mine = |job: &Kept| {
            job.id == lease.id && job.fence == lease.fence && job.state == State::Running
        };
        Some((lease, self.jobs.iter().position(mine)))
    }

    async fn settle(&mut self, which: usize, end: End, place: &str) {
        let Some((lease, kept)) = self.lease(which) else { return };
        let (wait, due) = if end.is_later() { (HOUR, LATER) } else { (NOW, self.now) };
        let progress = Progress { attempts: 0, step: 1, drawn: Span::from_nanos(1), poll: false };
        let verdict = match end {
            End::Done => JobVerdict::Done,
            End::Retry { .. } => JobVerdict::Retry { wait, progress },
            End::Postpone { .. } => JobVerdict::Postpone { wait },
            End::Dead => JobVerdict::Dead { reason: "why".to_owned() },
        };
        let settlement = Settlement { lease, verdict, took: NOW, outcome: CAUSE.to_owned() };
        let got = self.shop.store.settle(vec![settlement]).await.unwrap();
        let expected = if kept.is_some() { Settled::Taken } else { Settled::Stale };
        assert_eq!(got, [expected], "{place}");
        let Some(kept) = kept else { return };
        let job = &mut self.jobs[kept];
        let (key, number) = (job.key, job.attempts);
        job.state = State::Waiting;
        match end {
            End::Done => {
                self.jobs.remove(kept);
                self.totals.done += 1;
                self.release(key);
            }
            End::Retry { .. } => {
                job.due = due;
                job.history.push((number, CAUSE));
                self.totals.retried += 1;
            }
            End::Postpone { .. } => {
                job.due = due;
                job.attempts -= 1;
            }
            End::Dead => {
                job.state = State::Dead;
                job.history.push((number, CAUSE));
                self.totals.died += 1;
                self.release(key);
            }
        }
    }

    async fn beat(&mut self, which: usize, lasts: bool, place: &str) {
        let Some((lease, kept)) = self.lease(which) else { return };
        let time = if lasts { HOUR } else { NOW };
        let got = self.shop.store.beat(&[lease], time).await.unwrap();
        assert_eq!(got, [kept.is_some()], "{place}");
        if let Some(kept) = kept {
            self.jobs[kept].lasts = lasts;
        }
    }

    fn filter(&self, ids: Vec<JobId>) -> Filter {
        Filter { queue: Some(self.queue.clone()), ids, ..Filter::default() }
    }

    async fn redrive(&mut self, which: Option<usize>, later: bool, place: &str) {
        let dead = self.jobs.iter().filter(|job| job.state == State::Dead).map(|job| job.id);
        let mut dead: Vec<JobId> = dead.collect();
        dead.sort();
        let asked = match which {
            Some(which) if !dead.is_empty() => vec![dead[which % dead.len()]],
            _ => Vec::new(),
        };
        let redrive = Redrive { after: if later { HOUR } else { NOW }, apart: NOW };
        let got = self.shop.store.redrive(&self.filter(asked.clone()), redrive).await.unwrap();
        let driven = if asked.is_empty() { dead } else { asked };
        assert_eq!(got, driven.len() as u64, "{place}");
        for id in driven {
            let Some(place) = self.jobs.iter().position(|job| job.id == id) else { continue };
            let state = self.start_state(self.jobs[place].key);
            let job = &mut self.jobs[place];
            (job.state, job.attempts) = (state, 0);
            job.due = if later { LATER } else { self.now };
        }
    }

    async fn remove(&mut self, which: usize, place: &str) {
        let Some(job) = self.jobs.get(which % self.jobs.len().max(1)) else { return };
        let (id, key, state) = (job.id, job.key, job.state);
        let got = self.shop.store.remove(&self.filter(vec![id])).await.unwrap();
        assert_eq!(got, u64::from(state != State::Running), "{place}");
        if state != State::Running {
            self.jobs.retain(|job| job.id != id);
            self.release(key);
        }
    }

    async fn edit(&mut self, which: usize, place: &str) {
        let (now, count) = (self.now, self.jobs.len().max(1));
        let Some(job) = self.jobs.get_mut(which % count) else { return };
        let payload = format!("edited {now}");
        let edit = Edit { payload: Some(payload.clone().into_bytes()), ..Edit::default() };
        let got = self.shop.store.edit(job.id, edit).await.unwrap();
        assert_eq!(got, job.state != State::Running, "{place}");
        if got {
            job.payload = payload;
        }
    }

    /// Checks that the store and the model have the same jobs.
    pub(super) async fn compare(&mut self, place: &str) {
        let listed = self.shop.store.list(&self.filter(Vec::new())).await.unwrap();
        self.jobs.sort_by_key(|job| job.id);
        assert_eq!(listed.len(), self.jobs.len(), "{place}");
        for (kept, job) in self.jobs.iter().zip(&listed) {
            check(kept, job, place);
        }
        let counts = self.shop.store.counts(&self.queue).await.unwrap();
        let (done, retried) = (counts.done, counts.retried);
        let totals = Totals { done, retried, died: counts.died, lost: counts.lost };
        assert_eq!(totals, self.totals, "{place}");
        let count = |is: &dyn Fn(&Kept) -> bool| self.jobs.iter().filter(|job| is(job)).count();
        let waiting = |job: &Kept| job.state == State::Waiting;
        let rows = [
            (counts.due, count(&|job| waiting(job) && job.due != LATER)),
            (counts.later, count(&|job| waiting(job) && job.due == LATER)),
            (counts.held, count(&|job| job.state == State::Held)),
            (counts.running, count(&|job| job.state == State::Running)),
            (counts.dead, count(&|job| job.state == State::Dead)),
        ];
        for (got, expected) in rows {
            assert_eq!(got, expected as u64, "{counts:?}: {place}");
        }
    }
}

fn check(kept: &Kept, job: &Job, place: &str) {
    assert_eq!((job.id, job.state), (kept.id, kept.state), "{place}");
    assert_eq!(job.payload, kept.payload.as_bytes(), "{place}");
    assert_eq!(job.key, kept.key.map(|key| key.to_string()), "{place}");
    assert_eq!(job.progress.attempts, kept.attempts, "{place}");
    let history: Vec<_> = job.history.iter().map(|t| (t.number, &*t.outcome)).collect();
    let from = kept.history.len().saturating_sub(Tried::KEPT);
    assert_eq!(history, kept.history[from..], "{place}");
    assert_eq!(job.reason.is_some(), kept.state == State::Dead, "{place}");
}
