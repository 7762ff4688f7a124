use redial_core::admit::Guards;
use redial_core::decide::Safety;
use redial_core::{Context, Policy, Request};

use super::flight::Target;
use crate::scenario::{BACKEND, Scope, Time};
use crate::{Scenario, Stream, Subject};

/// Origin calls whom, and under which policy. The first one is that of the clients.
#[derive(Debug)]
pub(super) struct Edge<'a> {
    pub(super) policy: Policy,
    /// One for each instance, and as many again for every restart; with guards by shard, for each of those.
    guards: Vec<Guards>,
    shards: u32,
    /// Guards of all instances together.
    row: u32,
    pub(super) safety: Safety,
    /// The service that is called.
    pub(super) to: usize,
    pub(super) latency: &'a Time,
}

impl<'a> Edge<'a> {
    /// The clients' edge, and one for every call that a service makes, in the order of the services.
    pub(super) fn all(scenario: &'a Scenario, subject: &Subject, seed: u64) -> Vec<Self> {
        let names = names(scenario);
        let clients = &scenario.clients;
        let stream = Stream::new(seed).of(1);
        let shards = if clients.guards == Scope::Shard { scenario.backend.shards } else { 1 };
        let row = clients.instances * shards;
        let safety = scenario.safety(subject);
        let all = row as usize * (1 + scenario.restart.len());
        let mut edges = vec![Self {
            guards: guards(&subject.policy, all, &stream),
            policy: subject.policy.clone(),
            shards,
            row,
            safety,
            to: 0,
            latency: &clients.latency,
        }];
        for service in names.iter().filter_map(|name| scenario.service(name)) {
            let own = service.policy.as_ref().and_then(|name| scenario.subject(name).ok());
            let by = own.as_ref().unwrap_or(subject);
            for callee in &service.calls {
                edges.push(Self {
                    guards: guards(&by.policy, 1, &stream.of(edges.len() as u64)),
                    policy: by.policy.clone(),
                    shards: 1,
                    row: 1,
                    // What a service may repeat follows from what the client's call is.
                    safety,
                    to: names.iter().position(|name| name == callee).unwrap_or_default(),
                    latency: &service.latency,
                });
            }
        }
        edges
    }

    /// What a call is made under. The request is put together here: to copy a whole one right after its parts were
    /// written makes the processor wait for everything that was written before them.
    #[inline(always)]
    pub(super) fn context(&self, target: &Target) -> Context<'_> {
        let shard = if self.shards == 1 { 0 } else { target.shard };
        let place = target.generation * self.row + target.instance * self.shards + shard;
        let guards = &self.guards[place as usize];
        let (key, off) = (target.key, target.off);
        let request = Request { safety: self.safety, key, off, ..Request::default() };
        Context { policy: &self.policy, guards, observer: None, request }
    }
}

/// The services in their order: the backend, then the others by name.
pub(super) fn names(scenario: &Scenario) -> Vec<&str> {
    std::iter::once(BACKEND).chain(scenario.service.keys().map(String::as_str)).collect()
}

fn guards(policy: &Policy, count: usize, stream: &Stream) -> Vec<Guards> {
    (0..count as u64).map(|number| Guards::new(policy, 1, stream.of(number).bits())).collect()
}
