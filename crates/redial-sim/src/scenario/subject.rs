use redial_core::admit::budget::Budget;
use redial_core::admit::{Guards, StallRule};
use redial_core::schedule::{HedgeDelay, HedgeRule};
use redial_core::{Draft, Policy, Preset, Span, Time};

use super::memory::MOST_GUARDS;
use super::{Arrivals, Requeue, Scenario, Scope};
use crate::peers::Peer;

/// The shortest backoff cap of a policy whose failed calls rest.
const SHORTEST_REST: Span = Span::MILLISECOND;

/// A policy under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: Policy,
    /// Whether its callers retry any failure, safe or not.
    pub careless: bool,
}

impl Subject {
    /// The most attempts that a simulated policy can make.
    pub const MOST_ATTEMPTS: u32 = 65_535;

    /// A policy whose callers only retry what is safe.
    ///
    /// # Errors
    ///
    /// It makes more attempts than can be simulated.
    pub fn new(name: impl Into<String>, policy: Policy) -> Result<Self, String> {
        let name = name.into();
        match policy.attempts() {
            ..=Self::MOST_ATTEMPTS => Ok(Self { name, policy, careless: false }),
            attempts => Err(format!(
                "the policy {name:?} makes {attempts} attempts, and the simulator supports at most {}",
                Self::MOST_ATTEMPTS
            )),
        }
    }

    /// A single attempt with the whole deadline of this policy.
    pub fn one_attempt(&self) -> Self {
        let draft = self.policy.deadline().into_iter().fold(Draft::bare(1), Draft::deadline);
        Self { policy: draft.build().unwrap_or_else(|_| Policy::standard()), ..Self::no_retry() }
    }

    /// The policy that makes a single attempt.
    pub fn no_retry() -> Self {
        let draft = Policy::draft().attempts(1).without_hedge().without_stall().without_park();
        let policy = draft.build().unwrap_or_else(|_| Policy::standard());
        Self { name: NO_RETRY.to_owned(), policy, careless: false }
    }
}

const NO_RETRY: &str = "no-retry";

impl Scenario {
    /// The policy with this name: one of the scenario, `no-retry`, a preset, or `peer:NAME`.
    ///
    /// # Errors
    ///
    /// There is no such policy.
    pub fn subject(&self, name: &str) -> Result<Subject, String> {
        self.accept(self.find_subject(name)?)
    }

    fn find_subject(&self, name: &str) -> Result<Subject, String> {
        if let Some(policy) = self.policy.get(name) {
            let careless = self.careless.iter().any(|careless| careless == name);
            return Ok(Subject { careless, ..Subject::new(name, policy.clone())? });
        }
        if name == NO_RETRY {
            return Ok(Subject::no_retry());
        }
        if let Some(peer) = name.strip_prefix("peer:").and_then(Peer::find) {
            let careless = !peer.checks_safety;
            return Ok(Subject { careless, ..Subject::new(name, peer.policy())? });
        }
        match Preset::from_name(name) {
            Some(preset) => Subject::new(name, preset.into()),
            None => Err(format!(
                "no policy is called {name:?}: use one of this scenario ([policy.NAME]), {NO_RETRY}, a preset ({}), or peer:NAME",
                Preset::ALL.map(Preset::name).join(", ")
            )),
        }
    }

    /// Checks that the policy can be simulated here.
    ///
    /// # Errors
    ///
    /// Its guards do not fit into memory, or it has no rest to requeue after.
    pub fn accept(&self, subject: Subject) -> Result<Subject, String> {
        let Subject { name, policy, .. } = &subject;
        let clients = &self.clients;
        if clients.requeue == Some(Requeue::Rest) && policy.backoff().cap() < SHORTEST_REST {
            return Err(format!(
                "the policy {name:?} rests for at most its backoff.cap (clients.requeue), which has to be at least 1ms"
            ));
        }
        let sets = u64::from(clients.instances) * u64::from(self.guards_each());
        // Calls that do not depend on each other need not be followed one by one: a scale model has fewer guards.
        let is_closed = matches!(clients.arrivals, Arrivals::Closed { .. });
        if sets > MOST_GUARDS && is_closed && self.keeps_state(policy) {
            return Err(format!(
                "the guards of the policy {name:?} have state, and {sets} sets of them (instances × shards or endpoints with their \
                 own) are more than the {MOST_GUARDS} that fit into memory; guards have no state without a budget of their own, \
                 breaker, throttle, limit, cool-down, learnt hedges, stall or parked calls; where every instance makes one call, neither has a budget \
                 that pays for all retries of a new process, nor the cool-down of a policy with one retry"
            ));
        }
        Ok(subject)
    }

    /// How many sets of guards an instance has.
    pub(crate) fn guards_each(&self) -> u32 {
        if self.clients.guards == Scope::Backend { 1 } else { self.backend.parts() }
    }

    /// The policy without rules that have no effect. A stall needs timeouts, and a share of the deadline a deadline. Where
    /// every instance makes one call, a cool-down never refuses the first retry, no other call overtakes it, and its
    /// attempts may be too few for a stall.
    pub(crate) fn effective(&self, policy: &Policy) -> Policy {
        let once = self.clients.call_once();
        let mut draft = policy.edit();
        if once && policy.attempts() <= 2 {
            draft = draft.without_cooldown();
        }
        let timeouts = policy.attempt_timeout().is_some() || policy.deadline().is_some();
        let too_few = |rule: &StallRule| once && policy.attempts() <= rule.timeouts;
        if !timeouts || policy.stall().is_some_and(too_few) {
            draft = draft.without_stall();
        }
        if hedges(policy).is_none_or(|rule| once && rule.overtaken) {
            draft = draft.without_hedge();
        }
        draft.build().unwrap_or_else(|_| policy.clone())
    }

    /// Whether the guards of instances with this policy can differ. Otherwise one set is enough for all of them.
    pub(crate) fn keeps_state(&self, policy: &Policy) -> bool {
        let policy = &self.effective(policy);
        let guarded = policy.breaker().is_some()
            || policy.throttle().is_some()
            || policy.rate().is_some()
            || policy.concurrency().is_some()
            || policy.cooldown().is_some()
            || policy.stall().is_some()
            || policy.parks();
        guarded || policy.hedge().is_some_and(learns) || self.can_run_dry(policy)
    }

    /// Whether the budget of an instance can refuse a retry. That of a fleet is not the instance's.
    fn can_run_dry(&self, policy: &Policy) -> bool {
        let retries = policy.attempts() - 1;
        match policy.budget() {
            _ if policy.fleet().is_some() => false,
            Budget::None => false,
            Budget::Window(_) if self.clients.call_once() => Guards::new(policy, 1, 0)
                .balance(Time::ZERO)
                .is_some_and(|it| it < u64::from(retries)),
            // One call is too few to find the destination slow.
            Budget::Tokens(tokens) if self.clients.call_once() => {
                let dearest = tokens.cost.max(tokens.timeout_cost).max(tokens.throttled_cost);
                tokens.opening.unwrap_or(tokens.capacity) / dearest.max(1) < retries
            }
            _ => retries > 0,
        }
    }
}

/// The hedges of a policy, if it can send any.
fn hedges(policy: &Policy) -> Option<&HedgeRule> {
    let is_share = |rule: &HedgeRule| matches!(rule.when, HedgeDelay::Share(_));
    let hedge = policy.hedge().filter(|_| policy.attempts() > 1);
    hedge.filter(|rule| !is_share(rule) || policy.deadline().is_some())
}

/// Whether a client has to learn when to hedge: how long attempts take, or which was sent last.
fn learns(rule: &HedgeRule) -> bool {
    rule.overtaken || matches!(rule.when, HedgeDelay::Quantile(_))
}
