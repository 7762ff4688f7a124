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
    let mut last = Duration::ZERO;
    let jobs = in_pages(store, filter, async |page| {
        let redriven = store.redrive(&page, Redrive { after: next, apart }).await?;
        let steps = u32::try_from(redriven).unwrap_or(u32::MAX);
        if steps > 0 {
            last = next.saturating_add(apart.saturating_mul(steps - 1));
            next = next.saturating_add(apart.saturating_mul(steps));
        }
        Ok(redriven)
    })
    .await?;
    Ok(Redriven { jobs, last })
}

/// Removes jobs that are not running, page by page. Returns how many. [`Filter::most`] bounds their number.
///
/// # Errors
///
/// Those of the store. Pages before the error are removed.
pub async fn remove_in_pages(store: &dyn Store, filter: Filter) -> Result<u64, StoreError> {
    in_pages(store, filter, async |page| store.remove(&page).await).await
}

/// Applies a step to jobs, page by page. Pages are in the order of numbers, so that a job that dies again meanwhile is not
/// visited twice.
async fn in_pages(
    store: &dyn Store,
    mut filter: Filter,
    mut step: impl AsyncFnMut(Filter) -> Result<u64, StoreError>,
) -> Result<u64, StoreError> {
    let (mut count, most) = (0, u64::try_from(filter.most).unwrap_or(u64::MAX));
    while count < most {
        let wanted = usize::try_from(most - count).unwrap_or(PAGE).min(PAGE);
        let mut ids = Vec::new();
        while ids.len() < wanted {
            filter.most = (wanted - ids.len()).min(READ);
            let found = store.list(&filter).await?;
            let Some(last) = found.last() else { break };
            filter.after = Some(last.id);
            ids.extend(found.iter().map(|job| job.id));
        }
        if ids.is_empty() {
            break;
        }
        let page = Filter { ids, after: None, most: usize::MAX, ..filter.clone() };
        count += step(page).await?;
    }
    Ok(count)
}
