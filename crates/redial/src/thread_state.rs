//! Every call needs to know two things about its thread: a number, so that threads count in different
//! places, and whether the thread serves a request whose deadline applies. Both are in one word, so that one
//! thread-local access tells either.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set while the thread polls a request that carried a deadline or an attempt number.
const SERVING: usize = 1 << (usize::BITS - 1);

// 0 until the thread is numbered.
thread_local!(static STATE: Cell<usize> = const { Cell::new(0) });

thread_local!(static CALLS_NUMBERED: Cell<u64> = const { Cell::new(0) });

/// The number of this thread, for counters that are striped by thread.
#[inline(always)]
pub(crate) fn stripe() -> usize {
    match STATE.get() & !SERVING {
        0 => number_thread(),
        number => number,
    }
}

#[cold]
fn number_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & !SERVING;
    STATE.set(STATE.get() | number);
    number
}

#[inline(always)]
pub(crate) fn is_serving() -> bool {
    STATE.get() & SERVING != 0
}

#[cfg(feature = "tokio")]
pub(crate) fn set_serving(serving: bool) {
    let number = STATE.get() & !SERVING;
    STATE.set(if serving { number | SERVING } else { number });
}

/// The number of a call: the thread's number and a count of its calls. Unique for the first 2^24 threads and 2^40
/// calls of each.
#[cold]
pub(crate) fn new_call_number() -> Option<NonZeroU64> {
    let numbered = CALLS_NUMBERED.get().wrapping_add(1);
    CALLS_NUMBERED.set(numbered);
    NonZeroU64::new((stripe() as u64) << 40 | numbered & ((1 << 40) - 1))
}

// Set while an attempt is dropped because its time is up.
#[cfg(feature = "tokio")]
thread_local!(static CUTTING_OFF: Cell<bool> = const { Cell::new(false) });

/// Drops an attempt. If it has `expired`, the guards of its endpoint count a timeout, and not a caller that left.
#[cfg(feature = "tokio")]
pub(crate) fn drop_attempt<T>(expired: bool, drop_it: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            CUTTING_OFF.set(self.0);
        }
    }
    let _restore = expired.then(|| Restore(CUTTING_OFF.replace(true)));
    drop_it()
}

#[cfg(feature = "http-client")]
pub(crate) fn is_cutting_off() -> bool {
    CUTTING_OFF.get()
}
