use std::fmt;
use std::time::Duration;

use redial_core::decide::Failure;
use redial_core::{NEVER, Nanos};

use crate::entropy;

/// What an operation may know about the attempt that it makes.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) started: Nanos,
    pub(crate) expires: Nanos,
    pub(crate) deadline: Nanos,
    pub(crate) key: Option<Key>,
    pub(crate) previous: Option<Failure>,
}

impl Attempt {
    /// 1 is the first.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long this attempt may take: its own timeout or what is left of the deadline, whichever is
    /// less. The async runner cuts it off then; a blocking operation has to pass it on to its socket.
    pub fn timeout(&self) -> Option<Duration> {
        until(self.started, self.expires)
    }

    /// What was left of the deadline when the attempt started.
    pub fn remaining(&self) -> Option<Duration> {
        until(self.started, self.deadline)
    }

    /// The idempotency key: the same on every attempt of a call.
    pub fn key(&self) -> Option<Key> {
        self.key
    }

    /// How the attempt before this one failed, to refresh a credential or to try another endpoint.
    /// `None` on the first attempt, and after a "not yet".
    pub fn previous(&self) -> Option<Failure> {
        self.previous
    }
}

fn until(from: Nanos, to: Nanos) -> Option<Duration> {
    (to != NEVER).then(|| Duration::from_nanos(to.saturating_sub(from)))
}

/// An idempotency key. Prints as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// A new one (a UUID of version 4).
    pub fn fresh() -> Self {
        let random = u128::from(entropy::from_system()) << 64 | u128::from(entropy::from_system());
        let (version, variant) = (0xf << 76, 0b11 << 62);
        Self(random & !version & !variant | 4 << 76 | 0b10 << 62)
    }

    /// One that the caller keeps, so that it survives the call and the process.
    pub const fn from_u128(key: u128) -> Self {
        Self(key)
    }

    /// The same key as a number, to be kept.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let k = self.0;
        let part = |shift: u32, bits: u32| (k >> shift) & ((1 << bits) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}
