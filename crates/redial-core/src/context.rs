//! The arguments of every step of a call, besides the time.

use core::num::NonZeroU64;

use crate::admit::Guards;
use crate::decide::Safety;
use crate::event::{CallInfo, Event, Observer};
use crate::policy::Policy;
use crate::stop::Stop;

/// What the engine needs to know about a request, besides the policy.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Whether it is safe to repeat.
    pub safety: Safety,
    /// The cool-down key, hashed.
    pub key: Option<NonZeroU64>,
    /// The number of the call, for observers that keep state per call. A runner with an observer numbers its calls.
    pub call: Option<NonZeroU64>,
    /// The stripe of the counter that its deposit goes to. Threads with different stripes do not contend.
    pub stripe: usize,
    /// A limit besides the policy's attempts.
    pub attempts: Option<u32>,
    /// The most calls that the runner can hold while they are [parked](crate::admit::ParkRule).
    pub park: u32,
    /// Why retries are off, if they are. Polls are still made: they do not repeat a failure.
    pub off: Option<Stop>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            safety: Safety::Unsafe,
            key: None,
            call: None,
            stripe: 0,
            attempts: None,
            park: 0,
            off: None,
        }
    }
}

impl Request {
    /// [`off`](Self::off) for a key or a job that has [rested](crate::schedule::Backoff::rest) because its last call stopped:
    /// one attempt shows whether it can succeed again, and until it does, nothing but rests follow. If every rested key
    /// retried quickly, a long outage would be answered with the full number of attempts again and again.
    pub const RESTED: Option<Stop> = Some(Stop::Attempts);

    /// What observers are told about the call.
    pub fn info(&self) -> CallInfo {
        CallInfo {
            number: self.call.map(NonZeroU64::get),
            cooldown_key: self.key.map(NonZeroU64::get),
        }
    }
}

/// The arguments of every step of a call. The policy and its guards are arguments, not parts of a call, so a
/// reloaded policy takes effect at the next step.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The state that calls share.
    pub guards: &'a Guards,
    /// Receives the events of the call.
    pub observer: Option<&'a dyn Observer>,
    /// The request.
    pub request: Request,
}

impl Context<'_> {
    #[inline(always)]
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = self.observer {
            tell(observer, &self.request, event());
        }
    }
}

#[cold]
#[inline(never)]
fn tell(observer: &dyn Observer, request: &Request, event: Event) {
    observer.call_event(request.info(), &event);
}
