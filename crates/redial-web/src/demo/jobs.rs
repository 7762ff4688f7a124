//! Jobs for the demo's queue: deliveries to its backend, some of which cannot succeed.

use std::time::Duration;

use redial_queue::delivery::{Delivery, InvalidDelivery};
use redial_queue::durable::{
    DurableQueue, Filter, JobId, NewJob, State, StoreError, remove_in_pages,
};
use tokio::time::sleep;

use super::Demo;

const EVERY: Duration = Duration::from_secs(3);
/// One in this many cannot succeed.
const DEAD_EVERY: u64 = 8;
/// No more dead letters are made beyond this many, so that a demo that runs for days stays small.
const MOST_DEAD: usize = 24;
/// Jobs that are there at the start.
const FIRST: u64 = 16;

impl Demo {
    /// Removes all jobs of the demo's queue that do not run: their backend had a port of its own, which is gone with its
    /// process. For the start, before there is a worker, and for the end.
    ///
    /// Returns the others. At the start these are jobs of a process that was killed, and their leases have not run out yet.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn clear(queue: &DurableQueue) -> Result<Vec<JobId>, StoreError> {
        let all = Filter { queue: Some(queue.name().to_owned()), ..Filter::default() };
        remove_in_pages(&**queue.store(), all.clone()).await?;
        Ok(queue.list(all).await?.iter().map(|job| job.id).collect())
    }

    /// Puts deliveries into a queue for as long as it is polled, and removes `old` ones as soon as they do not run. A worker
    /// has to send them.
    pub async fn enqueue(&self, queue: DurableQueue, mut old: Vec<JobId>) {
        let mut number = 0;
        loop {
            if !old.is_empty() {
                old = remove(&queue, old).await;
            }
            // A store that fails is reported by its worker, and may work again.
            number = self.enqueue_from(&queue, number).await.unwrap_or(number);
            sleep(EVERY).await;
        }
    }

    /// Puts the next deliveries into a queue. Returns the number of the one after them.
    async fn enqueue_from(&self, queue: &DurableQueue, number: u64) -> Result<u64, StoreError> {
        let filter = Filter {
            queue: Some(queue.name().to_owned()),
            state: Some(State::Dead),
            most: MOST_DEAD,
            ..Filter::default()
        };
        let may_die = queue.list(filter).await?.len() < MOST_DEAD;
        let jobs = if number == 0 { FIRST } else { 1 };
        let jobs = (number..number + jobs).filter_map(|number| self.job(number, may_die).ok());
        let jobs: Vec<NewJob> = jobs.collect();
        let next = number + jobs.len().max(1) as u64;
        if !jobs.is_empty() {
            queue.enqueue_all(jobs).await?;
        }
        Ok(next)
    }

    fn job(&self, number: u64, may_die: bool) -> Result<NewJob, InvalidDelivery> {
        let (to, order) = (self.redial.address(), 1000 + number);
        let must_fail = may_die && number % DEAD_EVERY == 3;
        let (url, policy) = match number / DEAD_EVERY % 2 {
            _ if !must_fail => (format!("http://{to}/{order}"), None),
            // The receiver was removed.
            0 => (format!("http://{to}/gone/{order}"), None),
            // Nothing listens on this port, and the policy gives up within seconds.
            _ => (format!("http://127.0.0.1:9/hooks/{order}"), Some("web")),
        };
        let body = format!(r#"{{"order":{order},"event":"shipped"}}"#);
        let delivery = Delivery::post(&url)?.header("content-type", "application/json")?.body(body);
        let job = delivery.into_job();
        Ok(match policy {
            Some(policy) => job.policy(policy),
            None => job,
        })
    }
}

/// Removes jobs that do not run, and returns the others.
async fn remove(queue: &DurableQueue, ids: Vec<JobId>) -> Vec<JobId> {
    let filter = Filter { ids: ids.clone(), ..Filter::default() };
    let removed = queue.store().remove(&filter).await;
    match queue.list(filter).await {
        Ok(left) if removed.is_ok() => left.iter().map(|job| job.id).collect(),
        _ => ids,
    }
}
