//! One budget for a whole fleet.
//!
//! A floor multiplies by the number of clients: two hundred instances with ten retries a second each send two
//! thousand. So the instances that name the same fleet have one ledger, in a place that all of them reach, and this is
//! what one of them does: no network, no clock. Whoever runs it carries an [`Ask`] to the ledger and brings back the
//! [`Answer`].
//!
//! - Everything is earned by somebody. Each call earns `ratio`; the floor is divided into shares, one for each member,
//!   that never add up to more than one, and each member accrues its own. What no member has been promised, the ledger accrues.
//! - What an instance has earned it deposits, every few slices. The ledger keeps it for a while and leases it, in whole
//!   tokens, to those who ask. A lease is a withdrawal: charged when it is made, and lost if it is not spent in time.
//! - An instance without a ledger goes on with what it earns itself: its calls, and its share of the floor as last told.
//!   Nobody else was given that share, so instances that are cut off and those that are not never spend it twice.
//! - A member that leaves says so. One that vanished keeps its share until the ledger has not heard of it for a
//!   [`GENERATION`], and one that has not heard of the ledger for that long stops to accrue.
//!
//! A token lives for at most [`FRESH`] slices where it was earned, [`BANKED`] in the ledger and [`LEASED`] with who
//! leased it: together the ttl, which is [`SLICES`] of them. What the fleet can spend at any time was therefore earned
//! in the last ttl, and over a time T it sends at most `ratio·calls + floor·(T + ttl)`. Only an instance that is cut off
//! keeps fractions for longer, until they are one token.

mod earnings;
mod instance;

pub use instance::{Instance, Role, Told};

use crate::admit::budget::WindowBudget;
use crate::units::{Nanos, ONE, SECOND};

/// Slices of the ledger in a ttl.
pub const SLICES: usize = 16;
/// For how many slices what was earned can be deposited.
pub const FRESH: usize = 4;
/// For how many slices the ledger keeps what was deposited.
pub const BANKED: usize = 10;
/// For how many slices a lease can be spent.
pub const LEASED: usize = 2;
/// How long a member keeps its share when it and the ledger do not hear of each other; the ledger may keep it for
/// twice as long.
pub const GENERATION: Nanos = 600 * SECOND;

/// Millionths of a token, and of a ratio: what the ledger counts in.
pub const MICRO: u64 = 1_000_000;

/// What the instances of a fleet agree on. Where they do not, the strictest counts, of each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Retries ÷ calls, in millionths.
    pub ratio: u64,
    /// Retries in a second that are always there for all instances together, in millionths.
    pub floor: u64,
    /// How long a call counts.
    pub ttl: Nanos,
}

impl Terms {
    /// The stricter of each number.
    fn strictest(self, other: Self) -> Self {
        Self {
            ratio: self.ratio.min(other.ratio),
            floor: self.floor.min(other.floor),
            ttl: self.ttl.min(other.ttl),
        }
    }
}

impl From<&WindowBudget> for Terms {
    fn from(budget: &WindowBudget) -> Self {
        let floor = budget.floor.over(SECOND) / (ONE / MICRO);
        Self { ratio: (budget.ratio * MICRO as f64 + 0.5) as u64, floor, ttl: budget.ttl }
    }
}

/// What a member was promised, and by which ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// When the ledger began, by its own clock, in microseconds; 0 for none.
    pub epoch: u64,
    /// The generation in which the ledger last heard of the member; 0 for one that it promised nothing yet.
    pub generation: u64,
    /// Its share of the floor, in billionths.
    pub share: u64,
    /// What the ledger keeps for it, which is more while it does not know that the member has heard of a smaller share.
    pub held: u64,
}

/// What an instance tells the ledger and asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub role: Role,
    /// Whether it asks for the last time.
    pub leaves: bool,
    /// What it was promised.
    pub seat: Seat,
    /// How many members it last heard of.
    pub members: u64,
    /// What it thinks is agreed on.
    pub terms: Terms,
    /// What it earned and does not need, in millionths of a token.
    pub deposit: u64,
    /// How many tokens it asks for.
    pub want: u64,
}

impl Ask {
    /// As numbers, in the order in which the ledger's script takes them.
    pub fn words(&self) -> [u64; 12] {
        let role = u64::from(self.role == Role::Member);
        let Self { seat, terms, .. } = self;
        let ttl = terms.ttl / 1_000;
        let (leaves, members) = (u64::from(self.leaves), self.members);
        let (deposit, want) = (self.deposit, self.want);
        let Seat { epoch, generation, share, held } = *seat;
        [
            role,
            leaves,
            epoch,
            generation,
            share,
            held,
            members,
            terms.ratio,
            terms.floor,
            ttl,
            deposit,
            want,
        ]
    }
}

/// What the ledger said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the instance is promised from now on.
    pub seat: Seat,
    /// How many members there are.
    pub members: u64,
    /// How many tokens it got.
    pub granted: u64,
    /// For how long they can be spent.
    pub valid: Nanos,
    /// What is left in the ledger, in millionths of a token.
    pub balance: u64,
    /// What counts.
    pub terms: Terms,
}

impl Answer {
    /// From the numbers that the ledger's script returns; `None` when they cannot be what it returns.
    pub fn from_words(words: &[i64]) -> Option<Self> {
        let words: &[i64; 10] = words.try_into().ok()?;
        if words.iter().any(|word| *word < 0) {
            return None;
        }
        let [epoch, generation, share, members, granted, valid, balance, ratio, floor, ttl] =
            words.map(|word| word as u64);
        let ttl = ttl.checked_mul(1_000).filter(|ttl| (SECOND..=60 * SECOND).contains(ttl))?;
        let valid = valid.checked_mul(1_000).filter(|valid| *valid <= ttl)?;
        let known = share <= ONE && ratio <= MICRO && granted <= u64::from(u32::MAX);
        known.then_some(Self {
            seat: Seat { epoch, generation, share, held: share },
            members,
            granted,
            valid,
            balance,
            terms: Terms { ratio, floor, ttl },
        })
    }
}
