use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The progress of a simulation, and a way to stop it.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    /// In billionths of a run.
    done: AtomicU64,
    /// The attempts that were simulated one by one, which is what takes time.
    attempts: Mutex<PolicyAttempts>,
}

/// How many attempts policies have made, in all their runs so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyAttempts {
    by_policy: Vec<(String, u64)>,
    /// The policy of the run that reported last.
    current: usize,
}

impl PolicyAttempts {
    /// Adds attempts of a policy, which is the current one from now on.
    pub fn add(&mut self, policy: &str, more: u64) {
        let known = self.by_policy.iter().position(|(name, _)| name == policy);
        self.current = known.unwrap_or_else(|| {
            self.by_policy.push((policy.to_owned(), 0));
            self.by_policy.len() - 1
        });
        self.by_policy[self.current].1 += more;
    }

    /// The policy of a run that is under way, and its attempts.
    pub fn current(&self) -> Option<(&str, u64)> {
        self.by_policy.get(self.current).map(|(name, attempts)| (name.as_str(), *attempts))
    }

    /// The policy with the most attempts, and its attempts.
    pub fn most(&self) -> Option<(&str, u64)> {
        let most = self.by_policy.iter().max_by_key(|(_, attempts)| *attempts);
        most.map(|(name, attempts)| (name.as_str(), *attempts))
    }

    /// The attempts of all policies.
    pub fn total(&self) -> u64 {
        self.by_policy.iter().map(|(_, attempts)| attempts).sum()
    }
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

    /// A run of a policy has made more attempts.
    pub fn attempted(&self, policy: &str, more: u64) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).add(policy, more);
    }

    /// The attempts so far.
    pub fn attempts(&self) -> PolicyAttempts {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A run has progressed by this share.
    pub fn advance(&self, share: f64) {
        self.done.fetch_add((share * 1e9) as u64, Ordering::Relaxed);
    }
}
