use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use redial_core::{Span, Time};
use redial_sim::{Stream, Wheel};

const TURN: u64 = 1 << 32;

proptest! {
    /// The same order as a heap, for any sequence of operations.
    #[test]
    fn events_come_in_the_order_of_their_time(
        steps in prop::collection::vec((0_u64..3 * TURN, any::<u32>(), 0_usize..4), 1..300),
    ) {
        let (mut wheel, mut heap, mut now) = (Wheel::default(), BinaryHeap::new(), Time::ZERO);
        for (after, what, pops) in steps {
            // Most waits are short.
            let at = now + Span::from_nanos(after >> (what % 40));
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
    let at = |ms| Time::at(Span::from_millis(ms));
    wheel.push(at(10), 1);
    wheel.push(at(20), 2);
    assert_eq!(wheel.pop(), Some((at(10), 1)));
    wheel.push(Time::from_nanos(5), 3);
    let (found, what) = wheel.pop().unwrap();
    assert!(what == 3 && found < at(20), "in the open bucket");
}

#[test]
fn a_far_event_is_found_without_visiting_every_bucket() {
    let mut wheel = Wheel::default();
    let far = Time::at(Span::from_secs(366 * 86_400));
    wheel.push(far, 7);
    assert_eq!(wheel.pop(), Some((far, 7)));
}

#[test]
fn memory_is_used_again() {
    let (mut wheel, mut stream, mut now) = (Wheel::default(), Stream::new(3), Time::ZERO);
    let mut wait = || Span::from_nanos(stream.bits() >> 34);
    for caller in 0..1_000 {
        wheel.push(Time::at(wait()), caller);
    }
    for _ in 0..1_000_000 {
        let (at, caller) = wheel.pop().unwrap();
        assert!(at >= now);
        now = at;
        wheel.push(at + wait(), caller);
    }
    assert_eq!(wheel.len(), 1_000);
}
