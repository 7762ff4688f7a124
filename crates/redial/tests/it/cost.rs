//! What a successful call does not do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use redial::admit::BreakerRule;
use redial::{Policy, Retry};

use crate::support::Fault;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

struct Counting;

#[allow(unsafe_code, reason = "an allocator is unsafe; this one hands everything on")]
// SAFETY: every method is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Those of this thread so far.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[tokio::test]
async fn a_successful_call_allocates_nothing() {
    let guarded = Policy::draft().breaker(BreakerRule::default()).concurrency(9).build().unwrap();
    for policy in [Policy::standard(), guarded] {
        let retry = Retry::new(policy);
        retry.run(|_| async { Ok::<_, Fault>(1) }).await.unwrap();
        let before = ALLOCATIONS.get();
        for _ in 0..100 {
            retry.run(|_| async { Ok::<_, Fault>(1) }).await.unwrap();
            retry.run_blocking(|_| Ok::<_, Fault>(1)).unwrap();
        }
        assert_eq!(ALLOCATIONS.get() - before, 0);
    }
}
