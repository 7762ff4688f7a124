//! Counts allocations.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cases::{Case, FEW, MANY};

/// Allocations and reallocations per call, without valgrind.
pub(crate) fn per_call(case: &Case) -> f64 {
    let count = |n| {
        let before = COUNT.load(Ordering::Relaxed);
        (case.run)(n);
        COUNT.load(Ordering::Relaxed) - before
    };
    // One-time allocations of the process must not count for the first case.
    count(1);
    let (few, many) = (count(FEW), count(MANY));
    many.saturating_sub(few) as f64 / (MANY - FEW) as f64
}

static COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(place, layout, size) }
    }
}
