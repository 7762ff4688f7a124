use super::earnings::Earnings;
use super::{Answer, Ask, FRESH, GENERATION, MICRO, SLICES, Seat, Terms};
use crate::admit::budget::Lease;
use crate::units::{MS, Nanos, ONE};

/// How many asks a second the ledger gets at most from all members, however many they are: each leaves this
/// much time for every other one.
const ELBOW_ROOM: Nanos = MS / 10;
/// The least time between two asks of an instance, in which the retries that wait are asked for together.
const BATCH: Nanos = 10 * MS;
/// More than anybody asks for at once.
const MOST: u64 = 1_000_000;

/// Who asks the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs for a while: has a share of the floor, also without the ledger.
    Member,
    /// Makes a call and goes: has what its call earned, and what it leases.
    Guest,
}

/// One instance of a fleet, between a [`Lease`] that its calls spend and a ledger that it does not reach itself.
#[derive(Debug)]
pub struct Instance {
    role: Role,
    terms: Terms,
    ruling: Terms,
    seat: Seat,
    members: u64,
    earnings: Earnings,
    /// Calls that have earned.
    calls: u64,
    /// Until when the floor has been accrued.
    accrued: Nanos,
    /// When the ledger last answered.
    heard: Option<Nanos>,
    /// Whether it answered the last time it was asked.
    reached: bool,
    asked: Nanos,
    /// Whether it had too little then.
    dry: bool,
    /// Tokens that had been spent at the last ask.
    spent: u64,
}

/// What an answer says that a user should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Others configure this fleet more strictly, and these terms count.
    pub stricter: Option<Terms>,
    /// The ledger is another one than before: it was emptied, or restarted without its data.
    pub anew: bool,
}

impl Instance {
    /// One that has not asked yet.
    pub fn new(role: Role, terms: Terms, now: Nanos) -> Self {
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
            asked: 0,
            dry: false,
            spent: 0,
        }
    }

    /// How many members the ledger last spoke of.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Its share of the floor, in billionths.
    pub fn share(&self) -> u64 {
        self.seat.share
    }

    /// Whether the ledger answered the last time it was asked.
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// What to ask the ledger now. What is deposited with it is gone, whether or not the ledger hears of it; an
    /// instance that was cut off therefore first asks for nothing and deposits nothing.
    pub fn ask(&mut self, lease: &Lease, now: Nanos) -> Ask {
        self.earn(lease, now);
        let spent = lease.taken();
        let recent = spent.wrapping_sub(self.spent);
        let want = (u64::from(lease.pending()) + recent).saturating_sub(lease.held(now));
        (self.asked, self.spent) = (now, spent);
        let (deposit, want) = match self.reached {
            true => (self.earnings.give() / (ONE / MICRO), want.min(MOST)),
            false => (0, 0),
        };
        Ask { deposit, want, ..self.hello() }
    }

    /// The last thing to ask: gives back the share, and what was earned.
    pub fn leave(&mut self, lease: &Lease, now: Nanos) -> Ask {
        Ask { leaves: true, want: 0, ..self.ask(lease, now) }
    }

    /// The last thing to ask when its lease is gone: gives back the share.
    pub fn vanish(&self) -> Ask {
        Ask { leaves: true, ..self.hello() }
    }

    fn hello(&self) -> Ask {
        let Self { role, seat, members, terms, .. } = *self;
        Ask { role, leaves: false, seat, members, terms, deposit: 0, want: 0 }
    }

    /// The ledger answered an ask that left at `sent`.
    pub fn answered(
        &mut self,
        lease: &Lease,
        ask: &Ask,
        answer: &Answer,
        sent: Nanos,
        now: Nanos,
    ) -> Told {
        self.earn(lease, now);
        let anew = ![0, answer.seat.epoch].contains(&ask.seat.epoch);
        let held = ask.seat.share.max(answer.seat.share);
        (self.seat, self.members) = (Seat { held, ..answer.seat }, answer.members);
        self.ruling = answer.terms.strictest(self.terms);
        self.earnings.set_ttl(self.ruling.ttl);
        // The ledger heard of this instance no sooner than that, however late the answer is.
        (self.heard, self.reached) = (Some(sent), true);
        let (granted, end) = (answer.granted.min(ask.want), sent.saturating_add(answer.valid));
        lease.add(granted as u32, end, now);
        self.dry = granted < ask.want && u64::from(lease.pending()) > lease.held(now);
        if self.dry {
            lease.set_dry(self.next(lease, now));
        }
        let stricter = (self.ruling != self.terms).then_some(self.ruling);
        Told { stricter, anew }
    }

    /// The ledger did not answer, or there is no way to it.
    pub fn failed(&mut self, lease: &Lease, now: Nanos) {
        self.reached = false;
        // It may have heard the ask, and then keeps no less than the share that was named there.
        self.seat.held = self.seat.share;
        if self.seat.generation == 0 {
            self.seat = Seat::default();
        }
        self.go_on(lease, now);
    }

    /// Without the ledger: the retries that wait are paid for with what the instance itself has earned. Does nothing
    /// while the ledger is there.
    pub fn go_on(&mut self, lease: &Lease, now: Nanos) {
        if self.reached {
            return;
        }
        self.earn(lease, now);
        let want = u64::from(lease.pending()).saturating_sub(lease.held(now));
        let minted = self.earnings.mint(want);
        lease.add(minted as u32, now.saturating_add(2 * self.slice()), now);
        if minted < want {
            lease.set_dry(now.saturating_add(BATCH));
        }
    }

    /// When it wants to ask the ledger next: soon if a retry waits, else often enough for nothing to go stale.
    pub fn next(&self, lease: &Lease, now: Nanos) -> Nanos {
        let beat = (FRESH as u64 - 1) * self.slice();
        let pace = self.members.saturating_mul(ELBOW_ROOM).clamp(BATCH, beat);
        let is_new = self.role == Role::Member && self.seat.generation == 0;
        let wait = match () {
            () if !self.reached || is_new => pace,
            () if lease.pending() == 0 => beat,
            // A retry that waits for longer than its lease lives needs another.
            () if u64::from(lease.pending()) <= lease.held(now) => {
                beat.min(lease.ends(now).saturating_sub(self.asked))
            }
            () if self.dry => pace.max(self.slice() / 4),
            () => pace,
        };
        self.asked.saturating_add(wait).max(now)
    }

    fn slice(&self) -> Nanos {
        self.ruling.ttl / SLICES as u64
    }

    fn earn(&mut self, lease: &Lease, now: Nanos) {
        let calls = lease.calls();
        let made = calls.wrapping_sub(self.calls);
        self.calls = calls;
        let lapses = self.heard.map_or(0, |heard| heard.saturating_add(GENERATION));
        let (from, until) = (self.accrued, now.min(lapses));
        let Terms { ratio, floor, .. } = self.ruling;
        let of_floor = u128::from(floor)
            * u128::from(until.saturating_sub(from))
            * u128::from(self.seat.share)
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
