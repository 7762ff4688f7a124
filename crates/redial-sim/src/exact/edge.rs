use redial_core::admit::Guards;
use redial_core::decide::Safety;
use redial_core::{Context, Policy, Request};

use super::flight::Target;
use crate::scenario::{BACKEND, Scope, Time};
use crate::{Scenario, Stream, Subject};

/// An edge of the call graph, with the policy of its calls. The first is that of the clients.
#[derive(Debug)]
pub(super) struct Edge<'a> {
    pub(super) policy: Policy,
    /// One for each instance, repeated for every restart; with guards by shard, one for each instance and shard.
    guards: Vec<Guards>,
    shards: u32,
    /// How many guards there are without restarts.
    row: u32,
    pub(super) safety: Safety,
    /// The service that is called.
    pub(super) to: usize,
    pub(super) latency: &'a Time,
}

impl<'a> Edge<'a> {
    /// The clients' edge, then one for every call that a service makes, in the order of the services.
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
                    // What a service may repeat follows from the client's call.
                    safety,
                    to: names.iter().position(|name| name == callee).unwrap_or_default(),
                    latency: &service.latency,
                });
            }
        }
        edges
    }

    /// The context of a call. The request is built here: copying a whole one right after its fields were written
    /// would stall on the pending stores.
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

/// The services in order: the backend, then the others by name.
pub(super) fn names(scenario: &Scenario) -> Vec<&str> {
    std::iter::once(BACKEND).chain(scenario.service.keys().map(String::as_str)).collect()
}

fn guards(policy: &Policy, count: usize, stream: &Stream) -> Vec<Guards> {
    (0..count as u64).map(|number| Guards::new(policy, 1, stream.of(number).bits())).collect()
}
