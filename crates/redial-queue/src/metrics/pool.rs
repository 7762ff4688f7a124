use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, counter, gauge};
use tokio::time::timeout;

use super::handles::{Doing, Sum, Work};
use super::names::{AGE, BALANCE, DEPTH, JOBS};
use crate::memory::Depth;
use crate::reconcile::{Reconciler, Stats};

/// The metrics of a [`Reconciler`] and its queue.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use redial_core::Preset;
/// # use redial_queue::metrics::PoolMetrics;
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
    work: Work,
    /// Of the keys that are ready, later and busy.
    depth: [Gauge; 3],
    age: Gauge,
    done: Sum,
    /// Without a budget there is none.
    balance: Option<Gauge>,
}

impl PoolMetrics {
    /// Makes the handles, with the recorder that there is now. The name becomes a label: there should not be ever more of
    /// them.
    pub fn new(queue: &str) -> Self {
        let label = || queue.to_owned();
        let depth = |state| gauge!(DEPTH, "queue" => label(), "state" => state);
        Self {
            work: Work::new(queue),
            depth: ["ready", "later", "busy"].map(depth),
            age: gauge!(AGE, "queue" => label()),
            done: Sum::new(counter!(JOBS, "queue" => label(), "result" => "done")),
            balance: None,
            queue: label(),
        }
    }

    /// Publishes what is going on.
    pub fn publish(&mut self, stats: &Stats) {
        self.work.tell(&Doing {
            running: stats.running,
            utilization: stats.utilisation(),
            retries: &stats.retries,
            stops: &stats.stops,
            limiter_wait: stats.limiter_wait,
        });
        let Depth { ready, later, busy, age } = stats.depth;
        for (gauge, keys) in self.depth.iter().zip([ready, later, busy]) {
            gauge.set(keys as f64);
        }
        self.age.set(age.as_secs_f64());
        self.done.tell(stats.done);
        if let Some(balance) = stats.balance {
            let make = || gauge!(BALANCE, "queue" => self.queue.clone());
            self.balance.get_or_insert_with(make).set(balance as f64);
        }
    }

    /// Publishes now, every so often until `stop` ends, and then once more; at least a millisecond apart.
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
