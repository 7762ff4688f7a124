//! What a thread knows, read by every call: its own number, and whether it serves a request right now. One
//! word for both, so that the calls of most threads look once.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set while a request is served that brought something along.
const SERVING: usize = 1 << (usize::BITS - 1);

// 0 until the thread is numbered.
thread_local!(static HERE: Cell<usize> = const { Cell::new(0) });

// Calls that this thread has numbered.
thread_local!(static NUMBERED: Cell<u64> = const { Cell::new(0) });

/// A number for this thread, so that threads deposit in different places.
#[inline(always)]
pub(crate) fn stripe() -> usize {
    match HERE.get() & !SERVING {
        0 => number(),
        number => number,
    }
}

#[cold]
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & !SERVING;
    HERE.set(HERE.get() | number);
    number
}

/// The number of a thread that has one and serves nothing.
#[inline(always)]
pub(crate) fn idle_stripe() -> Option<usize> {
    Some(HERE.get()).filter(|here| (1..SERVING).contains(here))
}

#[inline(always)]
pub(crate) fn is_serving() -> bool {
    HERE.get() & SERVING != 0
}

#[cfg(feature = "tokio")]
pub(crate) fn set_serving(serving: bool) {
    let number = HERE.get() & !SERVING;
    HERE.set(if serving { number | SERVING } else { number });
}

/// A number that no other call of this process has: that of the thread and that of its call.
#[cold]
pub(crate) fn new_number() -> u64 {
    let numbered = NUMBERED.get().wrapping_add(1);
    NUMBERED.set(numbered);
    (stripe() as u64) << 40 | numbered & ((1 << 40) - 1)
}
