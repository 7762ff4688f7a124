use std::future::Future;
use std::time::Duration;

use redial::{Policy, Retry};

use crate::pool::Client;

/// How a call is made: how many attempts it makes, and when. Each instance has one, shared by all its callers.
pub trait Caller: Send + Sync + 'static {
    /// Makes a call. Returns whether an attempt succeeded.
    fn call(&self, client: Client) -> impl Future<Output = bool> + Send;
}

/// A single attempt.
#[derive(Clone, Copy, Debug)]
pub struct Once;

/// A loop with a constant pause, `sleep(0.1); retry()`, as it is often written by hand.
#[derive(Clone, Copy, Debug)]
pub struct Naive {
    /// The pause after every failure.
    pub pause: Duration,
    /// The number of attempts, including the first.
    pub attempts: u32,
}

/// The runner of `redial`.
#[derive(Debug)]
pub struct Redial(Retry);

impl Naive {
    /// Ten attempts, 100 ms apart.
    pub const TYPICAL: Self = Self { pause: Duration::from_millis(100), attempts: 10 };
}

impl Redial {
    /// Calls under this policy, with their own budget. They are idempotent.
    pub fn new(policy: Policy) -> Self {
        Self(Retry::new(policy).idempotent())
    }
}

impl Caller for Once {
    async fn call(&self, client: Client) -> bool {
        client.send().await.is_ok()
    }
}

impl Caller for Naive {
    async fn call(&self, client: Client) -> bool {
        for _ in 1..self.attempts {
            if client.clone().send().await.is_ok() {
                return true;
            }
            tokio::time::sleep(self.pause).await;
        }
        client.send().await.is_ok()
    }
}

impl Caller for Redial {
    async fn call(&self, client: Client) -> bool {
        self.0.run(|_| client.clone().send()).await.is_ok()
    }
}
