//! What happens now, second by second: a visitor gets the last ten minutes at once, and then a sample a second.
//!
//! The samples come from the meters of this process, which count anyway. A visitor that reads too slowly misses samples and is
//! told so; the sampler never waits.

mod advice;
mod events;
mod ring;
mod routes;
mod sample;
mod sampler;
mod state;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial::telemetry::Registry;
use redial_queue::durable::DurableQueue;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::clock::{Stopwatch, unix_ms};
use ring::Ring;
use sampler::{Backlog, Sampler, Time};

pub(crate) use events::SampleTimes;
pub(crate) use routes::routes;
pub use sample::{Sample, UpstreamSample};
pub use state::{LiveState, Stopped, StormVerdict, UpstreamState};

const EVERY: Duration = Duration::from_secs(1);
/// How many samples a visitor may be behind.
const BEHIND: usize = 32;

/// What happens now. Clones are the same.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    registry: Registry,
    seen: Mutex<Seen>,
    sender: broadcast::Sender<Arc<Moment>>,
}

#[derive(Default)]
struct Seen {
    ring: Ring,
    /// The latest sample with the state.
    latest: Option<Arc<Moment>>,
}

/// A sample and the state after it.
#[derive(Debug)]
pub struct Moment {
    /// The sample.
    pub sample: Arc<Sample>,
    /// What a visitor reads.
    pub state: LiveState,
}

impl Live {
    /// What happens at the meters of this registry.
    pub fn new(registry: &Registry) -> Self {
        let (sender, _) = broadcast::channel(BEHIND);
        Self(Arc::new(Inner { registry: registry.clone(), seen: Mutex::default(), sender }))
    }

    /// Takes samples for as long as it is polled. Each of the queues has a meter with this name.
    pub async fn run(&self, queues: Vec<(String, DurableQueue)>) {
        let unknown = queues.iter().map(|(meter, _)| (meter.clone(), None));
        let backlog = Backlog { oldest_due_ms: unknown.collect() };
        let backlog = Arc::new(Mutex::new(backlog));
        // A slow store must not delay samples. The set ends its task when this future is dropped.
        let mut tasks = JoinSet::new();
        tasks.spawn(refresh(queues, Arc::clone(&backlog)));
        let mut sampler = Sampler::default();
        let mut last: Option<Stopwatch> = None;
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let since = last.replace(Stopwatch::start());
            let span_ms = since.map_or(EVERY.as_millis() as u64, |last| last.ms().round() as u64);
            let backlog = backlog.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let time = Time { now: unix_ms(), span_ms: span_ms.max(1) };
            let (sample, state) = sampler.sample(self.0.registry.snapshots(), time, &backlog);
            self.publish(Moment { sample: Arc::new(sample), state });
        }
    }

    fn publish(&self, moment: Moment) {
        let moment = Arc::new(moment);
        let mut seen = self.seen();
        seen.ring.add(Arc::clone(&moment.sample));
        seen.latest = Some(Arc::clone(&moment));
        drop(seen);
        // Fails only if there are no visitors.
        let _ = self.0.sender.send(moment);
    }

    /// Samples from now on, for a program that shows them itself.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Moment>> {
        self.0.sender.subscribe()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the backlog up to date for as long as it is polled.
async fn refresh(queues: Vec<(String, DurableQueue)>, backlog: Arc<Mutex<Backlog>>) {
    loop {
        let mut oldest_due_ms = HashMap::new();
        for (meter, queue) in &queues {
            // A store that fails is reported by its worker.
            let oldest = queue.oldest().await.ok();
            let oldest = oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            oldest_due_ms.insert(meter.clone(), oldest);
        }
        *backlog.lock().unwrap_or_else(PoisonError::into_inner) = Backlog { oldest_due_ms };
        sleep(EVERY).await;
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// The types of these responses and requests.
#[cfg(feature = "typescript")]
pub(crate) fn visit_types(types: &mut impl ts_rs::TypeVisitor) {
    types.visit::<events::SentSample<'static>>();
    types.visit::<routes::History<ring::HistoryStep>>();
}
