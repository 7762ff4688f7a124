//! For tests of code that uses this crate: no waits, and a cap on attempts.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local!(static CAPS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });

/// Until the returned value is dropped, calls on this thread do not wait between attempts and make at most
/// `attempts` of them. A cap of 0 counts as 1; of several caps the smallest applies.
///
/// Tests that run side by side do not disturb each other: each has its thread, and so has each
/// `#[tokio::test]` with its default runtime. For calls on other threads there is
/// [`skip_waits_everywhere`].
///
/// ```
/// # use redial::{Policy, Retry, Stop, testing};
/// let _fast = testing::skip_waits(2);
/// let retry = Retry::new(Policy::standard()).retry_if(|_: &&str| true);
/// let error = retry.run_blocking(|_| Err::<(), _>("down")).unwrap_err();
/// assert_eq!((error.attempts(), error.reason()), (2, Stop::Attempts));
/// ```
#[must_use = "waits are skipped until this is dropped"]
pub fn skip_waits(attempts: u32) -> SkipWaits {
    let cap = attempts.max(1);
    CAPS.with_borrow_mut(|caps| caps.push(cap));
    SkipWaits { cap, thread: PhantomData }
}

/// Ends what [`skip_waits`] began.
#[derive(Debug)]
pub struct SkipWaits {
    cap: u32,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for SkipWaits {
    fn drop(&mut self) {
        CAPS.with_borrow_mut(|caps| forget(caps, self.cap));
    }
}

/// All caps in force, and the smallest of them for calls to read.
static ALL_CAPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static EVERYWHERE: AtomicU32 = AtomicU32::new(0);

/// As [`skip_waits`], for every call in this process.
#[must_use = "waits are skipped until this is dropped"]
pub fn skip_waits_everywhere(attempts: u32) -> SkipWaitsEverywhere {
    let cap = attempts.max(1);
    change(|caps| caps.push(cap));
    SkipWaitsEverywhere { cap }
}

/// Ends what [`skip_waits_everywhere`] began.
#[derive(Debug)]
pub struct SkipWaitsEverywhere {
    cap: u32,
}

impl Drop for SkipWaitsEverywhere {
    fn drop(&mut self) {
        change(|caps| forget(caps, self.cap));
    }
}

fn forget(caps: &mut Vec<u32>, cap: u32) {
    if let Some(place) = caps.iter().position(|known| *known == cap) {
        caps.remove(place);
    }
}

fn change(how: impl FnOnce(&mut Vec<u32>)) {
    let mut caps = ALL_CAPS.lock().unwrap_or_else(PoisonError::into_inner);
    how(&mut caps);
    EVERYWHERE.store(caps.iter().copied().min().unwrap_or(0), Ordering::Release);
}

/// The attempt cap, when waits are skipped.
pub(crate) fn cap() -> Option<u32> {
    let thread = CAPS.with_borrow(|caps| caps.iter().copied().min());
    let everywhere = Some(EVERYWHERE.load(Ordering::Acquire)).filter(|cap| *cap > 0);
    thread.into_iter().chain(everywhere).min()
}
