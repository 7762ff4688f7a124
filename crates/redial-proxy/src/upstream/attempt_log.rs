//! How many attempts a request took, and where they went, for the access log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The attempts of a request: an extension of the request, if there is an access log. The response does not tell their
/// number if a layer has replaced it.
#[derive(Clone, Default)]
pub(crate) struct AttemptLog(Arc<Mutex<SentAttempts>>);

#[derive(Clone, Default)]
pub(crate) struct SentAttempts {
    pub(crate) count: u32,
    /// The endpoint that responded, or that the last attempt was sent to.
    pub(crate) endpoint: Option<Arc<str>>,
}

impl AttemptLog {
    /// An attempt is sent to this endpoint.
    pub(crate) fn sent(&self, endpoint: &Arc<str>) {
        let mut attempts = self.lock();
        attempts.count = attempts.count.saturating_add(1);
        attempts.endpoint = Some(Arc::clone(endpoint));
    }

    /// This endpoint has responded.
    pub(crate) fn responded(&self, endpoint: &Arc<str>) {
        self.lock().endpoint = Some(Arc::clone(endpoint));
    }

    pub(crate) fn get(&self) -> SentAttempts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, SentAttempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
