//! For your tests: no waits between attempts, and a limit on their number.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local!(static HERE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });

/// From here until the value is dropped, no call on this thread waits between attempts, and none makes
/// more than `attempts` of them. A cap of 0 counts as 1; of several that are alive the smallest counts.
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
    HERE.with_borrow_mut(|caps| caps.push(cap));
    SkipWaits { cap, here: PhantomData }
}

/// Ends what [`skip_waits`] began.
#[derive(Debug)]
pub struct SkipWaits {
    cap: u32,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Drop for SkipWaits {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|caps| forget(caps, self.cap));
    }
}

/// The caps that are in force, and the smallest of them for calls to read.
static ASKED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static EVERYWHERE: AtomicU32 = AtomicU32::new(0);

/// As [`skip_waits`], for every call in this process.
#[must_use = "waits are skipped until this is dropped"]
pub fn skip_waits_everywhere(attempts: u32) -> SkipWaitsEverywhere {
    let cap = attempts.max(1);
    change(|asked| asked.push(cap));
    SkipWaitsEverywhere { cap }
}

/// Ends what [`skip_waits_everywhere`] began.
#[derive(Debug)]
pub struct SkipWaitsEverywhere {
    cap: u32,
}

impl Drop for SkipWaitsEverywhere {
    fn drop(&mut self) {
        change(|asked| forget(asked, self.cap));
    }
}

fn forget(caps: &mut Vec<u32>, cap: u32) {
    if let Some(place) = caps.iter().position(|known| *known == cap) {
        caps.remove(place);
    }
}

fn change(how: impl FnOnce(&mut Vec<u32>)) {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    how(&mut asked);
    EVERYWHERE.store(asked.iter().copied().min().unwrap_or(0), Ordering::Release);
}

/// The attempt cap, when waits are skipped.
pub(crate) fn cap() -> Option<u32> {
    let here = HERE.with_borrow(|caps| caps.iter().copied().min());
    let everywhere = Some(EVERYWHERE.load(Ordering::Acquire)).filter(|cap| *cap > 0);
    here.into_iter().chain(everywhere).min()
}
