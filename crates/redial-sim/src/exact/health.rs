//! One bad shard is the backend's trouble; what it does to the others is the clients' doing.

use super::station::Station;
use crate::Scenario;
use crate::scenario::{BACKEND, Keys};

/// Calls to shards to which nothing happens.
pub(super) struct Health {
    sick: Vec<u32>,
    calls: u64,
    lost: u64,
}

impl Health {
    pub(super) fn new(scenario: &Scenario, stations: &[Station<'_>]) -> Option<Self> {
        let outages = scenario.outage.iter().chain(&scenario.brownout);
        let here = outages.filter(|it| it.service.as_deref().is_none_or(|name| name == BACKEND));
        let mut sick: Vec<u32> = here.filter_map(|it| it.shard).collect();
        if matches!(scenario.clients.keys, Keys::Zipf { .. }) {
            sick.push(stations[0].shard_of(1));
        }
        (stations[0].service.shards > 1 && !sick.is_empty()).then_some(Self {
            sick,
            calls: 0,
            lost: 0,
        })
    }

    pub(super) fn add(&mut self, shard: u32, succeeded: bool) {
        if !self.sick.contains(&shard) {
            self.calls += 1;
            self.lost += u64::from(!succeeded);
        }
    }

    pub(super) fn lost_share(&self) -> f64 {
        self.lost as f64 / self.calls.max(1) as f64
    }
}
