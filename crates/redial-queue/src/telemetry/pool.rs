use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, counter, gauge};
use tokio::time::timeout;

use super::names::{AGE, BALANCE, DEPTH, JOBS};
use super::work::{Sum, WorkMetrics};
use crate::memory::Depth;
use crate::reconcile::{PoolStats, Reconciler};

/// The metrics of a [`Reconciler`] and its queue.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use redial_core::Preset;
/// # use redial_queue::telemetry::PoolMetrics;
/// # use redial_queue::{Reconciled, Reconciler, WorkQueue};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let queue = WorkQueue::<&str>::default();
/// let pool = Arc::new(Reconciler::new(queue.clone(), Preset::ControlPlane.into()));
/// let metrics = PoolMetrics::new("nodes"); // the label `queue`
/// tokio::spawn(metrics.follow(pool.clone(), Duration::from_secs(5), std::future::pending()));
/// # queue.close();
/// # pool.run(|_, _| async { Reconciled::Done }).await;
/// # }
/// ```
pub struct PoolMetrics {
    queue: String,
    work: WorkMetrics,
    /// Of keys that are ready, later and busy.
    depth: [Gauge; 3],
    age: Gauge,
    done: Sum,
    /// Once there is a budget.
    balance: Option<Gauge>,
}

impl PoolMetrics {
    /// Makes the handles, with the recorder that is installed now. The name becomes a label, so the number of names should be
    /// bounded.
    pub fn new(queue: &str) -> Self {
        let label = || queue.to_owned();
        let depth = |state| gauge!(DEPTH.name, "queue" => label(), "state" => state);
        Self {
            work: WorkMetrics::new(queue),
            depth: ["ready", "later", "busy"].map(depth),
            age: gauge!(AGE.name, "queue" => label()),
            done: Sum::new(counter!(JOBS.name, "queue" => label(), "result" => "done")),
            balance: None,
            queue: label(),
        }
    }

    /// Publishes the numbers.
    pub fn publish(&mut self, stats: &PoolStats) {
        self.work.publish(&stats.work);
        let Depth { ready, later, busy, age } = stats.depth;
        for (gauge, keys) in self.depth.iter().zip([ready, later, busy]) {
            gauge.set(keys as f64);
        }
        self.age.set(age.as_secs_f64());
        self.done.publish(stats.done);
        if let Some(balance) = stats.balance {
            let make = || gauge!(BALANCE.name, "queue" => self.queue.clone());
            self.balance.get_or_insert_with(make).set(balance as f64);
        }
    }

    /// Publishes now, then `every` so often until `stop` ends, and then a last time; at least a millisecond apart.
    pub async fn follow<K>(
        mut self,
        pool: Arc<Reconciler<K>>,
        every: Duration,
        stop: impl Future<Output = ()>,
    ) where
        K: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let (every, mut stop) = (every.max(Duration::from_millis(1)), pin!(stop));
        loop {
            self.publish(&pool.stats());
            if timeout(every, stop.as_mut()).await.is_ok() {
                break;
            }
        }
        self.publish(&pool.stats());
    }
}
