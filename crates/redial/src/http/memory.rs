//! A limit on each body does not bound how much memory many of them take together. This counts all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that several bodies take.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<AtomicUsize>);

/// The bytes of one of them. Dropping it gives them back.
#[derive(Debug)]
pub(super) struct Reserved {
    memory: Memory,
    bytes: usize,
}

impl Memory {
    /// A body of no bytes yet.
    pub(super) fn reserve(&self) -> Reserved {
        Reserved { memory: self.clone(), bytes: 0 }
    }

    #[cfg(feature = "http-client")]
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Reserved {
    /// Grows to a body of this many bytes, if all of them together then take at most `limit`.
    pub(super) fn grow_to(&mut self, bytes: usize, limit: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let grown = |all: usize| all.checked_add(more).filter(|all| *all <= limit);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let fits = more == 0 || self.memory.0.fetch_update(set, get, grown).is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
