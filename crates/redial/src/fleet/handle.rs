use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::admit::budget::Budget;
use redial_core::fleet::{FleetTerms, Instance, Location, Role};
use redial_core::{Deadline, Invalid, Policy};
use redis::Script;
use tokio::sync::Notify;

use super::draft::{FleetDraft, Observer};
use super::driver;
use super::ledger::Ledger;
use super::name;
use super::one_shot::OneShot;
use super::stats::FleetStats;
use crate::clock::{Clock, Monotonic};
use crate::entropy;
use crate::link::{Address, Link};

/// A ledger replies with a few numbers, and Redis with one line on an error.
const REPLY_BYTES: usize = 64 << 10;

/// A budget that instances share through a ledger in Redis. Clones are the same fleet, with one connection and one
/// background thread.
///
/// When the last clone, and the last [`Retry`](crate::Retry) and [`RetryBudget`](crate::RetryBudget) that share the budget are dropped, the fleet leaves in the
/// background and its thread ends. If the process exits before that, its share of the floor is unused for some minutes:
/// call [`leave`](Self::leave) first.
#[derive(Clone)]
pub struct Fleet {
    handle: Arc<Handle>,
}

/// Ends the driver when it is dropped.
struct Handle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct Config {
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) timeout: Duration,
    pub(super) observer: Option<Observer>,
}

/// State shared by the driver and the handles. The driver ends after the last handle is dropped.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) link: Arc<Link>,
    pub(super) script: Script,
    /// Wakes the driver.
    pub(super) driver: Arc<Notify>,
    inbox: Mutex<Inbox>,
    ledgers: Mutex<Vec<Weak<Ledger>>>,
}

/// Messages for the driver.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) joined: Vec<Joined>,
    /// With the guards, so that their last earnings are not lost.
    pub(super) left: Vec<(Arc<Ledger>, Arc<Guards>)>,
    pub(super) closing: bool,
    /// Whether Redis has confirmed that all instances left.
    pub(super) confirmed: bool,
}

pub(super) struct Joined {
    pub(super) ledger: Arc<Ledger>,
    pub(super) guards: Weak<Guards>,
    pub(super) instance: Instance,
}

impl Shared {
    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.inbox().closing = true;
        self.driver.notify_one();
    }
}

impl Fleet {
    /// Opens the fleet `name`, whose ledger is in the Redis at `redis://[user:password@]host[:port][/database]`, or `rediss://`
    /// for TLS. A name consists of 1 to 128 letters, digits and `.`, `_`, `-`, `:`, `/`. Does not wait for the network.
    pub fn open(url: &str, name: &str) -> Result<Self, Invalid> {
        Self::draft(url, name).open()
    }

    /// The same with options.
    pub fn draft(url: &str, name: &str) -> FleetDraft {
        FleetDraft::new(url, name)
    }

    /// The fleet `name`, whose ledger is where a policy file says. Reads the password, and the observer and other options can
    /// still be set.
    ///
    /// # Errors
    ///
    /// A field of `location` is not valid, or the password is not found.
    pub fn at(location: &Location, name: &str) -> Result<FleetDraft, Invalid> {
        FleetDraft::at(location, name)
    }

    pub(super) fn start(address: Address, config: Config) -> Result<Self, Invalid> {
        let shared = Arc::new(Shared {
            config,
            link: Arc::new(Link::new(address, REPLY_BYTES)),
            script: Script::new(include_str!("ledger.lua")),
            driver: Arc::default(),
            inbox: Mutex::default(),
            ledgers: Mutex::default(),
        });
        let thread = driver::start(&shared).map_err(|error| {
            Invalid::new("fleet", error.to_string(), "a thread that can be started")
        })?;
        Ok(Self { handle: Arc::new(Handle { shared, thread: Mutex::new(Some(thread)) }) })
    }

    /// The name of the fleet.
    pub fn name(&self) -> &str {
        &self.handle.shared.config.name
    }

    /// An instance for a process that makes one call and exits. The policy needs a window budget.
    #[doc(hidden)]
    pub fn one_shot(&self, policy: &Policy) -> Result<OneShot, Invalid> {
        OneShot::new(self, policy)
    }

    /// The state of each ledger: the fleet's own, and those of destinations.
    pub fn stats(&self) -> Vec<FleetStats> {
        self.handle.shared.stats()
    }

    /// Returns what was not spent, and ends the fleet for this process: its `Retry`s make one attempt per call from now on.
    /// Waits for the confirmation of Redis, for at most twice the fleet's timeout. Returns whether it came.
    pub fn leave(&self) -> bool {
        let Handle { shared, thread } = &*self.handle;
        shared.close();
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An observer that calls this runs on that thread.
        let thread = thread.filter(|it| it.thread().id() != thread::current().id());
        let ended = thread.is_none_or(|thread| thread.join().is_ok());
        ended && shared.inbox().confirmed
    }

    /// Adds an instance for this policy, which needs a window budget, and no other fleet.
    pub(crate) fn join(&self, policy: &Policy, role: Role) -> Result<Membership, Invalid> {
        let name = self.name().to_owned();
        if let Some(other) = policy.fleet().filter(|other| *other != name) {
            return Err(Invalid::new("fleet", other, format!("{name}, the fleet that was opened")));
        }
        let Some((guards, ledger)) = self.lease(policy, name) else {
            let allowed = "a window, which is the only kind that a fleet can share";
            return Err(Invalid::new("budget", kind(policy.budget()), allowed));
        };
        let guards = Arc::new(guards);
        self.register(&ledger, &guards, policy, role);
        Ok(Membership { fleet: self.clone(), ledger, guards })
    }

    fn lease(&self, policy: &Policy, name: String) -> Option<(Guards, Arc<Ledger>)> {
        let Shared { config, driver, ledgers, .. } = &*self.handle.shared;
        let ledger = Ledger::new(name, &config.prefix, driver);
        let stripes = thread::available_parallelism().map_or(1, usize::from);
        let waker = Waker::from(Arc::clone(&ledger.waker));
        let guards = Guards::leased(policy, stripes, entropy::seed(), waker)?;
        let mut ledgers = ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.retain(|it| it.strong_count() > 0);
        ledgers.push(Arc::downgrade(&ledger));
        Some((guards, ledger))
    }

    fn register(&self, ledger: &Arc<Ledger>, guards: &Arc<Guards>, policy: &Policy, role: Role) {
        let (Budget::Window(window), Some(lease)) = (policy.budget(), guards.lease()) else {
            return;
        };
        let instance = Instance::new(role, FleetTerms::from(window), Monotonic::now());
        let (ledger, guards) = (Arc::clone(ledger), Arc::downgrade(guards));
        let shared = &self.handle.shared;
        let mut inbox = shared.inbox();
        if inbox.closing {
            lease.set_dry(Deadline::NONE);
            ledger.end();
        } else {
            inbox.joined.push(Joined { ledger, guards, instance });
            shared.driver.notify_one();
        }
    }
}

impl Shared {
    fn stats(&self) -> Vec<FleetStats> {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.iter().filter_map(Weak::upgrade).map(|ledger| ledger.stats().clone()).collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// One instance of a fleet. It leaves when it is dropped.
pub(crate) struct Membership {
    fleet: Fleet,
    ledger: Arc<Ledger>,
    guards: Arc<Guards>,
}

impl Membership {
    pub(crate) fn guards(&self) -> &Arc<Guards> {
        &self.guards
    }

    pub(super) fn wait(&self, timeout: Duration) -> bool {
        self.ledger.wait(timeout)
    }

    /// Finds the guards of a destination, which has its own ledger. `find` gets a function that creates new ones.
    pub(crate) fn scope(
        &self,
        policy: &Policy,
        destination: &str,
        find: impl FnOnce(&mut dyn FnMut() -> Option<Guards>) -> Arc<Guards>,
    ) -> Arc<Guards> {
        let mut made = None;
        let guards = find(&mut || {
            let name = name::scoped(self.fleet.name(), destination);
            let (guards, ledger) = self.fleet.lease(policy, name)?;
            made = Some(ledger);
            Some(guards)
        });
        if let Some(ledger) = made {
            self.fleet.register(&ledger, &guards, policy, Role::Member);
        }
        guards
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let shared = &self.fleet.handle.shared;
        let mut inbox = shared.inbox();
        if !inbox.closing {
            inbox.left.push((Arc::clone(&self.ledger), Arc::clone(&self.guards)));
            shared.driver.notify_one();
        }
    }
}

fn kind(budget: &Budget) -> &'static str {
    match budget {
        Budget::None => "none",
        Budget::Window(_) => "a window",
        Budget::Tokens(_) => "tokens",
        Budget::Throttling(_) => "throttling",
        Budget::Inflight(_) => "inflight",
    }
}
