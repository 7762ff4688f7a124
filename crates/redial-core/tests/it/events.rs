//! Events beyond the steps of a plain call.

use std::num::NonZeroU64;
use std::sync::Mutex;

use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Call, CallInfo, Context, Deadline, Event, Observer, Request, Stop};

use crate::support::{Lab, Log, MS, fail, ms, policy};

#[test]
fn the_loser_of_a_hedge_ends_after_its_call() {
    let mut lab = Lab::new(policy(|p| p));
    let mut call = lab.start();
    let slow = call.admit(&lab.cx(), lab.now).unwrap();
    lab.now += 50 * MS;
    let quick = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
    lab.now += 10 * MS;
    call.settle(&lab.cx(), quick, &Outcome::Success, lab.now, || 0);
    call.abandon(&lab.cx(), slow, lab.now);
    assert_eq!(
        lab.events.take(),
        [
            Event::Attempt { number: 1, hedge: false },
            Event::Attempt { number: 2, hedge: true },
            Event::AttemptEnded { number: 2, taken: ms(10), outcome: Outcome::Success },
            Event::Succeeded { attempts: 2 },
            Event::AttemptEnded { number: 1, taken: ms(60), outcome: fail(Class::Cancelled) },
        ]
    );
}

#[test]
fn a_retry_after_a_race_is_not_a_hedge() {
    let mut lab = Lab::new(policy(|p| p));
    let mut call = lab.start();
    let first = call.admit(&lab.cx(), lab.now).unwrap();
    let beside = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
    for permit in [first, beside] {
        call.settle(&lab.cx(), permit, &Failure::new(Class::Timeout).into(), lab.now, || 0);
    }
    lab.now += 1_000 * MS;
    lab.events.take();
    let third = call.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(lab.events.take(), [Event::Attempt { number: 3, hedge: false }]);
    call.abandon(&lab.cx(), third, lab.now);
}

#[derive(Default)]
struct Keys(Mutex<Vec<CallInfo>>);

impl Observer for Keys {
    fn event(&self, _: &Event) {
        unreachable!("the engine passes the request");
    }

    fn call_event(&self, call: CallInfo, _: &Event) {
        self.0.lock().unwrap().push(call);
    }
}

#[test]
fn observers_receive_the_call_and_its_key() {
    let lab = Lab::new(policy(|p| p));
    let observers = (Keys::default(), Log::default());
    let request = Request { key: NonZeroU64::new(7), call: NonZeroU64::new(3), ..lab.request };
    let cx = Context { observer: Some(&observers), request, ..lab.cx() };
    let mut call = Call::new(&lab.policy, lab.now, Deadline::NONE);
    let permit = call.admit(&cx, lab.now).unwrap();
    call.settle(&cx, permit, &Outcome::Success, lab.now, || 0);
    assert_eq!(
        *observers.0.0.lock().unwrap(),
        [CallInfo { number: Some(3), cooldown_key: Some(7) }; 3]
    );
    assert_eq!(observers.1.take().len(), 3);
}

#[test]
fn stops_and_classes_are_listed_in_order() {
    for (place, stop) in Stop::ALL.into_iter().enumerate() {
        assert_eq!(stop as usize, place, "{stop:?}");
    }
    for (place, class) in Class::all().enumerate() {
        assert_eq!(class as usize, place, "{class:?}");
    }
}
