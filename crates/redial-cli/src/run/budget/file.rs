//! A budget in a file that processes share. Each step of the engine is made with the file locked: lock, read, step, write,
//! unlock.
//!
//! The lock of a process that dies is released. A damaged file is replaced by an account without credit, so damaging it
//! does not give a fresh floor. A file that is not a budget is never written to.
//!
//! A process may be stopped (SIGSTOP) while it holds the lock. Only a decision about a retry waits for it; a first attempt
//! and a success do not, because the budget could not refuse them.

use std::fs::File;
use std::io;
use std::mem;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use redial_core::admit::Guards;
use redial_core::admit::budget::{Budget, Deposit};
use redial_core::decide::Class;
use redial_core::{Policy, Span, Time};

use super::place::{NOT_A_BUDGET, Place};
use super::record::{self, Record, Unusable};
use crate::clock;
use crate::process::SignalFlags;
use crate::run::wait;

/// How often a lock that another process holds is tried. Holders need microseconds.
const POLL: Span = Span::MILLISECOND;

/// How long a step waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum LockWait {
    /// The step only records something: 50 ms.
    Short,
    /// The account decides about a retry: 5 s. A process that holds the lock for longer was stopped.
    Long,
}

impl LockWait {
    fn time(self) -> Span {
        match self {
            Self::Short => Span::from_millis(50),
            Self::Long => Span::from_secs(5),
        }
    }
}

/// The guards of this call, with its own budget or the one in a file.
pub(in crate::run) struct FileBudget {
    guards: Guards,
    shared: Option<Shared>,
    deposit: CallDeposit,
    /// Warnings for the user, each once.
    warnings: Vec<String>,
}

/// Whether the deposit for this call is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallDeposit {
    /// The first step makes it.
    Pending,
    /// The first step was made without the lock, so it is only in our copy.
    Missed,
    /// It is, or the budget has no deposits at the start of calls.
    Done,
}

struct Shared {
    /// `None` if it cannot be used any more.
    file: Option<File>,
    path: String,
    /// An account is valid for one boot, because its times are.
    boot: u128,
    /// A hash of the budget's settings.
    rules: u64,
}

impl FileBudget {
    pub(super) fn own(policy: &Policy, seed: u64) -> Self {
        let guards = Guards::new(policy, 1, seed);
        Self { guards, shared: None, deposit: CallDeposit::Done, warnings: Vec::new() }
    }

    pub(super) fn shared(policy: &Policy, seed: u64, place: &Place) -> io::Result<Self> {
        let (file, path) = place.open()?;
        let (boot, rules) =
            (record::boot(), record::hash(format!("{:?}", policy.budget()).as_bytes()));
        let shared = Shared { file: Some(file), path: path.display().to_string(), boot, rules };
        let counts = matches!(policy.budget(), Budget::Window(window) if window.deposits() == Deposit::Request);
        let deposit = if counts { CallDeposit::Pending } else { CallDeposit::Done };
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
        self.shared.as_ref().map(|shared| shared.path.as_str())
    }

    /// Makes one step of the engine. A signal that asks us to end also ends the wait for the lock, and can still be taken.
    pub(super) fn step<T>(
        &mut self,
        wait: LockWait,
        signals: &mut SignalFlags,
        ask: impl FnOnce(&Guards, Time) -> T,
    ) -> T {
        let Some(file) = self.shared.as_mut().and_then(|shared| shared.file.take()) else {
            return ask(&self.guards, clock::now());
        };
        let (told, kept) = match lock(file, wait, signals) {
            Ok(file) => (self.locked(&file, ask), file.unlock().ok()),
            Err(unlocked) => {
                match unlocked.why {
                    // A first attempt is not charged.
                    Errno::EWOULDBLOCK if self.deposit == CallDeposit::Pending => {
                        self.deposit = CallDeposit::Missed;
                    }
                    Errno::EWOULDBLOCK if unlocked.ended || wait == LockWait::Short => {
                        self.empty();
                    }
                    Errno::EWOULDBLOCK => self.unusable("another process keeps it locked"),
                    error => self.unusable(&format!("cannot be locked ({error})")),
                }
                (ask(&self.guards, clock::now()), Some(unlocked.file))
            }
        };
        if let Some(shared) = &mut self.shared {
            shared.file = kept;
        }
        told
    }

    fn locked<T>(&mut self, file: &File, ask: impl FnOnce(&Guards, Time) -> T) -> T {
        let Some(shared) = &self.shared else { return ask(&self.guards, clock::now()) };
        let (boot, rules) = (shared.boot, shared.rules);
        match Record::read(file) {
            Ok(record) if record.boot != boot => {}
            Ok(record) => {
                let restored = self.guards.restore(&record.saved);
                if restored && self.deposit == CallDeposit::Missed {
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
                self.warn_of("damaged; replaced by an empty one");
                self.empty();
            }
            // It was a budget when it was opened.
            Err(Unusable::Foreign) => {
                self.unusable(NOT_A_BUDGET);
                return ask(&self.guards, clock::now());
            }
            Err(Unusable::Failed(error)) => self.unusable(&format!("cannot be read ({error})")),
        }
        self.deposit = CallDeposit::Done;
        let told = ask(&self.guards, clock::now());
        let record = Record { boot, rules, saved: self.guards.save() };
        if let Err(error) = record.write(file) {
            self.unusable(&format!("cannot be written ({error})"));
        }
        told
    }

    fn differs(&mut self, restored: bool) {
        self.warn_of(if restored {
            "was saved with other settings; those of this call apply from now on"
        } else {
            "was saved for another kind or length of window; replaced by an empty one"
        });
    }

    /// The shared balance is unknown, so nothing is spent.
    fn unusable(&mut self, why: &str) {
        self.warn_of(&format!("{why}; no credit for retries"));
        self.empty();
    }

    fn warn_of(&mut self, why: &str) {
        let path = self.place().unwrap_or_default();
        self.warn(format!("shared budget {path}: {why}"));
    }

    /// Removes all credit.
    fn empty(&mut self) {
        let now = clock::now();
        let credit = self.guards.balance(now).unwrap_or(0);
        self.guards.withdraw_up_to(credit, Class::Transient, now);
    }
}

struct Unlocked {
    file: File,
    why: Errno,
    /// Whether a signal ended the wait.
    ended: bool,
}

fn lock(
    mut file: File,
    wait: LockWait,
    signals: &mut SignalFlags,
) -> Result<Flock<File>, Unlocked> {
    let until = clock::now() + wait.time();
    loop {
        let (unlocked, why) = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err(refused) => refused,
        };
        file = unlocked;
        let now = clock::now();
        let busy = matches!(why, Errno::EWOULDBLOCK | Errno::EINTR);
        let over = !busy || now >= until;
        let ended = !over && wait::is_interrupted(now + POLL, signals);
        if over || ended {
            return Err(Unlocked { file, why, ended });
        }
    }
}
