use crate::scenario::Clients;

/// Counts the calls of the instances with the policy under test, where others have other policies.
#[derive(Debug)]
pub(super) struct OwnCalls {
    /// They are the first instances.
    instances: u32,
    calls: u64,
    succeeded: u64,
}

impl OwnCalls {
    pub(super) fn new(clients: &Clients) -> Option<Self> {
        let own = Self { instances: clients.own(), calls: 0, succeeded: 0 };
        (!clients.others.is_empty()).then_some(own)
    }

    pub(super) fn add(&mut self, instance: u32, succeeded: bool) {
        if instance < self.instances {
            self.calls += 1;
            self.succeeded += u64::from(succeeded);
        }
    }

    pub(super) fn success(&self) -> f64 {
        self.succeeded as f64 / self.calls.max(1) as f64
    }
}
