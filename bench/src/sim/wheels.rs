//! The cost of an empty simulator: a timing wheel from which an event is removed and its next one added.

use std::collections::BTreeMap;
use std::time::Instant;

use redial_core::{Span, Time};
use redial_sim::{Stream, Wheel};

use super::Speed;

const TURN: u64 = 4096;
/// Events return after at most this long, uniformly distributed. Our callers think as long.
const MAX_DELAY: Span = Span::from_secs(4);

/// A plain wheel: buckets of a millisecond, sorted when they are opened, and later turns separately.
struct Bare {
    tick: u64,
    /// The rest of the open bucket, the next event last.
    open: Vec<(Time, u32)>,
    buckets: Vec<Vec<(Time, u32)>>,
    later: BTreeMap<u64, Vec<(Time, u32)>>,
}

impl Bare {
    fn new() -> Self {
        let buckets = vec![Vec::new(); TURN as usize];
        Self { tick: 0, open: Vec::new(), buckets, later: BTreeMap::new() }
    }

    #[inline]
    fn push(&mut self, at: Time, what: u32) {
        let tick = tick_of(at);
        if tick <= self.tick {
            let place = self.open.partition_point(|event| *event > (at, what));
            self.open.insert(place, (at, what));
        } else if tick / TURN == self.tick / TURN {
            self.buckets[(tick % TURN) as usize].push((at, what));
        } else {
            self.later.entry(tick / TURN).or_default().push((at, what));
        }
    }

    /// There is always a next event here.
    #[inline]
    fn pop(&mut self) -> Option<(Time, u32)> {
        while self.open.is_empty() {
            self.tick += 1;
            if self.tick.is_multiple_of(TURN) {
                for (at, what) in self.later.remove(&(self.tick / TURN)).unwrap_or_default() {
                    self.buckets[(tick_of(at) % TURN) as usize].push((at, what));
                }
            }
            std::mem::swap(&mut self.open, &mut self.buckets[(self.tick % TURN) as usize]);
            self.open.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.open.pop()
    }
}

fn tick_of(at: Time) -> u64 {
    at.since_zero().as_millis()
}

/// The plain wheel.
pub(super) fn bare(waiting: u32, events: u64) -> Speed {
    let mut wheel = Bare::new();
    turn(waiting, events, &mut wheel, Bare::push, Bare::pop)
}

/// The simulator's wheel.
pub(super) fn ours(waiting: u32, events: u64) -> Speed {
    turn(waiting, events, &mut Wheel::default(), Wheel::push, Wheel::pop)
}

/// A constant number of waiting events, of which this many happen.
#[inline]
fn turn<W>(
    waiting: u32,
    events: u64,
    wheel: &mut W,
    push: impl Fn(&mut W, Time, u32),
    pop: impl Fn(&mut W) -> Option<(Time, u32)>,
) -> Speed {
    let began = Instant::now();
    let mut stream = Stream::new(1);
    let mut delay = || stream.span_between(Span::ZERO, MAX_DELAY);
    (0..waiting).for_each(|what| push(wheel, Time::at(delay()), what));
    for _ in 0..events {
        let Some((now, what)) = pop(wheel) else { break };
        push(wheel, now + delay(), what);
    }
    Speed { events, wall_s: began.elapsed().as_secs_f64() }
}
