//! Is this outcome transient, and is it safe to repeat?
//!
//! A retry that ignores the first question repeats a request that can never succeed; one that ignores
//! the second charges a customer twice. Both are answered here, before anything is scheduled or spent:
//! [`Outcome`] says what happened, [`Safety`] says what the request allows, and [`RetryOn`] is the
//! policy's list of failures that are worth repeating.

pub mod cause;
mod classify;
mod codes;
#[cfg(feature = "std")]
mod io;
mod outcome;
mod safety;

pub use cause::DynError;
pub use classify::{Causes, Classifier, Classify, Judge, PollUntil, RetryIf, Typed};
pub use codes::GRPC_STATUSES;
pub use outcome::{Class, Failure, Health, Outcome, Reach, RetryOn};
pub use safety::Safety;

use crate::stop::Stop;

/// Whether a failed attempt may be repeated at all, or another one awaited that is `in_flight`: that one may succeed after
/// any failure but one that it shares, because the request itself is wrong.
///
/// The order of the checks decides which reason is reported: a stop signal from below outranks
/// everything, and `Unsafe` is only reported for a failure that would otherwise have been repeated. A cancellation is
/// repeated only for its code: then it is the answer of a server, gRPC's CANCELLED, and the caller still waits.
pub(crate) fn repeat(
    (retry_on, key_required): (&RetryOn, bool),
    safety: Safety,
    failure: &Failure,
    in_flight: bool,
) -> Result<(), Stop> {
    if failure.stop {
        Err(Stop::ToldToStop)
    } else if failure.class == Class::Cancelled && !retry_on.contains(failure) {
        Err(Stop::Cancelled)
    } else if in_flight && failure.class != Class::Permanent {
        Ok(())
    } else if !retry_on.contains(failure) {
        Err(Stop::Permanent)
    } else if failure.reach == Reach::Unknown && !safety.allows(key_required) {
        Err(Stop::Unsafe)
    } else {
        Ok(())
    }
}
