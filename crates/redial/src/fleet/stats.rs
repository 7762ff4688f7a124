use redial_core::fleet::{Answer, MICRO, Terms};

use super::event::Trouble;

/// Of how many parts a share is counted in.
const WHOLE: f64 = 1e9;

/// What is known of one ledger of a fleet, as last heard.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FleetStats {
    /// The fleet's name, and the destination if it has its own.
    pub ledger: String,
    /// Whether the ledger answered the last time it was asked.
    pub connected: bool,
    /// How many instances share it.
    pub members: u64,
    /// Which part of the floor this instance accrues, from 0 to 1.
    pub share: f64,
    /// Tokens in the ledger.
    pub balance: f64,
    /// Tokens that this instance has leased, since it began.
    pub leased: u64,
    /// How often the ledger was asked, by what came of it.
    pub syncs: Syncs,
    /// What counts, if others configure the fleet more strictly.
    pub differs: Option<Terms>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Asks by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Syncs {
    /// Answered.
    pub ok: u64,
    /// See [`Trouble::Timeout`].
    pub timeout: u64,
    /// See [`Trouble::Unreachable`].
    pub unreachable: u64,
    /// See [`Trouble::Refused`].
    pub refused: u64,
    /// See [`Trouble::Garbage`].
    pub garbage: u64,
}

impl FleetStats {
    pub(super) fn answered(&mut self, answer: &Answer, differs: Option<Terms>) {
        self.connected = true;
        self.members = answer.members;
        self.share = answer.seat.share as f64 / WHOLE;
        self.balance = answer.balance as f64 / MICRO as f64;
        self.leased += answer.granted;
        self.syncs.ok += 1;
        self.differs = differs;
    }

    pub(super) fn failed(&mut self, trouble: &Trouble) {
        self.connected = false;
        self.last_error = Some(trouble.to_string());
        let count = match trouble {
            Trouble::Timeout => &mut self.syncs.timeout,
            Trouble::Unreachable { .. } => &mut self.syncs.unreachable,
            Trouble::Refused { .. } => &mut self.syncs.refused,
            Trouble::Garbage { .. } => &mut self.syncs.garbage,
        };
        *count += 1;
    }
}
