//! The deadline is absolute: time spent in attempts counts, and no wait is started that would end past it.

use crate::stop::Stop;
use crate::units::Nanos;

/// When an attempt that starts now times out.
#[inline]
pub(crate) fn expiry(now: Nanos, timeout: Nanos, deadline: Nanos) -> Nanos {
    now.saturating_add(timeout).min(deadline)
}

/// When a wait that starts now ends, if it ends before the deadline. Waiting until the deadline and then
/// failing would only delay the error.
pub(crate) fn wake(now: Nanos, delay: Nanos, deadline: Nanos) -> Result<Nanos, Stop> {
    let wake = now.saturating_add(delay);
    if wake < deadline { Ok(wake) } else { Err(Stop::Deadline) }
}
