use redial_core::fleet::{FleetTerms, Grant, MICRO};

use super::error::LedgerError;

/// Shares are counted in billionths.
const WHOLE: f64 = 1e9;

/// The state of one ledger of a fleet, as of the last sync.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FleetStats {
    /// The fleet's name, and the destination if it has its own.
    pub ledger: String,
    /// Whether the last sync succeeded.
    pub connected: bool,
    /// How many instances share it.
    pub members: u64,
    /// The share of the floor that this instance accrues, from 0 to 1.
    pub share: f64,
    /// Tokens in the ledger.
    pub balance: f64,
    /// Tokens that this instance has leased since it started.
    pub leased: u64,
    /// Syncs by result.
    pub syncs: Syncs,
    /// The terms in effect, if other instances have a stricter configuration.
    pub differs: Option<FleetTerms>,
    /// The last error.
    pub last_error: Option<String>,
}

/// Syncs by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Syncs {
    /// Successful syncs.
    pub ok: u64,
    /// See [`LedgerError::Timeout`].
    pub timeout: u64,
    /// See [`LedgerError::Unreachable`].
    pub unreachable: u64,
    /// See [`LedgerError::Refused`].
    pub refused: u64,
    /// See [`LedgerError::Garbage`].
    pub garbage: u64,
}

impl FleetStats {
    pub(super) fn answered(&mut self, grant: &Grant, differs: Option<FleetTerms>) {
        self.connected = true;
        self.members = grant.members;
        self.share = grant.seat.share as f64 / WHOLE;
        self.balance = grant.balance as f64 / MICRO as f64;
        self.leased += grant.granted;
        self.syncs.ok += 1;
        self.differs = differs;
    }

    pub(super) fn failed(&mut self, error: &LedgerError) {
        self.connected = false;
        self.last_error = Some(error.to_string());
        let count = match error {
            LedgerError::Timeout => &mut self.syncs.timeout,
            LedgerError::Unreachable { .. } => &mut self.syncs.unreachable,
            LedgerError::Refused { .. } => &mut self.syncs.refused,
            LedgerError::Garbage { .. } => &mut self.syncs.garbage,
        };
        *count += 1;
    }
}
