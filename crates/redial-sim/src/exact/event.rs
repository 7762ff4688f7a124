/// What happens next, in 32 bits: the kind in the upper three, whom it happens to in the others. What happens at
/// the same nanosecond happens in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A server has done its work.
    Finish(u32),
    /// A reply is back.
    Reply(u32),
    /// An attempt has taken too long.
    Expire(u32),
    /// A change of the surroundings, by its number.
    Change(u32),
    /// A caller begins a call.
    Begin(u32),
    /// A caller has waited for its retry.
    Wake(u32),
    /// A service has waited for the retry of a call that it makes.
    WakeInner(u32),
    /// A request is at its service.
    Arrive(u32),
}

const BITS: u32 = 29;
/// The highest number that an event can be about.
const MOST: u32 = (1 << BITS) - 1;

impl Event {
    #[inline]
    pub(super) fn pack(self) -> u32 {
        let (kind, whom) = match self {
            Self::Finish(it) => (0, it),
            Self::Reply(it) => (1, it),
            Self::Expire(it) => (2, it),
            Self::Change(it) => (3, it),
            Self::Begin(it) => (4, it),
            Self::Wake(it) => (5, it),
            Self::WakeInner(it) => (6, it),
            Self::Arrive(it) => (7, it),
        };
        kind << BITS | whom
    }

    /// The caller that an event is about, if it is one whose call goes on.
    #[inline]
    pub(super) fn caller(what: u32) -> Option<u32> {
        matches!(what >> BITS, 4 | 5).then_some(what & MOST)
    }

    #[inline]
    pub(super) fn unpack(what: u32) -> Self {
        let whom = what & MOST;
        match what >> BITS {
            0 => Self::Finish(whom),
            1 => Self::Reply(whom),
            2 => Self::Expire(whom),
            3 => Self::Change(whom),
            4 => Self::Begin(whom),
            5 => Self::Wake(whom),
            6 => Self::WakeInner(whom),
            _ => Self::Arrive(whom),
        }
    }
}
