//! A scale model 1:k of a scenario.
//!
//! What cohorts cannot represent has to be followed call by call, and a hundred million calls a second cannot be. A
//! scale model divides by k what is counted: calls, servers, queues, limits, callers and instances. Times, shares
//! and shards stay as they are. The exact engine runs it, and the counts of the run are multiplied back. Its shares
//! and ratios are those of the whole, with the noise of k times fewer calls.
//!
//! What does not divide exactly is a distortion, and is named:
//!
//! - Servers are whole. Their service time changes with the rounding, so that the capacity is k times smaller.
//! - There are at least ten instances, or all of them, so that shares of the instances keep their meaning. Where an
//!   instance then has fewer calls than in the scenario, the rates and limits of its policy are divided too.
//! - Buckets and samples (tokens, bursts, the calls that a breaker looks back on) keep as much as the traffic of
//!   100 ms: a bucket of a single token would behave differently.

mod policy;

use std::fmt::Display;

use redial_core::Span;

use crate::measure::Run;
use crate::scenario::{
    Arrivals, Clients, Drawn, HowLong, Keys, Lifetime, Limit, Pace, Servers, Service,
};
use crate::watch::Watch;
use crate::{Scenario, Subject, exact};

/// The most calls in a run, unless a simulation sets another limit.
pub const MOST_CALLS: f64 = 2e6;
/// A model has at least this many instances, or all of them.
const LEAST_INSTANCES: f64 = 10.0;
/// The largest relative rounding that is not reported.
const UNNOTICED: f64 = 0.05;
/// Buckets keep as much as the traffic of this many seconds.
const BUCKET_SECONDS: f64 = 0.1;

/// A scenario with a policy, k times smaller.
#[derive(Clone, Debug)]
pub struct ScaleModel {
    scenario: Scenario,
    subject: Subject,
    k: u32,
    distortions: Vec<String>,
}

/// The smallest k of the form 1, 2 or 5 × 10ⁿ with which a run has at most this many calls.
pub fn scale_of(scenario: &Scenario, most_calls: f64) -> u32 {
    round_up(scenario.calls() / most_calls)
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that is not less.
pub(crate) fn round_up(least: f64) -> u32 {
    let steps = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u32.pow(power)));
    steps.into_iter().find(|k| f64::from(*k) >= least).unwrap_or(u32::MAX)
}

impl ScaleModel {
    /// The model 1:`k`.
    ///
    /// # Errors
    ///
    /// There are fewer callers than `k`, or a policy cannot be divided. The message says what to change.
    pub fn new(scenario: &Scenario, subject: &Subject, k: u32) -> Result<Self, String> {
        let mut divider = Divider::new(scenario, k);
        let mut model = scenario.clone();
        divider.clients(&mut model.clients, subject)?;
        divider.service("backend", &mut model.backend);
        for (name, service) in &mut model.service {
            divider.service(name, service);
        }
        divider.faults(&mut model);
        let policy = divider.policy(&subject.policy, divider.by_instance(), divider.flow())?;
        for it in &mut model.clients.others {
            let other = scenario.subject(&it.policy)?;
            let name = format!("{} 1:{k}", other.name);
            let policy = divider.policy(&other.policy, divider.by_instance(), divider.flow())?;
            model.policy.insert(name.clone(), policy);
            if other.careless {
                model.careless.push(name.clone());
            }
            it.policy = name;
        }
        // A service has one set of guards for all of its calls.
        let by = f64::from(k);
        let inner = std::iter::once(&mut model.backend).chain(model.service.values_mut());
        for service in inner.filter(|service| !service.calls.is_empty()) {
            let own = match &service.policy {
                Some(name) => scenario.subject(name)?,
                None => subject.clone(),
            };
            let name = format!("{} 1:{k} in a service", own.name);
            let policy = divider.policy(&own.policy, by, divider.calls_a_second)?;
            model.policy.insert(name.clone(), policy);
            service.policy = Some(name);
        }
        let subject = Subject { policy, ..subject.clone() };
        Ok(Self { scenario: model, subject, k, distortions: divider.distortions })
    }

    /// By how much everything is divided.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// What could not be divided exactly.
    pub fn distortions(&self) -> &[String] {
        &self.distortions
    }

    /// The approximate number of calls in a run, before they are multiplied back.
    pub fn calls(&self) -> f64 {
        self.scenario.calls()
    }

    /// Runs it once, and multiplies the counts back.
    pub fn run(&self, seed: u64, watch: &Watch) -> Run {
        let run = exact::run(&self.scenario, &self.subject, seed, watch);
        let k = u64::from(self.k);
        let mut series = run.series;
        series.scale(f64::from(self.k));
        Run {
            calls: run.calls * k,
            attempts: run.attempts * k,
            duplicates: run.duplicates * k,
            waiting_max: run.waiting_max * k,
            retries: run.retries * k,
            series,
            outcomes: run.outcomes.of_model(self.k),
            ..run
        }
    }
}

/// Divides the parts of a scenario, and notes what it had to round.
struct Divider {
    k: f64,
    /// The instances of the scenario.
    all_instances: f64,
    /// The instances of the model.
    instances: u32,
    /// Calls a second in the model.
    calls_a_second: f64,
    distortions: Vec<String>,
}

impl Divider {
    fn new(scenario: &Scenario, k: u32) -> Self {
        let (k, all) = (f64::from(k), f64::from(scenario.clients.instances));
        let instances = (all / k).round().max(LEAST_INSTANCES.min(all));
        let seconds = scenario.duration.as_secs_f64();
        Self {
            k,
            all_instances: all,
            instances: instances as u32,
            calls_a_second: scenario.calls() / seconds / k,
            distortions: Vec::new(),
        }
    }

    /// By how much the calls of an instance are divided.
    fn by_instance(&self) -> f64 {
        self.k * f64::from(self.instances) / self.all_instances
    }

    /// Calls a second of an instance of the model.
    fn flow(&self) -> f64 {
        self.calls_a_second / f64::from(self.instances)
    }

    fn note(&mut self, what: impl Display) {
        let what = what.to_string();
        if !self.distortions.contains(&what) {
            self.distortions.push(what);
        }
    }

    /// Divides a number of whole things.
    fn whole(&mut self, what: impl Display, count: u32, by: f64, least: u32) -> u32 {
        let exact = f64::from(count) / by;
        let rounded = exact.round().max(f64::from(least.min(count)));
        if (rounded - exact).abs() > UNNOTICED * exact {
            self.note(format_args!("{what} {count} becomes {rounded} instead of {exact:.2}"));
        }
        rounded as u32
    }

    /// Divides a bucket or a sample, of which `flow` things a second are added or counted.
    fn bucket(&mut self, what: impl Display, count: u32, by: f64, flow: f64) -> u32 {
        self.bucket_of(what, count, by, flow * BUCKET_SECONDS)
    }

    /// The same, of which `kept` is kept in any case.
    fn bucket_of(&mut self, what: impl Display, count: u32, by: f64, kept: f64) -> u32 {
        let exact = f64::from(count) / by;
        let rounded = exact.ceil().max(kept.floor()).max(1.0).min(f64::from(count));
        if (rounded - exact).abs() > UNNOTICED * exact {
            self.note(format_args!(
                "{what} {count} becomes {rounded}, which stands for {:.0}",
                rounded * by
            ));
        }
        rounded as u32
    }

    fn clients(&mut self, clients: &mut Clients, subject: &Subject) -> Result<(), String> {
        // All fields, so that a new one has to be considered.
        let Clients {
            instances,
            arrivals,
            keys,
            others,
            lifetime,
            choose: _,
            retry_to: _,
            guards: _,
            work: _,
            keyed: _,
            requeue: _,
            latency: _,
        } = clients;
        let k = self.k;
        match arrivals {
            Arrivals::Constant(pace) | Arrivals::Poisson(pace) => match pace {
                Pace::Rate(rate) => *rate /= k,
                // The capacity is divided.
                Pace::Load(_) => {}
            },
            Arrivals::Ramp { from, to, duration: _ } => {
                *from /= k;
                *to /= k;
            }
            Arrivals::Synchronised { callers, at: _ } | Arrivals::Closed { callers, think: _ } => {
                if f64::from(*callers) < k {
                    return Err(format!(
                        "a scale model 1:{k} needs at least {k} callers, and there are {callers}: set a shorter duration"
                    ));
                }
                *callers = self.whole("callers", *callers, k, 1);
                self.instances = self.instances.min(*callers);
            }
        }
        *instances = self.instances;
        for it in others {
            self.share("clients.others.share", it.share, self.instances);
        }
        if let Some(Lifetime(calls)) = lifetime {
            *calls = self.whole("clients.lifetime", *calls, self.by_instance(), 1);
        }
        if subject.policy.cooldown().is_some() {
            match keys {
                Keys::Own => {}
                Keys::Uniform { keys } => *keys = self.whole("keys", *keys, k, 1),
                Keys::Zipf { .. } => {
                    self.note(format_args!("a key has {k} times fewer calls within the cool-down"));
                }
            }
        }
        Ok(())
    }

    fn service(&mut self, name: &str, service: &mut Service) {
        // All fields, so that a new one has to be considered.
        let Service {
            servers,
            service: time,
            queue,
            backlog,
            connections,
            limit,
            ban,
            discipline: _,
            when_full: _,
            reject_cost: _,
            cancel: _,
            shards: _,
            endpoints: _,
            errors: _,
            error_cost: _,
            lost_replies: _,
            hint: _,
            calls: _,
            policy: _,
            latency: _,
        } = service;
        let k = self.k;
        if let Some(Servers(count)) = servers {
            let all = f64::from(*count);
            let few = (all / k).round().max(1.0);
            let slower = few * k / all;
            if (slower - 1.0).abs() > UNNOTICED {
                self.note(format_args!(
                    "{name}.servers {all} becomes {few}, and a request takes {slower:.2} times as long"
                ));
            }
            *count = few as u32;
            time.base = times(time.base, slower);
        }
        // There are k times fewer requests in service.
        time.per_request = multiplied(time.per_request, k);
        *queue = self.whole(format_args!("{name}.queue"), *queue, k, 0);
        *backlog = self.whole(format_args!("{name}.backlog"), *backlog, k, 0).min(*queue);
        if let Some(Servers(count)) = connections {
            *count = self.whole(format_args!("{name}.connections"), *count, k, 1);
        }
        if let Some(Limit { rate, burst, each_instance }) = limit {
            let by = if *each_instance { self.by_instance() } else { k };
            *rate /= by;
            *burst = self.bucket(format_args!("{name}.limit.burst"), *burst, by, *rate);
        }
        if let Some(ban) = ban {
            let (by, flow) = (self.by_instance(), self.flow());
            ban.after = self.bucket(format_args!("{name}.ban.after"), ban.after, by, flow);
        }
    }

    /// Faults that affect a share of the servers or the instances affect whole ones.
    fn faults(&mut self, model: &mut Scenario) {
        let servers = model.backend.servers.map_or(0, |servers| servers.0);
        for it in &model.capacity_loss {
            self.share("capacity_loss.share", it.share, servers);
        }
        for it in &mut model.restart {
            self.share("restart.share", it.share, self.instances);
            let burst = u32::from(it.burst);
            it.burst = self.whole("restart.burst", burst, self.by_instance(), 0) as u16;
        }
        for it in &model.switched_off {
            self.share("switched_off.share", it.share, self.instances);
        }
    }

    fn share(&mut self, what: &str, share: f64, of: u32) {
        let of = f64::from(of);
        let rounded = (share * of).round() / of;
        if (rounded - share).abs() > UNNOTICED * share {
            self.note(format_args!("{what} {share} becomes {rounded:.2}"));
        }
    }
}

/// A length of time, multiplied.
fn multiplied(span: Span, by: f64) -> Span {
    Span::from_nanos_f64((span.as_nanos_f64() * by).round())
}

/// The same for one that may be drawn.
fn times(time: HowLong, by: f64) -> HowLong {
    let times = |span| multiplied(span, by);
    match time {
        HowLong::Always(span) => HowLong::Always(times(span)),
        HowLong::Drawn(drawn) => HowLong::Drawn(match drawn {
            Drawn::Exponential(mean) => Drawn::Exponential(times(mean)),
            Drawn::Uniform { from, to } => Drawn::Uniform { from: times(from), to: times(to) },
            Drawn::Normal { mean, sd } => Drawn::Normal { mean: times(mean), sd: times(sd) },
            Drawn::Lognormal { median, p99 } => {
                Drawn::Lognormal { median: times(median), p99: times(p99) }
            }
        }),
    }
}
