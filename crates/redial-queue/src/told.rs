//! Observers know calls of one process. A key is hashed for them here, and a job that has none is its own; and what ends a
//! call in this process may not be the end of a job.

use std::sync::Arc;

use redial_core::{CallInfo, Event, Observer, Stop};

/// Who is told of a call, and what it is about.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) observer: Arc<dyn Observer>,
    /// For the observer alone: the engine's own key says what cools down.
    pub(crate) key: u64,
    /// After which stops the work goes on, so that nothing has ended.
    pub(crate) goes_on: fn(Stop) -> bool,
}

impl Observer for Told {
    fn event(&self, event: &Event) {
        self.call_event(CallInfo::default(), event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        if !matches!(event, Event::Stopped { reason, .. } if (self.goes_on)(*reason)) {
            let call = CallInfo { cooldown_key: Some(self.key), ..call };
            self.observer.call_event(call, event);
        }
    }
}

/// For a context.
pub(crate) fn seen(told: Option<&Told>) -> Option<&dyn Observer> {
    told.map(|told| told as &dyn Observer)
}
