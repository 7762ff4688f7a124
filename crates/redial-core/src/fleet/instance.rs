use super::earnings::Earnings;
use super::{Ask, FRESH, FleetTerms, GENERATION, Grant, MICRO, SLICES, Seat};
use crate::admit::budget::TokenLease;
use crate::time::{Span, Time};
use crate::units::ONE;

/// Bounds the rate of asks from all members: an instance waits this long for every member before it asks again.
const TIME_PER_MEMBER: Span = Span::from_micros(100);
/// The least time between two asks of an instance; the retries that wait in this time are asked for together.
const LEAST_ASK_INTERVAL: Span = Span::from_millis(10);
/// The largest number of tokens in one ask.
const MOST_TOKENS_PER_ASK: u64 = 1_000_000;

/// The role of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs for a while: has a share of the floor, also without the ledger.
    Member,
    /// Makes one call and exits: has what its call earned, and what it leases.
    OneShot,
}

/// One instance of a fleet: the link between a [`TokenLease`], which its calls spend, and the ledger.
#[derive(Debug)]
pub struct Instance {
    role: Role,
    terms: FleetTerms,
    ruling: FleetTerms,
    seat: Seat,
    members: u64,
    earnings: Earnings,
    /// Calls that have earned.
    calls: u64,
    /// The time up to which the floor has been accrued.
    accrued: Time,
    /// When the ledger last answered.
    heard: Option<Time>,
    /// Whether it answered the last ask.
    reached: bool,
    asked: Time,
    /// Whether it had too few tokens then.
    dry: bool,
    /// Tokens that had been spent at the last ask.
    spent: u64,
}

/// What changed with an answer, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Another instance configures this fleet more strictly, and these terms apply.
    pub stricter: Option<FleetTerms>,
    /// The ledger is a new one: it was emptied, or restarted without its data.
    pub new_ledger: bool,
}

impl Instance {
    /// An instance that has not asked the ledger yet.
    pub fn new(role: Role, terms: FleetTerms, now: Time) -> Self {
        Self {
            role,
            terms,
            ruling: terms,
            seat: Seat::default(),
            members: 0,
            earnings: Earnings::new(terms.ttl),
            calls: 0,
            accrued: now,
            heard: None,
            reached: false,
            asked: Time::ZERO,
            dry: false,
            spent: 0,
        }
    }

    /// The number of members, as the ledger last reported.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Its share of the floor, in billionths.
    pub fn share(&self) -> u64 {
        self.seat.share
    }

    /// Whether the ledger answered the last ask.
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// What to ask the ledger now. A deposit is subtracted here whether or not the ask arrives, so the first ask of an
    /// instance that was cut off neither deposits nor requests tokens.
    pub fn ask(&mut self, lease: &TokenLease, now: Time) -> Ask {
        self.earn(lease, now);
        let spent = lease.taken();
        let recent = spent.wrapping_sub(self.spent);
        (self.asked, self.spent) = (now, spent);
        if !self.reached {
            return self.empty_ask();
        }
        let want = (u64::from(lease.take_demand()) + recent).saturating_sub(lease.held(now));
        let deposit = self.earnings.give() / (ONE / MICRO);
        Ask { deposit, want: want.min(MOST_TOKENS_PER_ASK), ..self.empty_ask() }
    }

    /// The last ask: returns the share, and deposits the earnings.
    pub fn leave(&mut self, lease: &TokenLease, now: Time) -> Ask {
        Ask { leaves: true, want: 0, ..self.ask(lease, now) }
    }

    /// The last ask of an instance that has no lease any more: returns the share.
    pub fn leave_without_lease(&self) -> Ask {
        Ask { leaves: true, ..self.empty_ask() }
    }

    fn empty_ask(&self) -> Ask {
        let Self { role, seat, members, terms, .. } = *self;
        Ask { role, leaves: false, seat, members, terms, deposit: 0, want: 0 }
    }

    /// The ledger answered an ask that was sent at `sent`.
    pub fn answered(
        &mut self,
        lease: &TokenLease,
        ask: &Ask,
        grant: &Grant,
        sent: Time,
        now: Time,
    ) -> Changes {
        self.earn(lease, now);
        let new_ledger = ask.seat.epoch.is_some() && ask.seat.epoch != grant.seat.epoch;
        let held = ask.seat.share.max(grant.seat.share);
        (self.seat, self.members) = (Seat { held, ..grant.seat }, grant.members);
        self.ruling = grant.terms.strictest(self.terms);
        self.earnings.set_ttl(self.ruling.ttl);
        // The ledger received the ask no earlier than this, however late the answer is.
        (self.heard, self.reached) = (Some(sent), true);
        let (granted, end) = (grant.granted.min(ask.want), sent + grant.valid);
        lease.add(granted as u32, end, now);
        self.dry = granted < ask.want && u64::from(lease.pending()) > lease.held(now);
        if self.dry {
            lease.set_dry(self.next(lease, now).into());
        }
        let stricter = (self.ruling != self.terms).then_some(self.ruling);
        Changes { stricter, new_ledger }
    }

    /// The ledger did not answer, or could not be reached.
    pub fn failed(&mut self, lease: &TokenLease, now: Time) {
        self.reached = false;
        // The ledger may have received the ask, and then keeps at least the share in it.
        self.seat.held = self.seat.share;
        if self.seat.generation.is_none() {
            self.seat = Seat::default();
        }
        self.pay_pending(lease, now);
    }

    /// Without the ledger, pays for the waiting retries with the instance's own earnings. Does nothing while the ledger
    /// answers.
    pub fn pay_pending(&mut self, lease: &TokenLease, now: Time) {
        if self.reached {
            return;
        }
        self.earn(lease, now);
        let want = u64::from(lease.take_demand()).saturating_sub(lease.held(now));
        let minted = self.earnings.mint(want);
        lease.add(minted as u32, now + self.slice() * 2, now);
        if minted < want {
            lease.set_dry((now + LEAST_ASK_INTERVAL).into());
        }
    }

    /// When to ask the ledger next: soon if a retry waits, otherwise often enough that no earnings expire.
    pub fn next(&self, lease: &TokenLease, now: Time) -> Time {
        let beat = self.slice() * (FRESH as u64 - 1);
        let pace = (TIME_PER_MEMBER * self.members).clamp(LEAST_ASK_INTERVAL, beat);
        let is_new = self.role == Role::Member && self.seat.generation.is_none();
        let wait = match () {
            () if !self.reached || is_new => pace,
            () if lease.demand() == 0 => beat,
            // A retry that waits until its lease expires needs another lease.
            () if u64::from(lease.demand()) <= lease.held(now) => {
                lease.ends(now).map_or(beat, |ends| beat.min(ends - self.asked))
            }
            () if self.dry || lease.pending() == 0 => pace.max(self.slice() / 4),
            () => pace,
        };
        (self.asked + wait).max(now)
    }

    fn slice(&self) -> Span {
        self.ruling.ttl / SLICES as u64
    }

    fn earn(&mut self, lease: &TokenLease, now: Time) {
        let calls = lease.calls();
        let made = calls.wrapping_sub(self.calls);
        self.calls = calls;
        let lapses = self.heard.map_or(Time::ZERO, |heard| heard + GENERATION);
        let (from, until) = (self.accrued, now.min(lapses));
        let FleetTerms { ratio, floor, .. } = self.ruling;
        let of_floor =
            u128::from(floor) * u128::from((until - from).as_nanos()) * u128::from(self.seat.share)
                / (u128::from(ONE) * u128::from(MICRO));
        let of_calls = u128::from(made) * u128::from(ratio) * u128::from(ONE / MICRO);
        let most = |earned: u128| u64::try_from(earned).unwrap_or(u64::MAX);
        self.earnings.earn(most(of_floor), from, until);
        self.earnings.earn(most(of_calls), from, now);
        self.accrued = from.max(now);
        if now >= lapses {
            self.seat = Seat::default();
        }
    }
}
