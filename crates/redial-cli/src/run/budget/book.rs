//! An account in a file, and whoever asks the engine something does it with the file locked: read, ask, write, let go.
//!
//! The lock is let go when its holder dies, whatever it died of. Half an account is replaced by an empty one without
//! credit: breaking a file does not give a fresh floor. A file that is something else is never written to.
//!
//! A holder may also be stopped, for as long as somebody likes. Only the question whether a retry may be made is worth
//! waiting for it; a first attempt and a success are not held up by a budget that could not refuse them.

use std::fs::File;
use std::io;
use std::mem;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, Deposit};
use redial_core::decide::Class;
use redial_core::{Nanos, Policy};

use super::place::{NOT_OURS, Place};
use super::record::{self, Record, Unusable};
use crate::run::clock;
use crate::run::signals::Signals;
use crate::run::wait;

/// How often a lock is asked for that somebody else has. Holders need microseconds.
const GLANCE: Nanos = 1_000_000;

/// How long a step waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Patience {
    /// The answer is known without the account, which is only told: 50 ms.
    Little,
    /// The account decides: 5 s. A holder that needs longer was stopped in the middle.
    Much,
}

impl Patience {
    fn time(self) -> Nanos {
        match self {
            Self::Little => 50_000_000,
            Self::Much => 5_000_000_000,
        }
    }
}

/// The guards of this call. Their budget is its own, or that of all who share a file.
pub(in crate::run) struct Book {
    guards: Guards,
    shared: Option<Shared>,
    /// Whether a call is counted when it starts, and whether the others know of ours.
    deposit: Told,
    /// What the user should know, once.
    warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The first step counts the call.
    First,
    /// The first step was made without the others, and only our own copy counts the call.
    Owed,
    Done,
}

struct Shared {
    /// `None` when it cannot be used any more.
    file: Option<File>,
    what: String,
    /// The account is that of this boot, because its times are.
    boot: u128,
    /// The budget's numbers, hashed.
    rules: u64,
}

impl Book {
    pub(super) fn own(policy: &Policy, seed: u64) -> Self {
        let guards = Guards::new(policy, 1, seed);
        Self { guards, shared: None, deposit: Told::Done, warnings: Vec::new() }
    }

    pub(super) fn shared(policy: &Policy, seed: u64, place: &Place) -> io::Result<Self> {
        let (file, path) = place.open()?;
        let (boot, rules) =
            (record::boot(), record::hash(format!("{:?}", policy.budget()).as_bytes()));
        let shared = Shared { file: Some(file), what: path.display().to_string(), boot, rules };
        let counts = matches!(policy.budget(), Budget::Window(window) if window.deposits() == Deposit::Request);
        let deposit = if counts { Told::First } else { Told::Done };
        Ok(Self { shared: Some(shared), deposit, ..Self::own(policy, seed) })
    }

    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(super) fn warnings(&mut self) -> Vec<String> {
        mem::take(&mut self.warnings)
    }

    /// The file that the budget is in, if it is shared.
    pub(super) fn place(&self) -> Option<&str> {
        self.shared.as_ref().map(|shared| shared.what.as_str())
    }

    /// One step of the engine. A signal that ends us ends the waiting for others too, and can still be taken then.
    pub(super) fn step<T>(
        &mut self,
        patience: Patience,
        signals: &mut Signals,
        ask: impl FnOnce(&Guards, Nanos) -> T,
    ) -> T {
        let Some(file) = self.shared.as_mut().and_then(|shared| shared.file.take()) else {
            return ask(&self.guards, clock::now());
        };
        let (told, kept) = match lock(file, patience, signals) {
            Ok(file) => (self.locked(&file, ask), file.unlock().ok()),
            Err(unlocked) => {
                match unlocked.why {
                    // A first attempt is not paid for.
                    Errno::EWOULDBLOCK if self.deposit == Told::First => self.deposit = Told::Owed,
                    Errno::EWOULDBLOCK if unlocked.ended || patience == Patience::Little => {
                        self.empty();
                    }
                    Errno::EWOULDBLOCK => self.unusable("somebody keeps it locked"),
                    error => self.unusable(&format!("it cannot be locked ({error})")),
                }
                (ask(&self.guards, clock::now()), Some(unlocked.file))
            }
        };
        if let Some(shared) = &mut self.shared {
            shared.file = kept;
        }
        told
    }

    fn locked<T>(&mut self, file: &File, ask: impl FnOnce(&Guards, Nanos) -> T) -> T {
        let Some(shared) = &self.shared else { return ask(&self.guards, clock::now()) };
        let (boot, rules) = (shared.boot, shared.rules);
        match Record::read(file) {
            Ok(record) if record.boot != boot => {}
            Ok(record) => {
                let restored = self.guards.restore(&record.saved);
                if restored && self.deposit == Told::Owed {
                    self.guards.deposit(0, 1, clock::now());
                }
                if record.rules != rules {
                    self.differs(restored);
                }
                if !restored {
                    self.empty();
                }
            }
            Err(Unusable::New) => {}
            Err(Unusable::Damaged) => {
                self.warn_of("it was damaged; an empty one takes its place");
                self.empty();
            }
            // It was ours when it was opened.
            Err(Unusable::Foreign) => {
                self.unusable(NOT_OURS);
                return ask(&self.guards, clock::now());
            }
            Err(Unusable::Failed(error)) => self.unusable(&format!("it cannot be read ({error})")),
        }
        self.deposit = Told::Done;
        let told = ask(&self.guards, clock::now());
        let record = Record { boot, rules, saved: self.guards.save() };
        if let Err(error) = record.write(file) {
            self.unusable(&format!("it cannot be written ({error})"));
        }
        told
    }

    fn differs(&mut self, restored: bool) {
        self.warn_of(if restored {
            "it was kept with other numbers; those of this call apply from now on"
        } else {
            "it was kept for another kind or length of window; an empty one takes its place"
        });
    }

    /// Without the others nobody knows what may be spent, so nothing is.
    fn unusable(&mut self, why: &str) {
        self.warn_of(&format!("{why}, so that there is no credit for a retry"));
        self.empty();
    }

    fn warn_of(&mut self, why: &str) {
        let what = self.place().unwrap_or_default();
        self.warn(format!("the shared budget {what}: {why}"));
    }

    /// Takes what credit there is.
    fn empty(&mut self) {
        let now = clock::now();
        let credit = self.guards.balance(now).unwrap_or(0);
        self.guards.withdraw_up_to(credit, Class::Transient, now);
    }
}

struct Unlocked {
    file: File,
    why: Errno,
    /// A signal has ended the wait for it.
    ended: bool,
}

fn lock(
    mut file: File,
    patience: Patience,
    signals: &mut Signals,
) -> Result<Flock<File>, Unlocked> {
    let until = clock::now().saturating_add(patience.time());
    loop {
        let (unlocked, why) = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err(refused) => refused,
        };
        file = unlocked;
        let now = clock::now();
        let busy = matches!(why, Errno::EWOULDBLOCK | Errno::EINTR);
        let over = !busy || now >= until;
        let ended = !over && wait::is_ended(now + GLANCE, signals);
        if over || ended {
            return Err(Unlocked { file, why, ended });
        }
    }
}
