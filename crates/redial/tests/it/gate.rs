//! The gate alone, with its clock as an argument.

use redial::http::server::ShedLayer;
use redial::http::server::shed::gate::{Arrival, Booking, Decision, Dequeued, Gate, Pass};
use redial_core::{Deadline, Span, Time, draw};

use crate::support::ms;

const MS: Span = Span::MILLISECOND;
const SECOND: Span = Span::SECOND;
const START: Time = Time::at(SECOND);
const FIRST: Arrival = Arrival { retry: false, deadline: Deadline::NONE };
const RETRY: Arrival = Arrival { retry: true, deadline: Deadline::NONE };

fn enter(gate: &mut Gate<u32>, now: Time) -> Pass {
    gate.enter(|| (now, false)).unwrap()
}

/// A limit of ten; each request takes 10 ms, and one arrives every `apart`.
fn busy(gate: &mut Gate<u32>, from: Time, requests: u64, apart: Span) -> Time {
    let mut running = std::collections::VecDeque::new();
    let finish = |gate: &mut Gate<u32>, (done, pass): (Time, Pass)| gate.finish(pass, || done);
    for n in 0..requests {
        let now = from + n * apart;
        while running.front().is_some_and(|(done, _)| *done <= now) {
            finish(gate, running.pop_front().unwrap());
        }
        running.push_back((now + 10 * MS, enter(gate, now)));
    }
    running.into_iter().for_each(|left| finish(gate, left));
    from + requests * apart
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.05
}

#[test]
fn spare_is_what_first_attempts_leave_of_the_capacity() {
    for (apart, spare) in [(2 * MS, 500.0), (5 * MS / 4, 200.0), (MS + Span::from_nanos(1), 100.0)]
    {
        let mut gate = ShedLayer::new(10).gate();
        busy(&mut gate, START, 5_000, apart);
        assert!(close(gate.capacity(), 1_000.0), "{gate:?}");
        assert!(close(gate.spare(), spare), "{apart}: {gate:?}");
    }
}

#[test]
fn retries_do_not_count_as_load() {
    let mut gate = ShedLayer::new(10).gate::<u32>();
    for n in 0..4_000 {
        let now = START + n * 2 * MS;
        let pass = gate.enter(|| (now, true)).unwrap();
        gate.finish(pass, || now + 10 * MS);
    }
    assert!(close(gate.spare(), 1_000.0), "{gate:?}");
}

#[test]
fn a_stall_of_any_length_does_not_distort_the_capacity() {
    for stall in [200 * MS, 10 * SECOND, 3_600 * SECOND] {
        let mut gate = ShedLayer::new(10).gate();
        let mut now = busy(&mut gate, START, 5_000, 2 * MS);
        let stuck = std::iter::from_fn(|| match gate.arrive(FIRST, now, || 0) {
            Decision::Enter(pass) => Some(pass),
            _ => None,
        });
        let stuck: Vec<_> = stuck.collect();
        assert_eq!(stuck.len(), 10);
        assert!(close(gate.capacity(), 1_000.0), "a stalled request is not measured");
        now += stall;
        stuck.into_iter().for_each(|pass| gate.finish(pass, || now));
        assert!((367.0..1_000.0).contains(&gate.capacity()), "{stall}: {gate:?}");
        while let Some(Dequeued::Start(_, pass)) = gate.next(now) {
            gate.finish(pass, || now + 10 * MS);
        }
        for n in 0..2_000 {
            let Decision::Enter(pass) = gate.arrive(FIRST, now + n * 2 * MS, || 0) else {
                panic!()
            };
            gate.finish(pass, || now + n * 2 * MS + 10 * MS);
        }
        assert!(close(gate.capacity(), 1_000.0), "{stall}: {gate:?}");
    }
}

/// Most requests take 1 ms and a few take long, at random or periodically. The mean of many measurements is compared
/// with the real mean: one measurement covers some hundred requests, of which few are long.
#[test]
fn capacity_is_right_when_few_requests_take_long() {
    for (rare, long, periodic) in
        [(100, 1_000, false), (100, 100, false), (50, 200, false), (64, 640, true), (32, 320, true)]
    {
        let mut gate = ShedLayer::new(10).gate::<u32>();
        let (mut now, mut held, mut seen) = (START, 0.0, 0.0);
        for n in 0..1_000_000_u64 {
            now += 3 * MS;
            let luck = if periodic { n } else { draw(1, n) };
            let taken = if luck % rare == 0 { long * MS } else { MS };
            let pass = enter(&mut gate, now);
            gate.finish(pass, || now + taken);
            if n >= 100_000 {
                (held, seen) = (held + 10.0 / gate.capacity(), seen + 1.0);
            }
        }
        let real = (rare - 1 + long) as f64 / rare as f64 / 1_000.0;
        let measured = held / seen;
        assert!(
            (real / 1.25..real * 1.25).contains(&measured),
            "1 in {rare} takes {long} ms: {measured:.4} s is measured, {real:.4} s is real"
        );
    }
}

#[test]
fn an_unlimited_horizon_does_not_delay_all_later_slots() {
    let layer = ShedLayer::new(1).queue(0).min_share(0.0).unwrap();
    let mut gate = layer.horizon(std::time::Duration::MAX).gate::<u32>();
    let pass = enter(&mut gate, Time::ZERO);
    // The assumed capacity is ten a second; twenty requests arrive in the first 20 ms.
    for n in 0..20 {
        assert!(matches!(gate.arrive(FIRST, Time::at(n * MS), || 0), Decision::Reject(_)));
    }
    gate.finish(pass, || Time::at(100 * MS));
    let hour = Time::at(3_600 * SECOND);
    let _running = enter(&mut gate, hour);
    let Decision::Reject(Booking::Slot(after)) = gate.arrive(RETRY, hour, || 0) else { panic!() };
    assert!(after < SECOND, "after an hour of silence: {after}");
}

#[test]
fn slots_are_spaced_and_end_at_the_horizon() {
    let layer = ShedLayer::new(10).queue(0).horizon(ms(1_000)).min_share(0.5).unwrap();
    let mut gate = layer.gate::<u32>();
    let now = busy(&mut gate, START, 5_000, MS + Span::from_nanos(1));
    let running: Vec<_> = std::iter::from_fn(|| gate.enter(|| (now, false))).collect();
    assert_eq!(running.len(), 10);
    let mut reject = |now| match gate.arrive(RETRY, now, || 0) {
        Decision::Reject(booking) => booking,
        decision => panic!("{decision:?}"),
    };
    let mut last = Span::ZERO;
    let booked = (0..1_000).map_while(|_| match reject(now) {
        Booking::Slot(after) => Some(after),
        Booking::Full(horizon) => {
            assert_eq!(horizon, SECOND);
            None
        }
    });
    let booked = booked.inspect(|after| {
        assert!(close((*after - last).ratio_to(2 * MS), 1.0), "{after} after {last}");
        last = *after;
    });
    let booked = booked.count();
    assert!(
        (490..=510).contains(&booked),
        "half of a thousand a second for a second, not {booked}"
    );
    assert!(matches!(reject(now + 10 * MS), Booking::Slot(_)), "time has made room");
    let Booking::Slot(after) = reject(now + 10 * SECOND) else { panic!("nothing is reserved") };
    assert!(after < 3 * MS);
}

#[test]
fn first_attempts_enter_before_retries_and_late_ones_never() {
    let mut gate = ShedLayer::new(1).queue(4).gate();
    let at = Time::from_nanos;
    let mut running = enter(&mut gate, at(0));
    let wait = |gate: &mut Gate<u32>, arrival, name| match gate.arrive(arrival, at(0), || name) {
        Decision::Wait(ticket, displaced) => (ticket, displaced.map(|(name, _)| name)),
        decision => panic!("{decision:?}"),
    };
    wait(&mut gate, RETRY, 1);
    wait(&mut gate, Arrival { deadline: at(5).into(), ..FIRST }, 2);
    let (gone, _) = wait(&mut gate, FIRST, 3);
    wait(&mut gate, RETRY, 4);
    assert!(matches!(gate.arrive(RETRY, at(0), || 5), Decision::Reject(Booking::Slot(_))));
    assert_eq!(wait(&mut gate, FIRST, 6).1, Some(4), "the newest retry makes room");
    assert_eq!((gate.leave(gone), gate.leave(gone)), (Some(3), None));
    let late = Arrival { deadline: at(9).into(), ..FIRST };
    assert!(matches!(gate.arrive(late, at(9), || 7), Decision::Late));
    wait(&mut gate, RETRY, 8);

    let mut order = Vec::new();
    for now in (5..9).map(at) {
        gate.finish(running, || now);
        loop {
            match gate.next(now).unwrap() {
                Dequeued::Late(name) => order.push((name, "late")),
                Dequeued::Start(name, pass) => {
                    order.push((name, "started"));
                    running = pass;
                    break;
                }
            }
        }
        assert!(gate.next(now).is_none(), "the limit is one");
        if gate.waiting() == 0 {
            break;
        }
    }
    assert_eq!(order, [(2, "late"), (6, "started"), (1, "started"), (8, "started")]);
    gate.finish(running, || at(9));
    assert_eq!((gate.in_flight(), gate.has_waiters()), (0, false));
}

#[test]
fn a_closed_gate_books_nothing() {
    let mut gate = ShedLayer::new(0).gate::<u32>();
    assert!(gate.enter(|| (Time::ZERO, false)).is_none());
    assert!(matches!(gate.arrive(FIRST, Time::ZERO, || 0), Decision::Reject(Booking::Full(_))));
}

#[test]
fn a_share_is_from_0_to_1() {
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = ShedLayer::new(1).min_share(share).unwrap_err().to_string();
        assert_eq!(error, format!("min_share is {share}, but must be from 0 to 1"));
    }
    assert!(ShedLayer::new(1).min_share(0.0).is_ok() && ShedLayer::new(1).min_share(1.0).is_ok());
}

/// A request that released its pass while its body was arriving. It arrived before the others.
#[test]
fn a_returning_request_enters_before_new_ones() {
    let mut gate = ShedLayer::new(1).queue(4).gate();
    let now = Time::ZERO;
    let released = enter(&mut gate, now);
    gate.finish(released, || now);
    let running = enter(&mut gate, now);
    let wait = |gate: &mut Gate<u32>, arrival, name| {
        assert!(matches!(gate.arrive(arrival, now, || name), Decision::Wait(_, None)));
    };
    wait(&mut gate, RETRY, 1);
    wait(&mut gate, FIRST, 2);
    assert!(matches!(gate.arrive_again(RETRY, now, || 3), Decision::Wait(_, None)));
    let Decision::Wait(gone, None) = gate.arrive_again(FIRST, now, || 4) else {
        panic!("{gate:?}")
    };
    assert!(
        matches!(gate.arrive_again(RETRY, now, || 5), Decision::Reject(_)),
        "the queue is full"
    );
    let Decision::Wait(_, Some((3, _))) = gate.arrive_again(FIRST, now, || 6) else {
        panic!("the newest retry makes room: {gate:?}")
    };
    assert_eq!(gate.leave(gone), Some(4));
    gate.finish(running, || now);
    let mut order = Vec::new();
    while let Some(Dequeued::Start(name, pass)) = gate.next(now) {
        order.push(name);
        gate.finish(pass, || now);
    }
    assert_eq!((order, gate.waiting()), (vec![6, 2, 1], 0));
}
