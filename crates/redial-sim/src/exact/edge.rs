use std::num::NonZeroU64;
use std::ops::Range;

use redial_core::admit::Guards;
use redial_core::admit::budget::{Account, Budget};
use redial_core::decide::Safety;
use redial_core::schedule::HedgeRule;
use redial_core::{Context, Policy, Request};

use super::flight::Target;
use super::processes::Processes;
use crate::scenario::{BACKEND, HowLong};
use crate::{Scenario, Stream, Subject};

/// An edge of the call graph, with the policy of its calls. The first are those of the clients, one for each of their
/// policies.
#[derive(Debug)]
pub(super) struct Edge<'a> {
    pub(super) policy: Policy,
    /// One set for each process; with guards by shard or endpoint, one for each process and part. A single one if they
    /// have no state.
    guards: Vec<Guards>,
    /// The place of the guards of process p and part s is p·`by_process` + s·`by_part`.
    by_process: u32,
    by_part: u32,
    /// The instances with this policy.
    pub(super) instances: Range<u32>,
    /// Only where processes are replaced, and have guards of their own.
    processes: Option<Processes>,
    /// The ledger that all processes share: that of a fleet, or one without limit where none is needed.
    account: Option<Account>,
    stream: Stream,
    pub(super) safety: Safety,
    /// The most hedges beside the oldest attempt of a call; 0 without hedging.
    pub(super) most_hedges: u32,
    /// The service that is called.
    pub(super) to: usize,
    pub(super) latency: &'a HowLong,
}

impl<'a> Edge<'a> {
    /// The clients' edges, then one for every call that a service makes, in the order of the services.
    pub(super) fn all(scenario: &'a Scenario, subject: &Subject, seed: u64) -> Vec<Self> {
        let names = names(scenario);
        let stream = Stream::new(seed).of(1);
        let own = scenario.clients.own();
        let mut edges = vec![Self::of_clients(scenario, subject, 0..own, stream.clone())];
        for (others, count) in scenario.clients.others() {
            let first = edges.last().map_or(0, |edge| edge.instances.end);
            let subject = known_subject(scenario, &others.policy);
            let stream = stream.of(u64::MAX - u64::from(first));
            edges.push(Self::of_clients(scenario, &subject, first..first + count, stream));
        }
        let of_clients = edges.len();
        for service in names.iter().filter_map(|name| scenario.service(name)) {
            let own = service.policy.as_ref().map(|name| known_subject(scenario, name));
            let by = own.as_ref().unwrap_or(subject);
            for callee in &service.calls {
                let stream = stream.of((1 + edges.len() - of_clients) as u64);
                edges.push(Self {
                    // A deadline may come with the request.
                    most_hedges: most_hedges(by.policy.hedge()),
                    guards: vec![Guards::new(&by.policy, 1, stream.of(0).bits())],
                    policy: by.policy.clone(),
                    by_process: 0,
                    by_part: 0,
                    instances: 0..1,
                    processes: None,
                    account: None,
                    stream,
                    // What a service may repeat follows from the client's call.
                    safety: scenario.safety(subject),
                    to: names.iter().position(|name| name == callee).unwrap_or_default(),
                    latency: &service.latency,
                });
            }
        }
        edges
    }

    fn of_clients(
        scenario: &'a Scenario,
        subject: &Subject,
        instances: Range<u32>,
        stream: Stream,
    ) -> Self {
        let clients = &scenario.clients;
        let policy = scenario.effective(&subject.policy);
        let keeps_state = scenario.keeps_state(&policy);
        let (by_process, sets) = match scenario.guards_each() {
            each if keeps_state => (each, instances.len() as u64 * u64::from(each)),
            _ => (0, 1),
        };
        let account = match policy.fleet() {
            Some(_) => Some(Account::new(policy.budget(), 1)),
            None => (!keeps_state).then(|| Account::new(&Budget::None, 1)),
        };
        let replaced = !scenario.restart.is_empty() || clients.lifetime.is_some();
        let lifetime = clients.lifetime.map_or(u32::MAX, |lifetime| lifetime.0);
        let mut edge = Self {
            guards: Vec::new(),
            by_process,
            by_part: u32::from(by_process > 1),
            processes: (keeps_state && replaced)
                .then(|| Processes::new(instances.len() as u32, lifetime)),
            instances,
            account,
            stream,
            safety: scenario.safety(subject),
            most_hedges: most_hedges(policy.hedge()),
            to: 0,
            latency: &clients.latency,
            policy,
        };
        edge.guards = (0..sets).map(|number| edge.fresh(number)).collect();
        edge
    }

    fn fresh(&self, number: u64) -> Guards {
        let seed = self.stream.of(number).bits();
        match &self.account {
            Some(account) => Guards::sharing(&self.policy, account, seed),
            None => Guards::new(&self.policy, 1, seed),
        }
    }

    /// The process that makes the next call of this instance.
    #[inline]
    pub(super) fn begin(&mut self, instance: u32) -> u32 {
        let instance = instance - self.instances.start;
        let Some(processes) = &mut self.processes else { return instance };
        let (process, replaced) = processes.begin(instance);
        if let Some(replaced) = replaced {
            self.replace_guards(process, instance, replaced);
        }
        process
    }

    #[cold]
    fn replace_guards(&mut self, process: u32, instance: u32, replaced: u32) {
        let before = u64::from(replaced) * self.instances.len() as u64 + u64::from(instance);
        for part in 0..u64::from(self.by_process) {
            let guards = self.fresh(before * u64::from(self.by_process) + part);
            let place = (u64::from(process) * u64::from(self.by_process) + part) as usize;
            match self.guards.get_mut(place) {
                Some(old) => *old = guards,
                None => self.guards.push(guards),
            }
        }
    }

    /// A call of this process is over.
    #[inline]
    pub(super) fn end(&mut self, process: u32) {
        if let Some(processes) = &mut self.processes {
            processes.end(process);
        }
    }

    /// Its instances below this number are replaced.
    pub(super) fn restart(&mut self, below: u32) {
        let Range { start, end } = self.instances;
        if let Some(processes) = &mut self.processes {
            (start..below.min(end)).for_each(|instance| processes.restart(instance - start));
        }
    }

    #[inline(always)]
    pub(super) fn guards(&self, target: &Target) -> &Guards {
        let place = target.process * self.by_process + target.shard * self.by_part;
        &self.guards[place as usize]
    }

    /// The context of a call. The request is built here: copying a whole one right after its fields were written
    /// would stall on the pending stores.
    #[inline(always)]
    pub(super) fn context(&self, target: &Target) -> Context<'_> {
        let guards = self.guards(target);
        let (key, off) = (NonZeroU64::new(target.key), target.off);
        let (safety, park) = (self.safety, u32::MAX);
        let request = Request { safety, key, park, off, ..Request::default() };
        Context { policy: &self.policy, guards, observer: None, request }
    }
}

/// The services in order: the backend, then the others by name.
pub(super) fn names(scenario: &Scenario) -> Vec<&str> {
    std::iter::once(BACKEND).chain(scenario.service.keys().map(String::as_str)).collect()
}

/// A policy that the scenario names.
fn known_subject(scenario: &Scenario, name: &str) -> Subject {
    let subject = scenario.subject(name);
    subject.unwrap_or_else(|why| unreachable!("checked when the scenario was read: {why}"))
}

fn most_hedges(rule: Option<&HedgeRule>) -> u32 {
    rule.map_or(0, |rule| rule.most)
}
