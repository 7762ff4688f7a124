/// An event. In the wheel it takes 32 bits: its kind in the upper three, its subject in the others. Events at the same
/// nanosecond are ordered by kind, then by subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A server has finished its work.
    Finish(u32),
    /// A reply has arrived.
    Reply(u32),
    /// An attempt has timed out.
    Expire(u32),
    /// The next call of an open loop begins.
    NextCall,
    /// Servers of the backend may start queued requests.
    Servers,
    /// All callers begin a call.
    AllCall,
    /// The restart with this number begins.
    Restart(u32),
    /// A server has finished the work of a rejection.
    RejectionDone(Place),
    /// Shared servers are done with a request, or their number changes.
    Shared(Place),
    /// A caller begins a call.
    Begin(u32),
    /// A caller's wait for its retry or its hedge is over.
    Wake(u32),
    /// A service's wait for the retry or the hedge of an inner call is over.
    WakeInner(u32),
    /// A request has arrived at its service.
    Arrive(u32),
}

const _: () = assert!(size_of::<Event>() == 8);

/// A shard of a service, in the lower bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// A service has at most 4096 shards.
const SHARD_BITS: u32 = 12;

impl Place {
    pub(super) fn new(service: usize, shard: u32) -> Self {
        Self((service as u32) << SHARD_BITS | shard)
    }

    pub(super) fn service(self) -> usize {
        (self.0 >> SHARD_BITS) as usize
    }

    pub(super) fn shard(self) -> u32 {
        self.0 & ((1 << SHARD_BITS) - 1)
    }
}

const BITS: u32 = 29;
/// The highest number of a subject, whose bits are all set.
const SUBJECT_MASK: u32 = (1 << BITS) - 1;

/// Events of no single caller or request share a kind. Their subjects are these three, restarts, then places.
const NEXT_CALL: u32 = 0;
const SERVERS: u32 = 1;
const ALL_CALL: u32 = 2;
const RESTART: u32 = 3;
const REJECTION_DONE: u32 = 1 << 27;
const SHARED: u32 = 1 << 28;

impl Event {
    #[inline]
    pub(super) fn pack(self) -> u32 {
        let (kind, subject) = match self {
            Self::Finish(it) => (0, it),
            Self::Reply(it) => (1, it),
            Self::Expire(it) => (2, it),
            Self::NextCall => (3, NEXT_CALL),
            Self::Servers => (3, SERVERS),
            Self::AllCall => (3, ALL_CALL),
            Self::Restart(number) => (3, RESTART + number),
            Self::RejectionDone(Place(place)) => (3, REJECTION_DONE | place),
            Self::Shared(Place(place)) => (3, SHARED | place),
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
        matches!(what >> BITS, 4 | 5).then_some(what & SUBJECT_MASK)
    }

    #[inline]
    pub(super) fn unpack(what: u32) -> Self {
        let subject = what & SUBJECT_MASK;
        match what >> BITS {
            0 => Self::Finish(subject),
            1 => Self::Reply(subject),
            2 => Self::Expire(subject),
            3 => Self::unpack_shared_kind(subject),
            4 => Self::Begin(subject),
            5 => Self::Wake(subject),
            6 => Self::WakeInner(subject),
            _ => Self::Arrive(subject),
        }
    }

    #[inline]
    fn unpack_shared_kind(subject: u32) -> Self {
        match subject {
            NEXT_CALL => Self::NextCall,
            SERVERS => Self::Servers,
            ALL_CALL => Self::AllCall,
            RESTART..REJECTION_DONE => Self::Restart(subject - RESTART),
            REJECTION_DONE..SHARED => Self::RejectionDone(Place(subject - REJECTION_DONE)),
            SHARED.. => Self::Shared(Place(subject - SHARED)),
        }
    }
}
