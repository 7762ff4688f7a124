use crate::http::memory::{Memory, Reserved};

/// A limit on what all replay buffers of a process keep.
///
/// [`RetryLayer::buffer`](super::RetryLayer::buffer) limits one request. A proxy with thousands of them also needs a limit on
/// all together: give the same value to each of its layers with [`replay_memory`](super::RetryLayer::replay_memory). A
/// request that finds no room is streamed and sent once, like one with a body above its buffer.
///
/// A body counts with its length, or with what has been sent of it if that is not known; if it has several chunks, each
/// counts 32 bytes more. It counts until the call ends; chunks that are being sent again when the server answers
/// early count until they are sent. Headers and trailers are not counted. The body of a [parked](crate::Draft::park) request
/// counts too, so this also limits what parked requests keep.
///
/// ```
/// use redial::http::{ReplayMemory, RetryLayer};
/// use redial::{Policy, Retry};
///
/// let memory = ReplayMemory::new(64 << 20);
/// let orders = RetryLayer::new(Retry::new(Policy::standard())).replay_memory(&memory);
/// let search = RetryLayer::new(Retry::new(Policy::standard())).replay_memory(&memory);
/// assert_eq!(memory.used(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct ReplayMemory {
    memory: Memory,
    limit: usize,
}

impl ReplayMemory {
    /// Room for this many bytes, which clones share.
    pub fn new(bytes: usize) -> Self {
        Self { memory: Memory::default(), limit: bytes }
    }

    /// How many bytes are kept now.
    pub fn used(&self) -> usize {
        self.memory.used()
    }

    /// What one request keeps of `memory`, nothing yet. Without a limit nothing is counted.
    pub(super) fn held(memory: Option<&Self>) -> Held {
        Held(memory.map(|memory| (memory.memory.reserve(), memory.limit)))
    }
}

/// What one request keeps. Dropping it gives that back.
#[derive(Debug, Default)]
pub(super) struct Held(Option<(Reserved, usize)>);

impl Held {
    /// Grows to this many bytes, if there is room for them.
    #[inline]
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        self.0.as_mut().is_none_or(|(reserved, limit)| reserved.grow_to(bytes, *limit))
    }
}
