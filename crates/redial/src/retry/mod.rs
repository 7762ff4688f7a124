use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

#[cfg(feature = "fleet")]
use redial_core::Invalid;
use redial_core::admit::Guards;
use redial_core::decide::cause::IntoCause;
use redial_core::decide::{Judge, Outcome, PollUntil, RetryIf, Safety, Typed};
#[cfg(feature = "fleet")]
use redial_core::fleet::Role;
use redial_core::{Context, Deadline, Policy, Request, Stop, Time};

use crate::attempt::Key;
use crate::budget::RetryBudget;
use crate::clock::{self, Clock};
#[cfg(feature = "fleet")]
use crate::fleet::Fleet;
use crate::inbound::Inbound;
use crate::observers::Observers;
use crate::park::ParkLimit;
use crate::shared::{BudgetSource, Shared};
use crate::spans::Spans;
use crate::{Stripe, thread_state};

mod guards;
mod observe;

/// Makes calls under a policy.
///
/// Cheap to clone; clones share the policy and the guards (budget, breaker, limits). Make one per destination, not one per
/// call: a new `Retry` has a full budget. Options such as [`idempotent`](Self::idempotent) or [`key`](Self::key) apply to
/// the clone that they were set on.
///
/// ```
/// use redial::{Policy, Retry, Retryable};
/// use std::sync::LazyLock;
///
/// static SCORES: LazyLock<Retry> = LazyLock::new(|| Retry::new(Policy::standard()).idempotent());
///
/// async fn fetch_score() -> std::io::Result<u32> {
///     Ok(7)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redial::Error<std::io::Error>> {
/// let score = fetch_score.retry(&SCORES).await?;
/// assert_eq!(score, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a `Retry` does nothing until it runs a call"]
pub struct Retry<C = Typed> {
    shared: Arc<Shared>,
    guards: Arc<Guards>,
    /// The destination that `guards` belong to.
    scope: Option<Arc<str>>,
    observers: Observers,
    /// A copy of the clock's epoch, which every call needs.
    epoch: Instant,
    pub(crate) spans: Spans,
    pub(crate) classifier: C,
    safety: Safety,
    key: KeySource,
    /// Hashed.
    cooldown_key: Option<NonZeroU64>,
    deadline: Deadline,
    pub(crate) park_limit: Option<ParkLimit>,
}

#[derive(Clone, Copy)]
enum KeySource {
    None,
    /// A new key for every call.
    Fresh,
    Given(Key),
}

/// Whether the first attempt of a call may take the fast path.
pub(crate) enum FastPath<'a> {
    Closed,
    /// Its calls are counted there, if they are metered.
    Open(Option<&'a Arc<Stripe>>),
}

impl KeySource {
    #[inline(always)]
    fn make(self) -> Option<Key> {
        match self {
            Self::None => None,
            Self::Fresh => Some(Key::fresh()),
            Self::Given(key) => Some(key),
        }
    }
}

impl Retry {
    /// Calls under this policy, with fresh guards. If the policy names a fleet, the budget is nevertheless that of this
    /// process until `Retry::fleet` is given the ledger.
    ///
    /// Errors are classified by their [`Classify`](redial_core::decide::Classify) implementation. A request that may have
    /// reached the server is repeated, or hedged, only if [`idempotent`](Self::idempotent), [`keyed`](Self::keyed),
    /// [`key`](Self::key) or [`conditional`](Self::conditional) declares that safe.
    pub fn new(policy: Policy) -> Self {
        let shared = Arc::new(Shared::new(policy, Arc::default(), BudgetSource::Policy));
        Self {
            guards: shared.guards(None),
            shared,
            scope: None,
            observers: Observers::None,
            epoch: clock::epoch(),
            spans: Spans::default(),
            classifier: Typed,
            safety: Safety::Unsafe,
            key: KeySource::None,
            cooldown_key: None,
            deadline: Deadline::NONE,
            park_limit: None,
        }
    }
}

impl<C> Retry<C> {
    /// Repeats the errors for which `transient` returns true, whatever the policy's `retry_on` lists. The
    /// predicate also declares that repeating is safe. Attempts that timed out have no error to pass to it;
    /// they are repeated if the policy repeats timeouts.
    ///
    /// To keep such a value in a struct, pass a function pointer, `retry_if(is_transient as fn(&_) -> _)`: its type is
    /// then [`RetryFn<E>`](crate::RetryFn), or, for the types below, `RetryFn<E, Kind>` with one of the kinds in
    /// [`decide::cause`](crate::decide::cause).
    ///
    /// `E` can also be an `anyhow::Error`, an `eyre::Report` or a `Box<dyn Error>`: the cause of a failed call is then a
    /// [`DynError`](redial_core::decide::DynError), so that `?` works.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> anyhow::Result<()> {
    /// # use redial::{Policy, Retry};
    /// # async fn fetch() -> anyhow::Result<u32> { Ok(7) }
    /// let retry = Retry::new(Policy::standard()).retry_if(|error: &anyhow::Error| error.is::<std::io::Error>());
    /// let score = retry.run(|_| fetch()).await?;
    /// # assert_eq!(score, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_if<E, F, Kind>(self, transient: F) -> Retry<RetryIf<F, Kind>>
    where
        E: IntoCause<Kind>,
        F: Fn(&E) -> bool,
    {
        let safety = if self.safety == Safety::Unsafe { Safety::Idempotent } else { self.safety };
        Self { safety, ..self }.with_classifier(RetryIf::new(transient))
    }

    /// Classifies results with a function, which sees `Ok` values too. A value that is classified as a failure is not
    /// kept when the call gives up: if the last answer matters, return it as an error.
    pub fn classify<T, E, F: Fn(&Result<T, E>) -> Outcome>(self, judge: F) -> Retry<Judge<F>> {
        self.with_classifier(Judge(judge))
    }

    /// Classifies results with another [`Classifier`](redial_core::decide::Classifier).
    pub fn with_classifier<D>(self, classifier: D) -> Retry<D> {
        self.map_classifier(|_| classifier)
    }

    fn map_classifier<D>(self, map: impl FnOnce(C) -> D) -> Retry<D> {
        let Self { shared, guards, observers, epoch, spans, .. } = self;
        let Self { scope, classifier, safety, key, cooldown_key, deadline, park_limit, .. } = self;
        let classifier = map(classifier);
        Retry {
            shared,
            guards,
            scope,
            observers,
            epoch,
            spans,
            classifier,
            safety,
            key,
            cooldown_key,
            deadline,
            park_limit,
        }
    }

    /// Polls: an `Ok` value that is not `done` means "not yet", and the operation is repeated without charging the budget or
    /// the breaker.
    /// A poll that gives up returns an error without the last value; if you need that, keep it in a context
    /// ([`run_with`](Self::run_with)).
    pub fn until<T, F: Fn(&T) -> bool>(self, done: F) -> Retry<PollUntil<C, F>> {
        self.map_classifier(|inner| PollUntil { inner, done })
    }

    /// Declares that repeating the operation is safe: doing it twice has the same effect as doing it once.
    pub fn idempotent(mut self) -> Self {
        self.safety = Safety::Idempotent;
        self
    }

    /// Declares that the requests carry a precondition, so a second one fails instead of being applied.
    pub fn conditional(mut self) -> Self {
        self.safety = Safety::Conditional;
        self
    }

    /// Makes an idempotency key for every call, the same on all its attempts. The operation has to send it
    /// ([`Attempt::key`](crate::Attempt::key)).
    pub fn keyed(mut self) -> Self {
        (self.safety, self.key) = (Safety::Keyed, KeySource::Fresh);
        self
    }

    /// As [`keyed`](Self::keyed), with a key that the caller keeps with the user's action, so that it
    /// outlives this call.
    pub fn key(mut self, key: Key) -> Self {
        (self.safety, self.key) = (Safety::Keyed, KeySource::Given(key));
        self
    }

    /// The key of the calls, for a policy with a cool-down per key. Calls without a key never cool down.
    pub fn cooldown_key(mut self, key: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.cooldown_key = NonZeroU64::new(hasher.finish());
        self
    }

    /// Ends calls at this time, even if the policy allows more.
    pub fn deadline_at(mut self, deadline: Instant) -> Self {
        self.deadline = clock::deadline_at(deadline);
        self
    }

    /// The same policy with the guards of another destination, so that one bad host does not spend the
    /// budget of the others. The guards of the first 1024 destinations are separate. Keep the clone where calls are
    /// frequent, because finding the guards takes a lock.
    pub fn scope(mut self, destination: impl Into<String>) -> Self {
        let destination = destination.into();
        self.guards = self.shared.guards(Some(&destination));
        self.scope = Some(destination.into());
        self
    }

    /// Draws on `budget`, which other code may share, instead of the policy's budget or its fleet's. Destinations of
    /// [`scope`](Self::scope) share it too. Call this before cloning: earlier clones keep their budget, and no longer share
    /// the breaker and the limits.
    pub fn budget(self, budget: &RetryBudget) -> Self {
        self.with_budget(BudgetSource::Shared(budget.clone()))
    }

    /// Limits the parked calls of this value, its later clones, and all others with the same `limit`, together.
    pub fn park_limit(mut self, limit: &ParkLimit) -> Self {
        self.park_limit = Some(limit.clone());
        self
    }

    /// Shares the budget with all instances of `fleet`: the floor of the policy's budget is then that of all of them
    /// together. Destinations of [`scope`](Self::scope) have ledgers of their own. Clones that were made before keep
    /// their budget.
    ///
    /// # Errors
    ///
    /// The policy's budget is not a window, or the policy names another fleet.
    #[cfg(feature = "fleet")]
    pub fn fleet(self, fleet: &Fleet) -> Result<Self, Invalid> {
        let membership = fleet.join(self.policy(), Role::Member)?;
        Ok(self.with_budget(BudgetSource::Fleet(membership)))
    }

    fn with_budget(mut self, budget: BudgetSource) -> Self {
        let (policy, off) = (self.policy().clone(), Arc::clone(&self.shared.off));
        self.shared = Arc::new(Shared::new(policy, off, budget));
        self.guards = self.shared.guards(self.scope.as_deref());
        #[cfg(feature = "metrics")]
        if let Some(meter) = self.observers.meter() {
            meter.watch(&self.shared);
        }
        self
    }

    /// The policy.
    #[inline]
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    #[inline]
    pub(crate) fn guards(&self) -> &Guards {
        &self.guards
    }

    /// Switches retries off, and on again, for this value and all its clones: each call then makes one
    /// attempt. Polling continues.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.off.store(!enabled, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_observed(&self) -> bool {
        !matches!(self.observers, Observers::None)
    }

    #[inline(always)]
    pub(crate) fn fast_path(&self) -> FastPath<'_> {
        match &self.observers {
            _ if self.spans.is_enabled() => FastPath::Closed,
            Observers::None => FastPath::Open(None),
            #[cfg(feature = "metrics")]
            Observers::Meter(meter) => FastPath::Open(Some(meter.stripe(thread_state::stripe()))),
            _ => FastPath::Closed,
        }
    }

    #[inline(always)]
    pub(crate) fn now<K: Clock>(&self) -> Time {
        K::since(self.epoch)
    }

    /// Why there are no retries now, if there are none.
    pub(crate) fn off(&self) -> Option<Stop> {
        if !self.is_enabled() {
            Some(Stop::SwitchedOff)
        } else if self.policy().refuses_nested() && Inbound::current().is_retry() {
            Some(Stop::Nested)
        } else {
            None
        }
    }

    /// Whether retries are switched on.
    pub fn is_enabled(&self) -> bool {
        !self.shared.off.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn is_keyed(&self) -> bool {
        !matches!(self.key, KeySource::None)
    }

    #[inline(always)]
    pub(crate) fn call_key(&self) -> Option<Key> {
        self.key.make()
    }

    /// When a call that starts now has to end.
    #[inline(always)]
    pub(crate) fn latest(&self) -> Deadline {
        if thread_state::is_serving() {
            return self.deadline.min(Inbound::current().deadline);
        }
        self.deadline
    }

    #[inline(always)]
    pub(crate) fn context(&self) -> Context<'_> {
        let request = Request {
            safety: self.safety,
            key: self.cooldown_key,
            stripe: thread_state::stripe(),
            ..Request::default()
        };
        let observer = self.observers.as_dyn();
        Context { policy: &self.shared.policy, guards: &self.guards, observer, request }
    }
}

/// For a runner that knows more of the request than a closure says.
#[cfg(feature = "http-client")]
impl<C: Clone> Retry<C> {
    /// A copy for a request that carries its key itself.
    pub(crate) fn unkeyed(&self) -> Self {
        Self { key: KeySource::None, ..self.clone() }
    }

    /// When an attempt that starts now has to be cut off.
    #[inline(always)]
    pub(crate) fn expiry(&self, now: Time, latest: Deadline) -> Deadline {
        redial_core::Call::resume(self.policy(), now, latest).1.expires
    }

    /// Takes over what the request itself says about being repeated, if anything.
    pub(crate) fn set_safety(&mut self, safety: Option<Safety>) {
        self.safety = safety.unwrap_or(self.safety);
    }

    /// A copy for single attempts of calls that are keyed and traced elsewhere.
    pub(crate) fn for_attempts(&self) -> Self {
        Self { spans: Spans::default(), ..self.unkeyed() }
    }
}

impl<C> fmt::Debug for Retry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}
