use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A value that is replaced while others use it. Readers keep a [`Cached`] copy, which costs one load to check.
#[derive(Debug)]
pub(crate) struct Swap<T> {
    /// Increases with every replacement, after the value has changed.
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> Swap<T> {
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
