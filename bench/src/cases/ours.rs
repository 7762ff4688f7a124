//! Redial.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use redial::telemetry::Meter;
use redial::{Policy, Retry};
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::admit::{BreakerRule, Guards};
use redial_core::decide::{Class, Outcome, Safety};
use redial_core::schedule::Backoff;
use redial_core::{Call, Context, Deadline, Draft, Request, Span, Time, Verdict};

use super::{op, pending_once, ready as operation, repeat, repeat_async};

/// The time for cases without a clock: a day after zero, where the runners' time starts.
pub(crate) const NOW: Time = Time::at(Span::from_secs(24 * 3600));

pub(crate) fn ready(n: u64) {
    let retry = Retry::new(Policy::standard());
    repeat_async(n, async |x| retry.run(|_| operation(x)).await);
}

/// The same, counted by a meter.
pub(crate) fn metered(n: u64) {
    let retry = Retry::new(Policy::standard()).meter(Meter::new("bench"));
    repeat_async(n, async |x| retry.run(|_| operation(x)).await);
}

pub(crate) fn breaker(n: u64) {
    let retry = Retry::new(with_breaker());
    repeat_async(n, async |x| retry.run(|_| operation(x)).await);
}

/// An attempt that holds a place, and so does not take the fast path.
pub(crate) fn limited(n: u64) {
    let retry = Retry::new(built(Policy::standard().edit().concurrency(100)));
    repeat_async(n, async |x| retry.run(|_| operation(x)).await);
}

pub(crate) fn pending(n: u64) {
    let retry = Retry::new(Policy::standard());
    repeat_async(n, async |x| retry.run(|_| pending_once(x)).await);
}

pub(crate) fn blocking(n: u64) {
    #[inline(never)]
    fn call(retry: &Retry, x: u64) -> Result<u64, redial::Error<io::Error>> {
        retry.run_blocking(|_| op(x))
    }
    let retry = Retry::new(Policy::standard());
    repeat(n, |x| call(&retry, x));
}

pub(crate) fn metered_blocking(n: u64) {
    #[inline(never)]
    fn call(retry: &Retry, x: u64) -> Result<u64, redial::Error<io::Error>> {
        retry.run_blocking(|_| op(x))
    }
    let retry = Retry::new(Policy::standard()).meter(Meter::new("bench"));
    repeat(n, |x| call(&retry, x));
}

pub(crate) fn engine(n: u64) {
    by_hand(n, &Policy::standard());
}

pub(crate) fn engine_breaker(n: u64) {
    by_hand(n, &with_breaker());
}

/// The engine without a runner and without a clock.
fn by_hand(n: u64, policy: &Policy) {
    #[inline(never)]
    fn call(policy: &Policy, guards: &Guards, now: Time) -> Verdict {
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        let cx = Context { policy, guards, observer: None, request };
        let mut call = Call::new(policy, now, Deadline::NONE);
        match call.admit(&cx, now) {
            Ok(permit) => call.settle(&cx, permit, &Outcome::Success, now, || 0),
            Err(stop) => Verdict::Stop(stop),
        }
    }
    let guards = Guards::new(policy, 1, 0);
    repeat(n, |_| call(policy, &guards, black_box(NOW)));
}

/// One jittered delay: full jitter, 100 ms to 2 s, retries 1 to 4.
pub(crate) fn delay(n: u64) {
    #[inline(never)]
    fn draw(backoff: &Backoff, k: u32, seed: u64) -> Span {
        backoff.delay(k, Span::ZERO, seed)
    }
    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(2));
    repeat(n, |x| draw(&backoff, 1 + (x & 3) as u32, x));
}

pub(crate) fn deposit(n: u64) {
    let guards = new_guards(1);
    repeat(n, |_| guards.deposit(0, 1, black_box(NOW)));
}

pub(crate) fn withdraw(n: u64) {
    let guards = new_guards(1);
    repeat(n, |_| {
        guards.deposit(0, 1, black_box(NOW));
        let granted = guards.withdraw_up_to(1, Class::Transient, black_box(NOW));
        assert_eq!(granted, 1, "every deposit pays for a retry");
    });
}

/// A window budget in which every call earns a retry.
pub(crate) fn new_guards(stripes: usize) -> Guards {
    let every = Budget::Window(WindowBudget::ratio(1.0));
    Guards::new(&built(Policy::draft().budget(every)), stripes, 0)
}

fn with_breaker() -> Policy {
    built(Policy::standard().edit().breaker(BreakerRule::default()))
}

fn built(draft: Draft) -> Policy {
    draft.build().expect("its numbers are constants")
}
