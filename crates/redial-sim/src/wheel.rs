//! The next event among those of millions of waiting callers.
//!
//! A heap compares each event with about twenty others, each in another cache line. A timing wheel appends it to
//! the bucket of its time, and sorts a bucket when its time has come, at once and in the cache. An event takes
//! eight bytes: its time within the bucket, and what happens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;

use redial_core::Time;

/// A bucket spans about a millisecond.
const TICK_BITS: u32 = 20;
/// Buckets per turn of the wheel, which is about four seconds.
const TURN_BITS: u32 = 12;
const TURN: usize = 1 << TURN_BITS;
/// Events per chunk. Buckets consist of chunks, so that a large one is not moved as it grows.
const CHUNK: usize = 127;

/// Events ordered by time, and at the same time by number.
#[derive(Debug)]
pub struct Wheel {
    /// The open bucket. Everything before it has happened.
    tick: u64,
    /// The rest of the open bucket, the next event last.
    open: Vec<u64>,
    /// Events added to the open bucket since it was opened.
    late: BinaryHeap<Reverse<u64>>,
    buckets: Box<[Bucket]>,
    /// One bit for every bucket that is not empty.
    filled: [u64; TURN / 64],
    /// Turns that have not started.
    later: BTreeMap<u64, Bucket>,
    chunks: Chunks,
    len: usize,
}

/// The number of events is kept here and not in the chunk, so that adding an event reads nothing from the chunk.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The chunk that was added last. All others are full.
    chunk: u32,
    /// Events in that chunk.
    len: u32,
}

/// A bucket without chunks.
const EMPTY: Bucket = Bucket { chunk: u32::MAX, len: 0 };

#[derive(Debug, Default)]
struct Chunks {
    all: Vec<Chunk>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    next: u32,
    events: [u64; CHUNK],
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            tick: 0,
            open: Vec::new(),
            late: BinaryHeap::new(),
            buckets: vec![EMPTY; TURN].into_boxed_slice(),
            filled: [0; TURN / 64],
            later: BTreeMap::new(),
            chunks: Chunks::default(),
            len: 0,
        }
    }
}

impl Wheel {
    /// The number of events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. One whose time has passed is next.
    #[inline]
    pub fn push(&mut self, at: Time, what: u32) {
        self.len += 1;
        let at = at.as_nanos().max(self.tick << TICK_BITS);
        let tick = at >> TICK_BITS;
        if tick == self.tick {
            self.late.push(Reverse(event(at, what)));
        } else if tick >> TURN_BITS == self.tick >> TURN_BITS {
            self.drop_into(tick, event(at, what));
        } else {
            let turn = self.later.entry(tick >> TURN_BITS).or_insert(EMPTY);
            self.chunks.add(turn, event(at, what));
        }
    }

    /// The next events of the open bucket, for prefetching.
    pub fn ahead(&self, most: usize) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().rev().take(most).map(|event| *event as u32)
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        while self.open.is_empty() && self.late.is_empty() {
            self.open_next()?;
        }
        let late = self.late.peek().map(|Reverse(late)| *late);
        let next = match (self.open.last().copied(), late) {
            (Some(open), Some(late)) if late < open => self.take_late(late),
            (Some(open), _) => {
                self.open.pop();
                open
            }
            (None, late) => self.take_late(late?),
        };
        self.len -= 1;
        // Events hold only the low bits of the time; the open bucket has the others.
        let since = ((next >> 32) & ((1 << TICK_BITS) - 1)) + (self.tick << TICK_BITS);
        Some((Time::from_nanos(since), next as u32))
    }

    fn take_late(&mut self, late: u64) -> u64 {
        self.late.pop();
        late
    }

    #[inline]
    fn drop_into(&mut self, tick: u64, event: u64) {
        let place = tick as usize % TURN;
        self.filled[place / 64] |= 1 << (place % 64);
        self.chunks.add(&mut self.buckets[place], event);
    }

    /// Opens the next bucket that is not empty; `None` if there is none.
    #[cold]
    fn open_next(&mut self) -> Option<()> {
        let place = self.tick as usize % TURN;
        let Some(next) = self.next_filled(place) else { return self.begin_turn() };
        self.tick = self.tick - place as u64 + next as u64;
        self.filled[next / 64] &= !(1 << (next % 64));
        let mut bucket = mem::replace(&mut self.buckets[next], EMPTY);
        while let Some((events, len)) = self.chunks.take(&mut bucket) {
            self.open.extend_from_slice(&events[..len]);
        }
        self.open.sort_unstable_by_key(|event| Reverse(*event));
        Some(())
    }

    /// The first filled bucket from `place` on.
    fn next_filled(&self, place: usize) -> Option<usize> {
        let first = self.filled[place / 64] & (u64::MAX << (place % 64));
        let rest = self.filled[place / 64 + 1..].iter().copied();
        let mut words = std::iter::once(first).chain(rest).zip(place / 64..);
        let (word, index) = words.find(|(word, _)| *word != 0)?;
        Some(index * 64 + word.trailing_zeros() as usize)
    }

    /// Distributes the next turn over the buckets.
    fn begin_turn(&mut self) -> Option<()> {
        let (turn, mut bucket) = self.later.pop_first()?;
        self.tick = turn << TURN_BITS;
        // Chunk by chunk, so that each can be reused for the events of the next.
        while let Some((events, len)) = self.chunks.take(&mut bucket) {
            for event in &events[..len] {
                let tick = self.tick + ((event >> 32 >> TICK_BITS) & (TURN as u64 - 1));
                self.drop_into(tick, *event);
            }
        }
        Some(())
    }
}

/// The low 32 bits of the time in nanoseconds, which cover a turn, and what happens.
#[inline]
fn event(at: u64, what: u32) -> u64 {
    at << 32 | u64::from(what)
}

impl Chunks {
    #[inline]
    fn add(&mut self, bucket: &mut Bucket, event: u64) {
        if let Some(chunk) = self.all.get_mut(bucket.chunk as usize)
            && let Some(place) = chunk.events.get_mut(bucket.len as usize)
        {
            *place = event;
            bucket.len += 1;
            return;
        }
        self.begin(bucket, event);
    }

    #[cold]
    fn begin(&mut self, bucket: &mut Bucket, event: u64) {
        let next = bucket.chunk;
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Chunk { next, events: [0; CHUNK] });
            self.all.len() as u32 - 1
        });
        let chunk = &mut self.all[number as usize];
        chunk.next = next;
        chunk.events[0] = event;
        *bucket = Bucket { chunk: number, len: 1 };
    }

    /// Removes a chunk from a bucket: its events, and how many there are.
    fn take(&mut self, bucket: &mut Bucket) -> Option<([u64; CHUNK], usize)> {
        let Chunk { next, events } = *self.all.get(bucket.chunk as usize)?;
        self.free.push(bucket.chunk);
        let len = bucket.len as usize;
        *bucket = Bucket { chunk: next, len: CHUNK as u32 };
        Some((events, len))
    }
}
