use std::future::Future;
use std::time::Duration;

use redial::{Policy, Retry};

use crate::pool::Client;

/// How a call is made: how often it is sent, and when. There is one for each instance, which all its callers share.
pub trait Caller: Send + Sync + 'static {
    /// Makes a call, and says whether an attempt of it succeeded.
    fn call(&self, client: Client) -> impl Future<Output = bool> + Send;
}

/// One attempt, come what may.
#[derive(Clone, Copy, Debug)]
pub struct Once;

/// `sleep(0.1); retry()`: what is written first, everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Naive {
    /// The same after every failure.
    pub pause: Duration,
    /// How many there are, the first included.
    pub attempts: u32,
}

/// The runner of `redial`, as it is.
#[derive(Debug)]
pub struct Redial(Retry);

impl Naive {
    /// 100 ms, ten times.
    pub const TYPICAL: Self = Self { pause: Duration::from_millis(100), attempts: 10 };
}

impl Redial {
    /// Calls under this policy, with a ledger of their own. They count as idempotent.
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
