//! What one silent destination of ten costs the other nine. A store in memory stands in for a slow disk, and time is virtual,
//! so the figures are those of the worker alone, on any machine. `cargo xtask bench webhooks` measures the real thing.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use redial_core::Progress;
use redial_queue::durable::{
    Claim, Claimed, Claims, Counts, DurableQueue, Edit, Enqueued, Filter, Group, Handled, Handler,
    Job, JobId, JobLease, JobVerdict, NewJob, QueueSettings, Redrive, Reply, Settled, Settlement,
    State, Store, StoreError, Worker, standard,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

const DESTINATIONS: u64 = 10;
const PER_SECOND: u64 = 500;
const SECONDS: u64 = 20;
const SERVICE: Duration = Duration::from_millis(5);

/// One queue, behind a writer that commits all requests of the last commit's time at once.
struct SlowStore {
    commit: Duration,
    start: Instant,
    jobs: Mutex<Jobs>,
    changed: Notify,
}

#[derive(Default)]
struct Jobs {
    /// By when they are due, and by number.
    waiting: BTreeMap<(Duration, i64), Job>,
    running: BTreeMap<i64, Job>,
    added: i64,
    /// When the commit that runs ends, and the next one if requests wait for it.
    commits: (Duration, Option<Duration>),
}

impl SlowStore {
    fn new(commit: Duration) -> Arc<Self> {
        let (start, jobs, changed) = (Instant::now(), Mutex::default(), Notify::new());
        Arc::new(Self { commit, start, jobs, changed })
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap()
    }

    async fn committed(&self) {
        let ends = {
            let (now, mut jobs) = (self.start.elapsed(), self.jobs());
            let (mut ends, mut next) = jobs.commits;
            if now >= ends {
                (ends, next) = (next.unwrap_or(Duration::ZERO), None);
            }
            if now >= ends {
                ends = now + self.commit;
                jobs.commits = (ends, None);
                ends
            } else {
                let next = next.unwrap_or(ends + self.commit);
                jobs.commits = (ends, Some(next));
                next
            }
        };
        sleep_until(self.start + ends).await;
    }
}

impl Store for SlowStore {
    fn enqueue<'a>(&'a self, queue: &'a str, new: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
        Box::pin(async move {
            self.committed().await;
            let (now, mut jobs) = (self.start.elapsed(), self.jobs());
            let added = new.into_iter().map(|new| {
                jobs.added += 1;
                let id = JobId(jobs.added);
                jobs.waiting.insert((now, id.0), job(id, queue, new));
                Enqueued::Added(id)
            });
            let added = added.collect();
            self.changed.notify_one();
            Ok(added)
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        Box::pin(async move {
            self.committed().await;
            let (now, mut jobs) = (self.start.elapsed(), self.jobs());
            let mut claims = Claims::default();
            while claims.jobs.len() < claim.most
                && jobs.waiting.first_key_value().is_some_and(|((due, _), _)| *due <= now)
            {
                let Some((_, mut job)) = jobs.waiting.pop_first() else { break };
                job.progress.attempts += 1;
                jobs.running.insert(job.id.0, job.clone());
                let lease = JobLease { id: job.id, fence: 1 };
                claims.jobs.push(Claimed { job, lease, age: Duration::ZERO });
            }
            let next = jobs.waiting.first_key_value();
            claims.next = next.map(|((due, _), _)| due.saturating_sub(now));
            Ok(claims)
        })
    }

    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        Box::pin(async move {
            self.committed().await;
            let (now, mut jobs) = (self.start.elapsed(), self.jobs());
            for Settlement { lease, verdict, .. } in &settlements {
                let Some(mut job) = jobs.running.remove(&lease.id.0) else { continue };
                if let JobVerdict::Postpone { wait } = verdict {
                    job.progress.attempts -= 1;
                    jobs.waiting.insert((now + *wait, job.id.0), job);
                }
            }
            Ok(vec![Settled::Taken; settlements.len()])
        })
    }

    fn beat<'a>(&'a self, leases: &'a [JobLease], _: Duration) -> Reply<'a, Vec<bool>> {
        Box::pin(async move {
            self.committed().await;
            Ok(vec![true; leases.len()])
        })
    }

    fn changed<'a>(&'a self, _: &'a str, _: u64) -> Reply<'a, ()> {
        Box::pin(async {
            self.changed.notified().await;
            Ok(())
        })
    }

    fn get(&self, _: JobId) -> Reply<'_, Option<Job>> {
        unused()
    }

    fn list<'a>(&'a self, _: &'a Filter) -> Reply<'a, Vec<Job>> {
        unused()
    }

    fn count<'a>(&'a self, _: &'a Filter) -> Reply<'a, u64> {
        unused()
    }

    fn groups<'a>(&'a self, _: &'a Filter, _: usize) -> Reply<'a, Vec<Group>> {
        unused()
    }

    fn edit(&self, _: JobId, _: Edit) -> Reply<'_, bool> {
        unused()
    }

    fn remove<'a>(&'a self, _: &'a Filter) -> Reply<'a, u64> {
        unused()
    }

    fn redrive<'a>(&'a self, _: &'a Filter, _: Redrive) -> Reply<'a, u64> {
        unused()
    }

    fn time(&self) -> Reply<'_, SystemTime> {
        unused()
    }

    fn queues(&self) -> Reply<'_, Vec<String>> {
        unused()
    }

    fn settings<'a>(&'a self, _: &'a str) -> Reply<'a, QueueSettings> {
        unused()
    }

    fn set<'a>(&'a self, _: &'a str, _: &'a QueueSettings) -> Reply<'a, ()> {
        unused()
    }

    fn counts<'a>(&'a self, _: &'a str) -> Reply<'a, Counts> {
        unused()
    }
}

fn unused<T>() -> Reply<'static, T> {
    Box::pin(async { Err(StoreError::Invalid("a worker does not need this".to_owned())) })
}

fn job(id: JobId, queue: &str, new: NewJob) -> Job {
    Job {
        id,
        queue: queue.to_owned(),
        state: State::Running,
        payload: new.payload,
        headers: new.headers,
        key: new.key,
        priority: new.priority,
        policy: new.policy,
        idempotency_key: new.idempotency_key,
        created: SystemTime::UNIX_EPOCH,
        due: SystemTime::UNIX_EPOCH,
        begun: None,
        progress: Progress::default(),
        history: Vec::new(),
        reason: None,
    }
}

/// Payloads are `destination sent`; records how long jobs of the others took to arrive.
struct Receivers {
    start: Instant,
    silent: bool,
    waits: Arc<Mutex<Vec<Duration>>>,
}

fn parts(job: &Job) -> (u64, Duration) {
    let text = std::str::from_utf8(&job.payload).unwrap();
    let (destination, sent) = text.split_once(' ').unwrap();
    (destination.parse().unwrap(), Duration::from_nanos(sent.parse().unwrap()))
}

impl Handler for Receivers {
    async fn handle(&self, job: Arc<Job>) -> Handled {
        let (destination, sent) = parts(&job);
        if destination > 0 {
            self.waits.lock().unwrap().push(self.start.elapsed() - sent);
        } else if self.silent {
            pending::<()>().await;
        }
        sleep(SERVICE).await;
        Handled::Done
    }

    fn destination(&self, job: &Job) -> Option<String> {
        Some(parts(job).0.to_string())
    }
}

/// The p99 of the destinations that answer, from enqueueing to arrival.
async fn p99(commit: Duration, silent: bool) -> Duration {
    let (start, waits) = (Instant::now(), Arc::<Mutex<Vec<Duration>>>::default());
    let receivers = Receivers { start, silent, waits: Arc::clone(&waits) };
    let queue = DurableQueue::new(SlowStore::new(commit), "hooks").unwrap();
    let worker = Worker::new(queue.clone()).workers(32).policy(standard()).drain(Duration::ZERO);
    let enqueue = async {
        for number in 0..SECONDS * PER_SECOND {
            let at = Duration::from_secs(1) * u32::try_from(number).unwrap() / PER_SECOND as u32;
            sleep_until(start + at).await;
            let sent = start.elapsed().as_nanos();
            let new = NewJob::new(format!("{} {sent}", number % DESTINATIONS));
            let queue = queue.clone();
            tokio::spawn(async move { queue.enqueue(new).await });
        }
        sleep(Duration::from_secs(5)).await;
    };
    worker.run(receivers, enqueue).await.unwrap();
    let mut waits = waits.lock().unwrap().clone();
    let all = (SECONDS * PER_SECOND / DESTINATIONS * (DESTINATIONS - 1)) as usize;
    assert_eq!(waits.len(), all, "all of them arrive");
    waits.sort_unstable();
    waits[all * 99 / 100]
}

/// With commits of 30 ms and these jobs, a worker is nearly saturated without a silent destination.
#[tokio::test(start_paused = true)]
async fn a_silent_destination_hardly_delays_the_others() {
    for commit in [2, 10, 25].map(Duration::from_millis) {
        let (with, without) = (p99(commit, true).await, p99(commit, false).await);
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        assert!(ratio <= 1.5, "commits of {commit:?}: {without:?} without, {with:?} with");
    }
}
