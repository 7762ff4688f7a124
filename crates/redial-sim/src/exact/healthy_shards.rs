//! How much a faulty shard or endpoint harms calls to the others. That harm is done by the clients: shared budgets and
//! breakers.

use super::service_state::ServiceState;
use crate::Scenario;
use crate::scenario::{BACKEND, Keys, Outage, RetryTo};

/// Counts calls to shards or endpoints without a fault of their own. A call that changes its endpoint belongs to none.
pub(super) struct HealthyShards {
    faulty: Vec<u32>,
    calls: u64,
    lost: u64,
}

impl HealthyShards {
    pub(super) fn new(scenario: &Scenario, backend: &ServiceState<'_>) -> Option<Self> {
        let outages = scenario.outages().filter(|it| it.service() == BACKEND);
        let mut faulty: Vec<u32> = outages.filter_map(Outage::part).collect();
        let config = backend.config;
        if config.shards > 1 && matches!(scenario.clients.keys, Keys::Zipf { .. }) {
            faulty.push(backend.shard_of(1));
        }
        let stay = config.shards > 1 || scenario.clients.retry_to == RetryTo::Same;
        (config.parts() > 1 && stay && !faulty.is_empty()).then_some(Self {
            faulty,
            calls: 0,
            lost: 0,
        })
    }

    pub(super) fn add(&mut self, shard: u32, succeeded: bool) {
        if !self.faulty.contains(&shard) {
            self.calls += 1;
            self.lost += u64::from(!succeeded);
        }
    }

    pub(super) fn lost_share(&self) -> f64 {
        self.lost as f64 / self.calls.max(1) as f64
    }
}
