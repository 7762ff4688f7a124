//! A value that is replaced while it is in use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Readers keep a copy with its generation, and one load tells whether it is still the current one.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    /// Increases with every replacement, after the value has changed.
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { generation: AtomicU64::new(1), current: Mutex::new(Arc::new(value)) }
    }

    pub(crate) fn replace(&self, value: T) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn load(&self) -> Arc<T> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
