use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use redial_queue::durable::*;

use crate::delegate::delegate;

/// How a step goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It cannot be reached, and nothing was done.
    Unavailable,
    /// It was done, and the answer did not arrive.
    Unanswered,
    /// It has stopped.
    Stopped,
    /// It never answers.
    Silent,
}

impl Fault {
    fn error(self) -> StoreError {
        match self {
            Self::Unavailable | Self::Unanswered | Self::Silent => {
                StoreError::Unavailable(Box::new(io::Error::other("the line is dead")))
            }
            Self::Stopped => StoreError::Stopped("the disk is full".to_owned()),
        }
    }
}

/// A real store behind a line that can be cut.
pub(super) struct Faulty {
    pub(super) inner: Arc<dyn Store>,
    /// What becomes of the next claims, settlements and heartbeats.
    pub(super) claims: Mutex<VecDeque<Fault>>,
    pub(super) settlements: Mutex<VecDeque<Fault>>,
    pub(super) beats: Mutex<VecDeque<Fault>>,
    pub(super) no_beats: AtomicBool,
    /// Leases are over at once, as far as the store knows.
    pub(super) no_leases: AtomicBool,
    /// Answers at once, has always changed, and has nothing.
    pub(super) hasty: AtomicBool,
}

impl Faulty {
    pub(super) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            claims: Mutex::default(),
            settlements: Mutex::default(),
            beats: Mutex::default(),
            no_beats: AtomicBool::new(false),
            no_leases: AtomicBool::new(false),
            hasty: AtomicBool::new(false),
        })
    }
}

async fn next(faults: &Mutex<VecDeque<Fault>>) -> Option<Fault> {
    let fault = faults.lock().unwrap().pop_front();
    if let Some(Fault::Silent) = fault {
        std::future::pending::<()>().await;
    }
    fault
}

impl Store for Faulty {
    fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
        Box::pin(async move {
            match next(&self.claims).await {
                Some(fault) => Err(fault.error()),
                None if self.hasty.load(Ordering::Relaxed) => Ok(Claims::default()),
                None if self.no_leases.load(Ordering::Relaxed) => {
                    self.inner.claim(&Claim { lease: Duration::ZERO, ..claim.clone() }).await
                }
                None => self.inner.claim(claim).await,
            }
        })
    }

    fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
        Box::pin(async move {
            match next(&self.settlements).await {
                Some(fault @ Fault::Unanswered) => {
                    self.inner.settle(settlements).await?;
                    Err(fault.error())
                }
                Some(fault) => Err(fault.error()),
                None => self.inner.settle(settlements).await,
            }
        })
    }

    fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>> {
        Box::pin(async move {
            if self.no_beats.load(Ordering::Relaxed) {
                return Err(Fault::Unavailable.error());
            }
            if let Some(fault) = next(&self.beats).await {
                return Err(fault.error());
            }
            self.inner.beat(leases, lease).await
        })
    }

    fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()> {
        if self.hasty.load(Ordering::Relaxed) {
            return Box::pin(async { Ok(()) });
        }
        self.inner.changed(queue, seen)
    }

    delegate!(inner: enqueue get list count groups edit remove redrive time queues settings set counts);
}
