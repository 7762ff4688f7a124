//! What is recorded of a run: the calls of clients, and their attempts at the backend. Those of services are not.

use redial_core::{Span, Time};

use super::flight::Origin;
use super::healthy_shards::HealthyShards;
use super::own_calls::OwnCalls;
use super::service_state::ServiceState;
use crate::Scenario;
use crate::measure::{Recorder, Run};

pub(super) struct Record {
    recorder: Recorder,
    healthy_shards: Option<HealthyShards>,
    own_calls: Option<OwnCalls>,
}

/// A call of a client that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// When it first began.
    pub(super) began: Time,
    pub(super) instance: u32,
    pub(super) succeeded: bool,
}

impl Record {
    pub(super) fn new(scenario: &Scenario, backend: &ServiceState<'_>) -> Self {
        Self {
            recorder: Recorder::new(scenario),
            healthy_shards: HealthyShards::new(scenario, backend),
            own_calls: OwnCalls::new(&scenario.clients),
        }
    }

    #[inline]
    pub(super) fn began(&mut self, now: Time) {
        self.recorder.calls(now, 1);
    }

    /// How many attempts of clients have arrived so far.
    pub(super) fn attempts(&self) -> u64 {
        self.recorder.attempts_so_far()
    }

    /// An attempt arrives at its service.
    #[inline]
    pub(super) fn attempt(&mut self, origin: Origin, number: u32, now: Time) {
        if let Origin::Caller(_) = origin {
            self.recorder.attempts(now, number, 1);
        }
    }

    #[inline]
    pub(super) fn served(&mut self, origin: Origin, now: Time) {
        if let Origin::Caller(_) = origin {
            self.recorder.served(now, 1);
        }
    }

    /// A caller starts to wait this long for its retry.
    #[inline]
    pub(super) fn waits(&mut self, delay: Span) {
        self.recorder.waits(delay, 1);
    }

    #[inline]
    pub(super) fn woke(&mut self) {
        self.recorder.woke(1);
    }

    /// Work that must not be done twice was repeated.
    pub(super) fn duplicate(&mut self) {
        self.recorder.duplicates(1);
    }

    /// `part` is the shard or the endpoint of the call.
    #[inline]
    pub(super) fn ended(&mut self, call: Ended, part: impl FnOnce() -> u32, now: Time) {
        let Ended { began, instance, succeeded } = call;
        self.recorder.ended(began, now, succeeded, 1);
        if let Some(own) = &mut self.own_calls {
            own.add(instance, succeeded);
        }
        if let Some(healthy_shards) = &mut self.healthy_shards {
            healthy_shards.add(part(), succeeded);
        }
    }

    /// How many calls are over.
    pub(super) fn over(&self) -> u64 {
        self.recorder.over()
    }

    /// How many calls began.
    pub(super) fn count(&self) -> u64 {
        self.recorder.count()
    }

    /// The figures of the run. `amplification` replaces that of the attempts.
    pub(super) fn finish(self, amplification: Option<f64>, events: u64) -> Run {
        Run {
            healthy_lost: self.healthy_shards.map(|healthy_shards| healthy_shards.lost_share()),
            own_success: self.own_calls.map(|own_calls| own_calls.success()),
            ..self.recorder.finish(amplification, events)
        }
    }
}
