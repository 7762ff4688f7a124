//! The deadline is a wall: time spent inside the call counts, and nothing is started that it would cut.

use crate::stop::Stop;
use crate::units::Nanos;

/// When an attempt that starts now has to be cut off.
#[inline]
pub(crate) fn expiry(now: Nanos, timeout: Nanos, deadline: Nanos) -> Nanos {
    now.saturating_add(timeout).min(deadline)
}

/// When a wait that starts now ends, if it ends before the deadline. Sleeping into the wall and then
/// failing would cost the caller the rest of its time for nothing.
pub(crate) fn wake(now: Nanos, delay: Nanos, deadline: Nanos) -> Result<Nanos, Stop> {
    let wake = now.saturating_add(delay);
    if wake < deadline { Ok(wake) } else { Err(Stop::Deadline) }
}
