//! One budget for a whole fleet.
//!
//! A floor multiplies by the number of clients: two hundred instances with ten retries a second each send two
//! thousand. So the instances of a fleet share one ledger, and this is the part of one instance, without network or
//! clock. Its owner sends an [`Ask`] to the ledger and returns the [`Grant`].
//!
//! - Each call earns `ratio`. The floor is divided into shares that never add up to more than one; each member accrues
//!   its own share, and the ledger accrues the rest.
//! - An instance deposits its earnings every few slices. The ledger keeps them for a while, and leases them in whole
//!   tokens. A lease is a withdrawal: charged when it is made, and lost if it is not spent in time.
//! - An instance without a ledger continues with its own earnings: from its calls, and from its last known share of the
//!   floor. No other instance has that share, so an instance that is cut off and the rest never spend it twice.
//! - A member that leaves returns its share. The share of a member that disappeared is kept until the ledger has not
//!   heard from it for a [`GENERATION`]; a member that has not heard from the ledger for that long stops accruing.
//!
//! A token lives for at most [`FRESH`] slices where it was earned, [`BANKED`] in the ledger and [`LEASED`] in a lease:
//! together the ttl, which is [`SLICES`] slices. What the fleet can spend at any time was therefore earned in the last
//! ttl, and over a time T it sends at most `ratio·calls + floor·(T + ttl)`. Only an instance that is cut off keeps
//! fractions for longer, until they add up to one token.

mod earnings;
mod instance;
mod location;
mod name;

pub use instance::{Changes, Instance, Role};
#[doc(hidden)]
pub use location::without_password;
pub use location::{Location, SecretSource};
#[doc(hidden)]
pub use name::{check_name, is_name_byte};

pub use crate::admit::budget::{LEASED, SLICES};

use core::num::NonZeroU64;

use crate::admit::budget::WindowBudget;
use crate::time::Span;
use crate::units::ONE;

/// The number of slices for which earnings can be deposited.
pub const FRESH: usize = 4;
/// The number of slices for which the ledger keeps a deposit.
pub const BANKED: usize = 10;
/// How long a member keeps its share without contact to the ledger; the ledger may keep it for twice as long.
pub const GENERATION: Span = Span::from_secs(600);

/// One token, or a ratio of 1, in the millionths that the ledger counts in.
pub const MICRO: u64 = 1_000_000;

/// The budget of a fleet. If its instances configure it differently, the strictest value of each field applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetTerms {
    /// Retries ÷ calls, in millionths.
    pub ratio: u64,
    /// Retries a second that are always allowed, for all instances together, in millionths.
    pub floor: u64,
    /// How long a call counts.
    pub ttl: Span,
}

impl FleetTerms {
    /// The stricter value of each field.
    fn strictest(self, other: Self) -> Self {
        Self {
            ratio: self.ratio.min(other.ratio),
            floor: self.floor.min(other.floor),
            ttl: self.ttl.min(other.ttl),
        }
    }
}

impl From<&WindowBudget> for FleetTerms {
    fn from(budget: &WindowBudget) -> Self {
        let floor = budget.floor.over(Span::SECOND) / (ONE / MICRO);
        Self { ratio: (budget.ratio * MICRO as f64 + 0.5) as u64, floor, ttl: budget.ttl }
    }
}

/// A member's share of the floor, and the ledger that granted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// When the ledger was created, by its own clock, in microseconds.
    pub epoch: Option<NonZeroU64>,
    /// The generation in which the ledger last heard from the member, if it has a share.
    pub generation: Option<NonZeroU64>,
    /// Its share of the floor, in billionths.
    pub share: u64,
    /// What the ledger reserves for it; more than `share` until the member has confirmed a smaller share.
    pub held: u64,
}

/// A request to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The role of the instance.
    pub role: Role,
    /// Whether this is its last ask.
    pub leaves: bool,
    /// Its share.
    pub seat: Seat,
    /// The number of members that it last heard of.
    pub members: u64,
    /// Its own terms.
    pub terms: FleetTerms,
    /// The deposit, in millionths of a token.
    pub deposit: u64,
    /// The number of tokens it requests.
    pub want: u64,
}

impl Ask {
    /// The arguments of the ledger's script, in order. 0 stands for none.
    pub fn words(&self) -> [u64; 12] {
        let role = u64::from(self.role == Role::Member);
        let Self { seat, terms, .. } = self;
        let ttl = terms.ttl.as_micros();
        let (leaves, members) = (u64::from(self.leaves), self.members);
        let (deposit, want) = (self.deposit, self.want);
        let Seat { epoch, generation, share, held } = *seat;
        [
            role,
            leaves,
            epoch.map_or(0, NonZeroU64::get),
            generation.map_or(0, NonZeroU64::get),
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

/// The ledger's reply to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The instance's share from now on.
    pub seat: Seat,
    /// The number of members.
    pub members: u64,
    /// The number of tokens granted.
    pub granted: u64,
    /// How long they can be spent.
    pub valid: Span,
    /// The ledger's balance, in millionths of a token.
    pub balance: u64,
    /// The terms that apply.
    pub terms: FleetTerms,
}

impl Grant {
    /// Parses the numbers that the ledger's script returns; `None` if they are invalid.
    pub fn from_words(words: &[i64]) -> Option<Self> {
        let words: &[i64; 10] = words.try_into().ok()?;
        if words.iter().any(|word| *word < 0) {
            return None;
        }
        let [epoch, generation, share, members, granted, valid, balance, ratio, floor, ttl] =
            words.map(|word| word as u64);
        let (ttl, valid) = (Span::from_micros(ttl), Span::from_micros(valid));
        let known = (Span::SECOND..=Span::from_secs(60)).contains(&ttl)
            && valid <= ttl
            && share <= ONE
            && ratio <= MICRO
            && granted <= u64::from(u32::MAX);
        known.then_some(Self {
            seat: Seat {
                epoch: NonZeroU64::new(epoch),
                generation: NonZeroU64::new(generation),
                share,
                held: share,
            },
            members,
            granted,
            valid,
            balance,
            terms: FleetTerms { ratio, floor, ttl },
        })
    }
}
