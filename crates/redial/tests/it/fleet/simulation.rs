//! A fleet in virtual time: the real engine, lease and ledger script, and a simulated network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::fleet::{Ask, FleetTerms, Grant, Instance, Role};
use redial_core::schedule::Backoff;
use redial_core::{Call, Context, Deadline, Policy, Request, Span, Time, Verdict, draw};

use super::script::Script;

/// The one-way latency between instance and ledger.
const LATENCY: Span = Span::from_micros(500);
/// The timeout of a sync, and the delay until the next one.
const PATIENCE: Span = Span::from_millis(250);

/// The events of a simulation.
pub(super) struct Plan {
    pub(super) budget: WindowBudget,
    pub(super) instances: usize,
    /// Each instance makes a call this often.
    pub(super) every: Span,
    pub(super) until: Time,
    /// When calls fail.
    pub(super) fails: fn(Time) -> bool,
    /// Whether this instance reaches the ledger.
    pub(super) reaches: Box<dyn Fn(usize, Time) -> bool>,
    /// Whether the ledger's reply to this instance is lost.
    pub(super) loses: Box<dyn Fn(usize, Time) -> bool>,
    /// When this instance starts.
    pub(super) starts: Box<dyn Fn(usize) -> Time>,
    /// When this instance is killed.
    pub(super) killed: Box<dyn Fn(usize) -> Deadline>,
    /// When the ledger loses its data.
    pub(super) forgets: Vec<Time>,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn new(budget: WindowBudget, instances: usize, every: Span, until: Time) -> Self {
        Self {
            budget,
            instances,
            every,
            until,
            fails: |_| true,
            reaches: Box::new(|_, _| true),
            loses: Box::new(|_, _| false),
            starts: Box::new(|_| Time::ZERO),
            killed: Box::new(|_| Deadline::NONE),
            forgets: Vec::new(),
            seed: 1,
        }
    }
}

/// The recorded results.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) calls: Vec<Time>,
    pub(super) retries: Vec<Time>,
    /// The times of all syncs.
    pub(super) asks: Vec<Time>,
    pub(super) members: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call(usize),
    Retry(usize, usize),
    Sync(usize),
    Arrives(usize, Ask, Time),
    Answered(usize, Ask, Grant, Time),
    Unanswered(usize),
    Forget,
}

struct Node {
    guards: Guards,
    instance: Instance,
    /// The time of its next sync; other events of this kind are stale.
    sync: Time,
    asking: bool,
    killed: Deadline,
}

struct Entry(Time, u64, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct World<'a> {
    plan: &'a Plan,
    policy: Policy,
    script: Script,
    nodes: Vec<Node>,
    calls: Vec<Call>,
    idle: Vec<usize>,
    events: BinaryHeap<Reverse<Entry>>,
    count: u64,
    now: Time,
    seen: Seen,
}

/// Runs a simulation.
pub(super) fn run(plan: &Plan) -> Seen {
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(2));
    let policy = Policy::draft().attempts(4).backoff(backoff).budget(Budget::Window(plan.budget));
    let policy = policy.build().unwrap();
    let terms = FleetTerms::from(&plan.budget);
    let nodes = (0..plan.instances).map(|index| Node {
        guards: Guards::leased(&policy, 1, 0, Waker::noop().clone()).unwrap(),
        instance: Instance::new(Role::Member, terms, (plan.starts)(index)),
        sync: Time::ZERO,
        asking: false,
        killed: (plan.killed)(index),
    });
    let nodes = nodes.collect();
    let mut world = World {
        plan,
        nodes,
        policy,
        script: Script::new(),
        calls: Vec::new(),
        idle: Vec::new(),
        events: BinaryHeap::new(),
        count: 0,
        now: Time::ZERO,
        seen: Seen::default(),
    };
    for index in 0..plan.instances {
        let (phase, starts) = (draw(plan.seed, index as u64), (plan.starts)(index));
        world.push(starts + Span::from_nanos(phase) % plan.every, Event::Call(index));
        world.nodes[index].sync = starts + Span::from_nanos(phase / 7) % Span::from_millis(500);
        world.push(world.nodes[index].sync, Event::Sync(index));
    }
    for at in &plan.forgets {
        world.push(*at, Event::Forget);
    }
    while let Some(Reverse(Entry(at, _, event))) = world.events.pop() {
        if at >= plan.until {
            break;
        }
        world.now = at;
        world.step(event);
    }
    world.seen
}

impl World<'_> {
    fn push(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse(Entry(at, self.count, event)));
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Forget => self.script.forget(),
            Event::Call(index) => {
                if self.lives(index) {
                    self.seen.calls.push(self.now);
                    self.push(self.now + self.plan.every, Event::Call(index));
                    let call = Call::new(&self.policy, self.now, Deadline::NONE);
                    let place = self.idle.pop().unwrap_or(self.calls.len());
                    if place == self.calls.len() {
                        self.calls.push(call);
                    } else {
                        self.calls[place] = call;
                    }
                    self.attempt(index, place);
                }
            }
            Event::Retry(index, place) => {
                if self.lives(index) {
                    self.attempt(index, place);
                }
            }
            Event::Sync(index) => {
                let node = &self.nodes[index];
                if self.lives(index) && node.sync == self.now && !node.asking {
                    self.sync(index);
                }
            }
            Event::Arrives(index, ask, sent) => {
                self.seen.asks.push(self.now);
                let grant = self.script.ask(&ask, self.now);
                self.seen.members = grant.members;
                if (self.plan.loses)(index, self.now) {
                    self.push(sent + PATIENCE, Event::Unanswered(index));
                } else {
                    self.push(self.now + LATENCY, Event::Answered(index, ask, grant, sent));
                }
            }
            Event::Answered(index, ask, grant, sent) => {
                let (now, Node { guards, instance, asking, .. }) =
                    (self.now, &mut self.nodes[index]);
                instance.answered(guards.lease().unwrap(), &ask, &grant, sent, now);
                *asking = false;
                self.plan_sync(index);
            }
            Event::Unanswered(index) => {
                let (now, Node { guards, instance, asking, .. }) =
                    (self.now, &mut self.nodes[index]);
                instance.failed(guards.lease().unwrap(), now);
                *asking = false;
                self.plan_sync(index);
            }
        }
    }

    fn lives(&self, index: usize) -> bool {
        !self.nodes[index].killed.is_over(self.now)
    }

    fn attempt(&mut self, index: usize, place: usize) {
        let (now, node, call) = (self.now, &mut self.nodes[index], &mut self.calls[place]);
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        let cx = Context { policy: &self.policy, guards: &node.guards, observer: None, request };
        let lease = node.guards.lease().unwrap();
        let Ok(permit) = call.admit(&cx, now) else {
            self.idle.push(place);
            return;
        };
        if permit.number > 1 {
            self.seen.retries.push(now);
        }
        let failure = Failure::new(Class::Transient).into();
        let outcome = if (self.plan.fails)(now) { failure } else { Outcome::Success };
        let seed = draw(self.plan.seed, self.count);
        match call.settle(&cx, permit, &outcome, now, || seed) {
            Verdict::Wait(until) => {
                node.instance.pay_pending(lease, now);
                self.push(until, Event::Retry(index, place));
                if !self.nodes[index].asking {
                    self.plan_sync(index);
                }
            }
            _ => self.idle.push(place),
        }
    }

    fn plan_sync(&mut self, index: usize) {
        let (now, node) = (self.now, &mut self.nodes[index]);
        node.sync = match node.instance.is_reached() {
            true => {
                node.instance.next(node.guards.lease().unwrap(), now).max(now + Span::from_nanos(1))
            }
            false => now + PATIENCE,
        };
        let sync = node.sync;
        self.push(sync, Event::Sync(index));
    }

    fn sync(&mut self, index: usize) {
        let (now, node) = (self.now, &mut self.nodes[index]);
        node.asking = true;
        if (self.plan.reaches)(index, now) {
            let ask = node.instance.ask(node.guards.lease().unwrap(), now);
            self.push(now + LATENCY, Event::Arrives(index, ask, now));
        } else {
            self.push(now + LATENCY, Event::Unanswered(index));
        }
    }
}
