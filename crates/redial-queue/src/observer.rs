//! Observers of the engine see calls, each in one process. A job is one call, however many processes work on it, so the end
//! of a call in this process may not be the end of the job. The key of an event is a hash of the item.

use std::sync::Arc;

use redial_core::{CallInfo, Event, Observer, Stop};

/// An observer, and the key of the item whose events it receives.
#[derive(Clone)]
pub(crate) struct KeyedObserver {
    pub(crate) observer: Arc<dyn Observer>,
    /// For the observer alone: the engine has its own key, for the cool-down.
    pub(crate) key: u64,
    /// After which stops the item is tried again. The observer does not see those.
    pub(crate) continues: fn(Stop) -> bool,
}

impl KeyedObserver {
    /// As a context takes it.
    pub(crate) fn of(keyed: Option<&Self>) -> Option<&dyn Observer> {
        keyed.map(|keyed| keyed as &dyn Observer)
    }
}

impl Observer for KeyedObserver {
    fn event(&self, event: &Event) {
        self.call_event(CallInfo::default(), event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        if !matches!(event, Event::Stopped { reason, .. } if (self.continues)(*reason)) {
            let call = CallInfo { cooldown_key: Some(self.key), ..call };
            self.observer.call_event(call, event);
        }
    }
}
