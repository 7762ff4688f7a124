//! One bad shard is the backend's trouble; what it does to the others is the clients' due.

use super::service_state::ServiceState;
use crate::Scenario;
use crate::scenario::{BACKEND, Keys};

/// Calls to shards to which nothing happens.
pub(super) struct HealthyShards {
    faulty: Vec<u32>,
    calls: u64,
    lost: u64,
}

impl HealthyShards {
    pub(super) fn new(scenario: &Scenario, services: &[ServiceState<'_>]) -> Option<Self> {
        let outages = scenario.outages().filter(|it| it.service() == BACKEND);
        let mut faulty: Vec<u32> = outages.filter_map(|it| it.shard).collect();
        if matches!(scenario.clients.keys, Keys::Zipf { .. }) {
            faulty.push(services[0].shard_of(1));
        }
        (services[0].config.shards > 1 && !faulty.is_empty()).then_some(Self {
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
