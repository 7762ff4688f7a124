//! A `Retry` may have a meter, an observer of the user, both or neither. A meter alone keeps the fast path open, so the
//! two are told apart.

use std::sync::Arc;

use redial_core::Observer;

#[cfg(feature = "metrics")]
use crate::telemetry::Core;

/// What observes the calls of a [`Retry`](crate::Retry).
#[derive(Clone)]
pub(crate) enum Observers {
    None,
    User(Arc<dyn Observer>),
    #[cfg(feature = "metrics")]
    Meter(Arc<Core>),
    #[cfg(feature = "metrics")]
    Both((Arc<Core>, Arc<dyn Observer>)),
}

impl Observers {
    #[inline(always)]
    pub(crate) fn as_dyn(&self) -> Option<&dyn Observer> {
        match self {
            Self::None => None,
            Self::User(user) => Some(&**user),
            #[cfg(feature = "metrics")]
            Self::Meter(meter) => Some(&**meter),
            #[cfg(feature = "metrics")]
            Self::Both(both) => Some(both),
        }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn meter(&self) -> Option<&Arc<Core>> {
        match self {
            Self::Meter(meter) | Self::Both((meter, _)) => Some(meter),
            Self::None | Self::User(_) => None,
        }
    }

    /// Replaces the user's observer and keeps the meter.
    pub(crate) fn with_user(self, user: Arc<dyn Observer>) -> Self {
        match self {
            Self::None | Self::User(_) => Self::User(user),
            #[cfg(feature = "metrics")]
            Self::Meter(meter) | Self::Both((meter, _)) => Self::Both((meter, user)),
        }
    }

    /// Replaces the meter and keeps the user's observer.
    #[cfg(feature = "metrics")]
    pub(crate) fn with_meter(self, meter: Arc<Core>) -> Self {
        match self {
            Self::None | Self::Meter(_) => Self::Meter(meter),
            Self::User(user) | Self::Both((_, user)) => Self::Both((meter, user)),
        }
    }
}
