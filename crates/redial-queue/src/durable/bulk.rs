//! An operator redrives or removes a million dead letters. In one step of the store, the workers would wait for all of it; here
//! they wait for a page.

use std::time::Duration;

use super::{Filter, Redrive, Store, StoreError};

/// The most jobs of one step of the store: other requests wait for it.
const PAGE: usize = 1000;
/// The most jobs that are read at once: each may be large.
const READ: usize = 64;

/// What a redrive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// How many jobs are back in their queues.
    pub jobs: u64,
    /// After how long the last one starts.
    pub last: Duration,
}

/// Redrives dead letters page by page, at one pace over all pages. [`Filter::most`] bounds their number.
///
/// # Errors
///
/// Those of the store. Pages before the error are redriven.
pub async fn redrive_in_pages(
    store: &dyn Store,
    filter: Filter,
    redrive: Redrive,
) -> Result<Redriven, StoreError> {
    let (mut next, apart) = (redrive.after, redrive.apart);
    let mut done = Redriven::default();
    let mut pages = Pages::new(store, filter);
    while let Some(page) = pages.next(done.jobs).await? {
        let redriven = store.redrive(&page, Redrive { after: next, apart }).await?;
        let steps = u32::try_from(redriven).unwrap_or(u32::MAX);
        if steps > 0 {
            done.last = next.saturating_add(apart.saturating_mul(steps - 1));
            next = next.saturating_add(apart.saturating_mul(steps));
        }
        done.jobs += redriven;
    }
    Ok(done)
}

/// Removes jobs that are not running, page by page. Returns how many. [`Filter::most`] bounds their number.
///
/// # Errors
///
/// Those of the store. Pages before the error are removed.
pub async fn remove_in_pages(store: &dyn Store, filter: Filter) -> Result<u64, StoreError> {
    let mut removed = 0;
    let mut pages = Pages::new(store, filter);
    while let Some(page) = pages.next(removed).await? {
        removed += store.remove(&page).await?;
    }
    Ok(removed)
}

/// Jobs in pages, in the order of their numbers, so that a job that dies again meanwhile is not visited twice.
struct Pages<'a> {
    store: &'a dyn Store,
    filter: Filter,
    most: u64,
}

impl<'a> Pages<'a> {
    fn new(store: &'a dyn Store, filter: Filter) -> Self {
        Self { store, most: u64::try_from(filter.most).unwrap_or(u64::MAX), filter }
    }

    /// The next page, when `done` jobs count towards the limit; `None` if that is reached, or there are no more.
    async fn next(&mut self, done: u64) -> Result<Option<Filter>, StoreError> {
        let wanted = usize::try_from(self.most.saturating_sub(done)).unwrap_or(PAGE).min(PAGE);
        let mut ids = Vec::new();
        while ids.len() < wanted {
            self.filter.most = (wanted - ids.len()).min(READ);
            let found = self.store.list(&self.filter).await?;
            let Some(last) = found.last() else { break };
            self.filter.after = Some(last.id);
            ids.extend(found.iter().map(|job| job.id));
        }
        let page = Filter { ids, after: None, most: usize::MAX, ..self.filter.clone() };
        Ok((!page.ids.is_empty()).then_some(page))
    }
}
