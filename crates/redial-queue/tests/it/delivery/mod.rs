//! Deliveries over real sockets on loopback.

mod invalid;
mod public;
mod responses;
mod sending;
mod signing;
mod sink;
mod tls;
mod trouble;
mod work;

use std::sync::Arc;
use std::time::SystemTime;

use redial::Policy;
use redial_core::Progress;
use redial_core::decide::{Class, Failure};
use redial_queue::Priority;
use redial_queue::delivery::{Deliverer, Delivery};
use redial_queue::durable::{Handled, Handler as _, Job, JobId, NewJob, State};

/// A job as a worker has claimed it for this attempt.
fn claimed(new: NewJob, attempt: u32) -> Arc<Job> {
    Arc::new(Job {
        id: JobId(1),
        queue: "hooks".to_owned(),
        state: State::Running,
        payload: new.payload,
        headers: new.headers,
        key: new.key,
        priority: Priority::default(),
        policy: new.policy,
        idempotency_key: new.idempotency_key,
        created: SystemTime::UNIX_EPOCH,
        due: SystemTime::UNIX_EPOCH,
        begun: Some(SystemTime::UNIX_EPOCH),
        progress: Progress { attempts: attempt, ..Progress::default() },
        history: Vec::new(),
        reason: None,
    })
}

fn post(url: &str) -> NewJob {
    Delivery::post(url).unwrap().body("news").into_job()
}

fn deliverer() -> Deliverer {
    Deliverer::new(&Policy::standard()).unwrap()
}

async fn deliver(deliverer: &Deliverer, job: NewJob) -> Handled {
    deliverer.handle(claimed(job, 1)).await
}

#[track_caller]
fn failed(handled: Handled) -> (Failure, String) {
    match handled {
        Handled::Failed { failure, cause } => (failure, cause),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn class(handled: Handled) -> Class {
    failed(handled).0.class
}
