//! The peers as callers, each used as documented.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use redial_live::{Caller, Client, Failed};
use tower::retry::backoff::{
    Backoff as _, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff as _,
};
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::retry::{Policy, Retry};
use tower::util::rng::HasherRng;
use tower::{ServiceExt as _, service_fn};

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 4;

pub(crate) struct Backon(ExponentialBuilder);

impl Backon {
    /// Three retries, after 1, 2 and 4 s, without jitter.
    pub(crate) fn by_default() -> Self {
        Self(ExponentialBuilder::default())
    }

    /// As close to our standard policy as it can be configured.
    pub(crate) fn like_ours() -> Self {
        let builder = ExponentialBuilder::default().with_min_delay(BASE).with_max_delay(CAP);
        Self(builder.with_max_times(ATTEMPTS as usize - 1).with_jitter())
    }
}

impl Caller for Backon {
    async fn call(&self, client: Client) -> bool {
        (|| client.clone().send()).retry(self.0).await.is_ok()
    }
}

/// Its own budget and backoff, in a policy as its documentation recommends.
#[derive(Clone)]
pub(crate) struct Tower {
    left: u32,
    budget: Arc<TpsBudget>,
    backoff: ExponentialBackoff,
}

impl Tower {
    pub(crate) fn standard() -> Self {
        let maker = ExponentialBackoffMaker::new(BASE, CAP, 0.99, HasherRng::default());
        let backoff = maker.expect("a valid range").make_backoff();
        Self { left: ATTEMPTS - 1, budget: Arc::default(), backoff }
    }
}

impl Policy<Client, (), Failed> for Tower {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut Client, result: &mut Result<(), Failed>) -> Option<Self::Future> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, client: &Client) -> Option<Client> {
        Some(client.clone())
    }
}

impl Caller for Tower {
    async fn call(&self, client: Client) -> bool {
        Retry::new(self.clone(), service_fn(Client::send)).oneshot(client).await.is_ok()
    }
}
