//! For the tests of those who use this crate: no waiting, and as few attempts as they like.

use std::sync::atomic::{AtomicU32, Ordering};

/// The attempt cap while waits are skipped, 0 otherwise.
static CAP: AtomicU32 = AtomicU32::new(0);

/// From here until the value is dropped, no call in this process waits between attempts, and none makes
/// more than `attempts` of them. A cap of 0 counts as 1.
///
/// ```
/// # use redial::{Policy, Retry, Stop, testing};
/// let _fast = testing::skip_waits(2);
/// let retry = Retry::new(Policy::standard()).retry_if(|_: &&str| true);
/// let error = retry.run_blocking(|_| Err::<(), _>("down")).unwrap_err();
/// assert_eq!((error.attempts(), error.reason()), (2, Stop::SwitchedOff));
/// ```
#[must_use = "waits are skipped until this is dropped"]
pub fn skip_waits(attempts: u32) -> SkipWaits {
    SkipWaits { before: CAP.swap(attempts.max(1), Ordering::AcqRel) }
}

/// Ends what [`skip_waits`] began.
#[derive(Debug)]
pub struct SkipWaits {
    before: u32,
}

impl Drop for SkipWaits {
    fn drop(&mut self) {
        CAP.store(self.before, Ordering::Release);
    }
}

/// The attempt cap, when waits are skipped.
pub(crate) fn cap() -> Option<u32> {
    Some(CAP.load(Ordering::Acquire)).filter(|cap| *cap > 0)
}
