//! The atomics of the lock-free parts. Under `cfg(loom)` they are loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Loom explores every interleaving of every atomic access, so its models use small rings.
pub(crate) const fn small_under_loom(size: usize, model: usize) -> usize {
    if cfg!(loom) { model } else { size }
}

/// A compare-and-swap loop. Returns the previous value, as `Err` if `change` returned `None`.
#[inline]
pub(crate) fn update(cell: &AtomicU64, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
    cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
}

#[cfg(all(feature = "std", loom))]
pub(crate) use loom::sync::Mutex;
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::sync::Mutex;

/// Locks, also after a panic of another thread: what is locked here is valid between any two steps.
#[cfg(feature = "std")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<impl core::ops::DerefMut<Target = T>> {
    Some(mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Without the standard library there is no lock, so what needs one is off.
#[cfg(not(feature = "std"))]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(core::marker::PhantomData<fn() -> T>);

#[cfg(not(feature = "std"))]
pub(crate) fn lock<T>(_: &Mutex<T>) -> Option<alloc::boxed::Box<T>> {
    None
}
