//! A server stalls for 200 ms; this measures the load of its clients afterwards, in virtual time.
//!
//! The gate and the calls are the real ones. A thousand clients think for an exponentially distributed time, make a
//! call, and think again. Ten requests at once of 10 ms each (exponential as well) are 1,000 requests a second. The
//! budget is off, so that only the server's rejections shape the load. The peak is the largest number of attempts that
//! arrive in 100 ms, in the 5 s after the stall, relative to the capacity in 100 ms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use redial::admit::budget::Budget;
use redial::decide::{Class, Failure, Outcome, Reach};
use redial::http::server::ShedLayer;
use redial::http::server::shed::gate::{Arrival, Booking, Decision, Dequeued, Gate, Pass};
use redial::schedule::{Hint, HintRule, TooLong};
use redial::{Policy, Stop};
use redial_core::admit::Guards;
use redial_core::{Call, Context, Deadline, Permit, Request, Span, Time, Verdict, draw};

use crate::support::ms;

const CLIENTS: usize = 1_000;
const PLACES: usize = 10;
/// In nanoseconds.
const SERVICE: f64 = 1e7;
/// Requests per nanosecond.
const CAPACITY: f64 = PLACES as f64 / SERVICE;
const PAUSE: std::ops::Range<Time> = at(3_000)..at(3_200);
const END: Time = at(8_200);
const BUCKET: Span = Span::from_millis(100);

const fn at(millis: u64) -> Time {
    Time::at(Span::from_millis(millis))
}

fn bucket(time: Time) -> usize {
    (time.since_zero() / BUCKET) as usize
}

/// The hint of a rejection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rejections {
    Slots,
    SlotsOfEverything,
    InOneSecond,
    /// The same, and clients that do not spread.
    InExactlyOneSecond,
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(usize),
    Done(usize),
}

struct Storm {
    rejections: Rejections,
    policy: Policy,
    guards: Guards,
    gate: Gate<usize>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    clients: Vec<Client>,
    think: f64,
    seed: u64,
    drawn: u64,
    now: Time,
    calls: u32,
    served: u32,
    buckets: Vec<u32>,
}

#[derive(Default)]
struct Client {
    call: Option<Call>,
    permit: Option<Permit>,
    pass: Option<Pass>,
}

impl Storm {
    fn new(rejections: Rejections, load: f64, seed: u64) -> Self {
        let spread = (rejections == Rejections::InExactlyOneSecond).then_some(0.0);
        let hint = HintRule::Honour { cap: Span::from_secs(10), too_long: TooLong::Stop, spread };
        let policy = Policy::draft()
            .budget(Budget::None)
            .attempts(20)
            .deadline(ms(10_000))
            .hint(hint)
            .build()
            .unwrap();
        let layer = ShedLayer::new(PLACES);
        let all = rejections == Rejections::SlotsOfEverything;
        let layer = if all { layer.min_share(1.0).unwrap() } else { layer };
        let mut storm = Self {
            rejections,
            guards: Guards::new(&policy, 1, 0),
            policy,
            gate: layer.gate(),
            events: BinaryHeap::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            think: CLIENTS as f64 / (load * CAPACITY) - SERVICE,
            seed,
            drawn: 0,
            now: Time::ZERO,
            calls: 0,
            served: 0,
            buckets: vec![0; bucket(END) + 1],
        };
        (0..CLIENTS).for_each(|client| storm.think(client));
        storm
    }

    fn random(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, self.drawn)
    }

    fn exponential(&mut self, mean: f64) -> Span {
        let unit = ((self.random() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Span::from_nanos_f64(-unit.ln() * mean)
    }

    fn at(&mut self, time: Time, event: Event) {
        let order = self.random();
        self.events.push(Reverse((time, order, event)));
    }

    fn think(&mut self, client: usize) {
        self.clients[client] = Client::default();
        let wake = self.now + self.exponential(self.think);
        if wake < END {
            self.at(wake, Event::Send(client));
        }
    }

    fn run(mut self) -> Self {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Send(client) => self.send(client),
                Event::Done(client) => self.done(client),
            }
        }
        self
    }

    fn engine<T>(&mut self, client: usize, step: impl FnOnce(&mut Call, &Context<'_>) -> T) -> T {
        let (policy, guards) = (&self.policy, &self.guards);
        let cx = Context { policy, guards, observer: None, request: Request::default() };
        let start = || Call::new(policy, self.now, Deadline::NONE);
        step(self.clients[client].call.get_or_insert_with(start), &cx)
    }

    fn send(&mut self, client: usize) {
        let now = self.now;
        let Ok(permit) = self.engine(client, |call, cx| call.admit(cx, now)) else {
            return self.think(client);
        };
        let retry = permit.number > 1;
        self.clients[client].permit = Some(permit);
        self.calls += u32::from(!retry);
        if let Some(bucket) = self.buckets.get_mut(bucket(now)) {
            *bucket += 1;
        }
        if let Some(pass) = self.gate.enter(|| (now, retry)) {
            return self.start(client, pass);
        }
        let arrival = Arrival { retry, deadline: Deadline::NONE };
        match self.gate.arrive(arrival, now, || client) {
            Decision::Enter(pass) => self.start(client, pass),
            Decision::Wait(_, None) => {}
            Decision::Wait(_, Some((displaced, booking))) => self.reject(displaced, booking),
            Decision::Reject(booking) => self.reject(client, booking),
            Decision::Late => unreachable!("no request has a deadline here"),
        }
    }

    /// No request makes progress while the server stalls.
    fn start(&mut self, client: usize, pass: Pass) {
        self.clients[client].pass = Some(pass);
        let started = if PAUSE.contains(&self.now) { PAUSE.end } else { self.now };
        let done = started + self.exponential(SERVICE);
        let done = if started < PAUSE.start && done >= PAUSE.start {
            done + (PAUSE.end - PAUSE.start)
        } else {
            done
        };
        self.at(done, Event::Done(client));
    }

    fn done(&mut self, client: usize) {
        let now = self.now;
        let permit = self.clients[client].permit.take().unwrap();
        let pass = self.clients[client].pass.take().unwrap();
        let settle = |call: &mut Call, cx: &Context<'_>| {
            call.settle(cx, permit, &Outcome::Success, now, || 0)
        };
        assert_eq!(self.engine(client, settle), Verdict::Done);
        self.served += 1;
        self.think(client);
        self.gate.finish(pass, || now);
        while let Some(turn) = self.gate.next(now) {
            let Dequeued::Start(client, pass) = turn else {
                unreachable!("no request has a deadline here")
            };
            self.start(client, pass);
        }
    }

    fn reject(&mut self, client: usize, booking: Booking) {
        let mut failure = Failure::new(Class::Overloaded).reach(Reach::Refused);
        failure.stop = matches!(booking, Booking::Full(_));
        failure.hint = match (self.rejections, booking) {
            (Rejections::Slots | Rejections::SlotsOfEverything, Booking::Slot(after)) => {
                Some(Hint::Slot(after.round_up(Span::MILLISECOND).into()))
            }
            (Rejections::InOneSecond | Rejections::InExactlyOneSecond, _) => {
                Some(Hint::AtLeast(Duration::from_secs(1)))
            }
            _ => None,
        };
        failure.stop &=
            matches!(self.rejections, Rejections::Slots | Rejections::SlotsOfEverything);
        let (now, seed) = (self.now, draw(!self.seed, client as u64 ^ self.now.as_nanos()));
        let permit = self.clients[client].permit.take().unwrap();
        let settle = |call: &mut Call, cx: &Context<'_>| {
            call.settle(cx, permit, &failure.into(), now, || seed)
        };
        match self.engine(client, settle) {
            Verdict::Wait(until) => self.at(until, Event::Send(client)),
            Verdict::Stop(Stop::Attempts | Stop::Deadline | Stop::ToldToStop) => self.think(client),
            verdict => unreachable!("{verdict:?}"),
        }
    }

    /// Attempts in the busiest 100 ms after the stall, relative to the capacity.
    fn peak(&self) -> f64 {
        let after = bucket(PAUSE.end)..bucket(END);
        let most = self.buckets[after].iter().max().unwrap();
        f64::from(*most) / (CAPACITY * BUCKET.as_nanos_f64())
    }

    fn served(&self) -> f64 {
        f64::from(self.served) / f64::from(self.calls)
    }
}

/// The share of calls served and the peak, as means over 20 runs.
fn mean(rejections: Rejections, load: f64) -> (f64, f64) {
    let runs: Vec<_> = (1..=20).map(|seed| Storm::new(rejections, load, seed).run()).collect();
    let mean = |of: fn(&Storm) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    (mean(Storm::served), mean(Storm::peak))
}

#[test]
#[allow(clippy::print_stdout, reason = "the table is for `--nocapture`")]
fn slots_of_the_spare_capacity_flatten_the_recovery() {
    let mut table = String::from("rejections            load   served   peak\n");
    let mut peaks = |rejections: Rejections| {
        [0.5, 0.8].map(|load| {
            let (served, peak) = mean(rejections, load);
            table += &format!(
                "{:<20}  {load:<5}  {:>5.1}%   {peak:.2}\n",
                format!("{rejections:?}"),
                served * 100.0
            );
            (served, peak)
        })
    };
    let slots = peaks(Rejections::Slots);
    let all = peaks(Rejections::SlotsOfEverything);
    let fixed = peaks(Rejections::InOneSecond);
    let literal = peaks(Rejections::InExactlyOneSecond);
    let nothing = peaks(Rejections::Nothing);
    println!("{table}");
    for (served, peak) in slots.into_iter().chain(fixed) {
        assert!(served >= 0.99 && peak <= 1.2, "{table}");
    }
    assert!(all[1].1 > slots[1].1 + 0.3, "{table}");
    assert!(literal[1].1 > slots[1].1 + 0.1, "{table}");
    assert!(nothing[1].1 > slots[1].1 + 0.1, "{table}");
}
