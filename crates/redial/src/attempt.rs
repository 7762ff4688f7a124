use std::fmt;
use std::time::Duration;

use redial_core::decide::Failure;
use redial_core::{Call, Deadline, Permit, Time, TimeLimit};

use crate::entropy;

/// The attempt that an operation makes.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) started: Time,
    pub(crate) expires: Deadline,
    pub(crate) deadline: Deadline,
    pub(crate) key: Option<Key>,
    pub(crate) previous: Option<Failure>,
}

impl Attempt {
    #[inline(always)]
    pub(crate) fn of(
        call: &Call,
        permit: &Permit,
        key: Option<Key>,
        previous: Option<Failure>,
    ) -> Self {
        let Permit { number, started, expires, .. } = *permit;
        Self { number, started, expires, deadline: call.deadline(), key, previous }
    }

    /// 1 is the first.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long this attempt may take: its own timeout or what is left of the deadline, whichever is
    /// less. The async runner enforces it; a blocking operation has to pass it on to its socket.
    pub fn timeout(&self) -> Option<Duration> {
        self.left().duration()
    }

    /// The same for a request that carries it.
    pub(crate) fn left(&self) -> TimeLimit {
        self.expires.left(self.started)
    }

    /// What was left of the deadline when the attempt started.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.left(self.started).duration()
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

/// An idempotency key. Prints as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u64; 2]);

impl Key {
    /// A new random key (a UUID of version 4).
    pub fn fresh() -> Self {
        let [high, low] = entropy::from_system();
        Self([high & !0xf000 | 0x4000, low >> 2 | 1 << 63])
    }

    /// The key of a user's action, derived from its name: the same in every process. Whether two presses of a
    /// button are one action or two is for the caller to decide.
    #[cfg(any(feature = "http-client", feature = "idempotency"))]
    pub fn derive(action: impl AsRef<[u8]>) -> Self {
        use sha2::{Digest as _, Sha256};
        let hash: [u8; 32] = Sha256::digest(action).into();
        let word = |n: usize| u64::from_be_bytes(std::array::from_fn(|i| hash[n * 8 + i]));
        // A UUID of version 8: neither of time nor random.
        Self([word(0) & !0xf000 | 0x8000, word(1) >> 2 | 1 << 63])
    }

    /// A key that the caller stores, so that it survives the call and the process.
    pub const fn from_u128(key: u128) -> Self {
        Self([(key >> 64) as u64, key as u64])
    }

    /// The key as a number, to be stored.
    pub const fn as_u128(self) -> u128 {
        (self.0[0] as u128) << 64 | self.0[1] as u128
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.0;
        let (time, mid, version) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
        let (variant, node) = (low >> 48, low & 0xffff_ffff_ffff);
        write!(f, "{time:08x}-{mid:04x}-{version:04x}-{variant:04x}-{node:012x}")
    }
}
