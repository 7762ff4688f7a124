//! Random streams that no two calls share, in one process or in ten thousand that start together.

#![allow(clippy::disallowed_methods, reason = "the runners' only source of entropy")]

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use redial_core::draw;

/// A seed that this process has not handed out before.
///
/// The process draws once from the operating system and counts from there. A fork copies both, so the
/// child, which notices by its process id, draws again. Atomics, not a lock: a lock that another thread
/// holds while we fork stays locked in the child.
pub(crate) fn seed() -> u64 {
    static OWNER: AtomicU32 = AtomicU32::new(0);
    static PROCESS: AtomicU64 = AtomicU64::new(0);
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let process = process::id();
    if OWNER.load(Ordering::Acquire) != process {
        let [seed] = from_system();
        PROCESS.store(seed, Ordering::Release);
        OWNER.store(process, Ordering::Release);
    }
    draw(PROCESS.load(Ordering::Acquire), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Unpredictable bits; from the keys of a hash map if the operating system has none to give.
pub(crate) fn from_system<const N: usize>() -> [u64; N] {
    let mut bytes = [[0; 8]; N];
    match getrandom::fill(bytes.as_flattened_mut()) {
        Ok(()) => bytes.map(u64::from_ne_bytes),
        Err(_) => bytes.map(|_| RandomState::new().hash_one(process::id())),
    }
}
