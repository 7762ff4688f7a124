//! What a call is made under, besides the time.

use crate::admit::Guards;
use crate::decide::Safety;
use crate::event::{Event, Observer};
use crate::policy::Policy;
use crate::stop::Stop;

/// What the engine has to know about the request, besides the policy.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Whether it may be done twice.
    pub safety: Safety,
    /// What it is about, hashed: the key of the cool-down. 0 is about nothing, and never cools down.
    pub key: u64,
    /// Which call it is, for observers that keep something for each. A runner that is observed gives every call another
    /// number; 0 has none.
    pub call: u64,
    /// Which counter its deposit goes to. Threads that pass different numbers do not contend.
    pub stripe: usize,
    /// A limit below the policy's attempts.
    pub attempts: u32,
    /// Why retries are off, if they are. Polling is not: it repeats nothing that failed.
    pub off: Option<Stop>,
}

impl Default for Request {
    fn default() -> Self {
        Self { safety: Safety::Unsafe, key: 0, call: 0, stripe: 0, attempts: u32::MAX, off: None }
    }
}

/// What a call is made under. The policy and its guards are arguments, not parts of a call: a reload is
/// another argument.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The state that calls share.
    pub guards: &'a Guards,
    /// Who wants to know.
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
    observer.about(request, &event);
}
