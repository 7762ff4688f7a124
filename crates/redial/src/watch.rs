//! Who is told what happens to the calls of a [`Retry`](crate::Retry).

use std::sync::Arc;

use redial_core::Observer;

#[cfg(feature = "metrics")]
use crate::telemetry::Core;

#[derive(Clone)]
pub(crate) enum Watch {
    Nobody,
    Own(Arc<dyn Observer>),
    /// Calls go the short way, and count themselves there.
    #[cfg(feature = "metrics")]
    Meter(Arc<Core>),
    #[cfg(feature = "metrics")]
    Both((Arc<Core>, Arc<dyn Observer>)),
}

impl Watch {
    #[inline(always)]
    pub(crate) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody)
    }

    #[inline(always)]
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        match self {
            Self::Nobody => None,
            Self::Own(own) => Some(&**own),
            #[cfg(feature = "metrics")]
            Self::Meter(meter) => Some(&**meter),
            #[cfg(feature = "metrics")]
            Self::Both(both) => Some(both),
        }
    }

    /// With an observer of the user's, instead of one before.
    pub(crate) fn own(self, own: Arc<dyn Observer>) -> Self {
        match self {
            Self::Nobody | Self::Own(_) => Self::Own(own),
            #[cfg(feature = "metrics")]
            Self::Meter(meter) | Self::Both((meter, _)) => Self::Both((meter, own)),
        }
    }

    /// With an observer, be it one that does nothing: the short way, which only the unobserved go, knows no spans.
    #[cfg(feature = "otel")]
    pub(crate) fn somebody(self) -> Self {
        match self {
            Self::Own(_) => self,
            #[cfg(feature = "metrics")]
            Self::Both(_) => self,
            _ => self.own(Arc::new(|_: &redial_core::Event| {})),
        }
    }

    /// With a meter, instead of one before.
    #[cfg(feature = "metrics")]
    pub(crate) fn meter(self, meter: Arc<Core>) -> Self {
        match self {
            Self::Nobody | Self::Meter(_) => Self::Meter(meter),
            Self::Own(own) | Self::Both((_, own)) => Self::Both((meter, own)),
        }
    }
}
