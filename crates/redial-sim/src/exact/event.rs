/// An event in 32 bits: its kind in the upper three, its subject in the others. Events at the same nanosecond are
/// ordered by kind, then by subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A server has finished its work.
    Finish(u32),
    /// A reply has arrived.
    Reply(u32),
    /// An attempt has timed out.
    Expire(u32),
    /// A change that concerns no single caller, by its number.
    Change(u32),
    /// A caller begins a call.
    Begin(u32),
    /// A caller's wait for its retry or its hedge is over.
    Wake(u32),
    /// A service's wait for the retry or the hedge of an inner call is over.
    WakeInner(u32),
    /// A request has arrived at its service.
    Arrive(u32),
}

/// Changes of a shard: a server has finished the work of a rejection.
pub(super) const REJECTION_DONE: u32 = 1 << 27;
/// The same: shared servers are done with a request, or their number changes.
pub(super) const SHARED: u32 = 1 << 28;
/// A service has at most 4096 shards.
const SHARD_BITS: u32 = 12;

const BITS: u32 = 29;
/// The highest number of a subject.
const MOST: u32 = (1 << BITS) - 1;

impl Event {
    /// A change of this kind in a shard of a service.
    pub(super) fn of_shard(kind: u32, service: usize, shard: u32) -> Self {
        Self::Change(kind | (service as u32) << SHARD_BITS | shard)
    }

    /// The service and the shard of a change of this kind.
    pub(super) fn shard(kind: u32, change: u32) -> (usize, u32) {
        let place = change - kind;
        ((place >> SHARD_BITS) as usize, place & ((1 << SHARD_BITS) - 1))
    }

    #[inline]
    pub(super) fn pack(self) -> u32 {
        let (kind, subject) = match self {
            Self::Finish(it) => (0, it),
            Self::Reply(it) => (1, it),
            Self::Expire(it) => (2, it),
            Self::Change(it) => (3, it),
            Self::Begin(it) => (4, it),
            Self::Wake(it) => (5, it),
            Self::WakeInner(it) => (6, it),
            Self::Arrive(it) => (7, it),
        };
        kind << BITS | subject
    }

    /// The caller of an event that continues a call.
    #[inline]
    pub(super) fn caller(what: u32) -> Option<u32> {
        matches!(what >> BITS, 4 | 5).then_some(what & MOST)
    }

    #[inline]
    pub(super) fn unpack(what: u32) -> Self {
        let subject = what & MOST;
        match what >> BITS {
            0 => Self::Finish(subject),
            1 => Self::Reply(subject),
            2 => Self::Expire(subject),
            3 => Self::Change(subject),
            4 => Self::Begin(subject),
            5 => Self::Wake(subject),
            6 => Self::WakeInner(subject),
            _ => Self::Arrive(subject),
        }
    }
}
