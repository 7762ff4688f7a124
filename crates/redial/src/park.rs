use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A limit on the parked calls of several [`Retry`](crate::Retry) values together.
///
/// A policy with [`park`](crate::Draft::park) holds calls while a destination recovers, and limits them for each destination. A
/// proxy of many destinations also needs a limit on all of them: give the same value to each `Retry` with
/// [`park_limit`](crate::Retry::park_limit). A call that finds no room fails as if its policy did not park.
///
/// ```
/// use redial::{ParkLimit, Policy, Retry};
///
/// let limit = ParkLimit::new(1000);
/// let orders = Retry::new(Policy::standard()).park_limit(&limit);
/// let search = Retry::new(Policy::standard()).park_limit(&limit);
/// assert_eq!(limit.parked(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct ParkLimit {
    parked: Arc<AtomicU32>,
    most: u32,
}

impl ParkLimit {
    /// Room for this many calls, which clones share.
    pub fn new(calls: u32) -> Self {
        Self { parked: Arc::default(), most: calls }
    }

    /// How many calls are parked now.
    pub fn parked(&self) -> u32 {
        self.parked.load(Relaxed)
    }

    /// A place for one call; `None` if there is no room. Without a limit there always is.
    pub(crate) fn enter(limit: Option<&Self>) -> Option<Place> {
        let Some(limit) = limit else { return Some(Place(None)) };
        let more = |parked: u32| (parked < limit.most).then(|| parked + 1);
        limit.parked.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Place(Some(Arc::clone(&limit.parked))))
    }
}

/// A place that a call takes. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Place(Option<Arc<AtomicU32>>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(parked) = &self.0 {
            parked.fetch_sub(1, Relaxed);
        }
    }
}
