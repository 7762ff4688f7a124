use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a simulation, and a way to stop it.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    /// In billionths of a run.
    done: AtomicU64,
}

impl Watch {
    /// Stops it. The runs made by then are the result.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How many runs were made, including fractions of those under way.
    pub fn runs_done(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// A run has progressed by this share.
    pub fn advance(&self, share: f64) {
        self.done.fetch_add((share * 1e9) as u64, Ordering::Relaxed);
    }
}
