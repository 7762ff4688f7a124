use std::fmt;

use redial_core::fleet::FleetTerms;

use super::error::LedgerError;

/// A change of a fleet's state. Reported once when it happens, not with every sync.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetEvent {
    /// The ledger answers, for the first time or again.
    Reached {
        /// Which one: the fleet's name, and the destination if it has its own.
        ledger: String,
        /// How many instances share it.
        members: u64,
    },
    /// The ledger stopped answering, or has not answered yet.
    Lost {
        /// Which one.
        ledger: String,
        /// Why.
        error: LedgerError,
    },
    /// The ledger lost its data: it was deleted, or Redis restarted without it.
    Reset {
        /// Which one.
        ledger: String,
    },
    /// Other instances have a stricter configuration, which takes effect.
    Differs {
        /// Which one.
        ledger: String,
        /// The terms in effect.
        terms: FleetTerms,
    },
    /// The local configuration is in effect again.
    Agrees {
        /// Which one.
        ledger: String,
    },
}

impl FleetEvent {
    /// The name of the ledger.
    pub fn ledger(&self) -> &str {
        let (Self::Reached { ledger, .. }
        | Self::Lost { ledger, .. }
        | Self::Reset { ledger }
        | Self::Differs { ledger, .. }
        | Self::Agrees { ledger }) = self;
        ledger
    }
}

impl fmt::Display for FleetEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { ledger, members } => {
                write!(f, "fleet {ledger}: connected to the ledger, shared by {members} instances")
            }
            Self::Lost { ledger, error } => write!(f, "fleet {ledger}: {error}"),
            Self::Reset { ledger } => write!(f, "fleet {ledger}: the ledger has lost its data"),
            Self::Differs { ledger, terms } => {
                let FleetTerms { ratio, floor, ttl } = *terms;
                let (ratio, floor) = (ratio as f64 / 1e6, floor as f64 / 1e6);
                write!(
                    f,
                    "fleet {ledger}: another instance is stricter; in effect: ratio {ratio}, floor {floor}/s, ttl {ttl}"
                )
            }
            Self::Agrees { ledger } => write!(f, "fleet {ledger}: all instances agree again"),
        }
    }
}
