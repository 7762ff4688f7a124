use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use redial_sim::{Stream, Wheel};

const TURN: u64 = 1 << 32;

proptest! {
    /// The same order as a heap, for any sequence of operations.
    #[test]
    fn events_come_in_the_order_of_their_time(
        steps in prop::collection::vec((0_u64..3 * TURN, any::<u32>(), 0_usize..4), 1..300),
    ) {
        let (mut wheel, mut heap, mut now) = (Wheel::default(), BinaryHeap::new(), 0);
        for (after, what, pops) in steps {
            // Most waits are short.
            let at = now + (after >> (what % 40));
            wheel.push(at, what);
            heap.push(Reverse((at, what)));
            for _ in 0..pops {
                let next = wheel.pop();
                prop_assert_eq!(next, heap.pop().map(|Reverse(next)| next));
                now = next.map_or(now, |(at, _)| at);
            }
            prop_assert_eq!(wheel.len(), heap.len());
        }
        while let Some(Reverse(next)) = heap.pop() {
            prop_assert_eq!(wheel.pop(), Some(next));
        }
        prop_assert!(wheel.is_empty() && wheel.pop().is_none());
    }
}

#[test]
fn an_event_in_the_past_is_next() {
    let mut wheel = Wheel::default();
    wheel.push(10_000_000, 1);
    wheel.push(20_000_000, 2);
    assert_eq!(wheel.pop(), Some((10_000_000, 1)));
    wheel.push(5, 3);
    let (at, what) = wheel.pop().unwrap();
    assert!(what == 3 && at < 20_000_000, "in the open bucket");
}

#[test]
fn a_far_event_is_found_without_visiting_every_bucket() {
    let mut wheel = Wheel::default();
    wheel.push(366 * 86_400 * 1_000_000_000, 7);
    assert_eq!(wheel.pop(), Some((366 * 86_400 * 1_000_000_000, 7)));
}

#[test]
fn memory_is_used_again() {
    let (mut wheel, mut stream, mut now) = (Wheel::default(), Stream::new(3), 0);
    for caller in 0..1_000 {
        wheel.push(stream.bits() >> 34, caller);
    }
    for _ in 0..1_000_000 {
        let (at, caller) = wheel.pop().unwrap();
        assert!(at >= now);
        now = at;
        wheel.push(at + (stream.bits() >> 34), caller);
    }
    assert_eq!(wheel.len(), 1_000);
}
