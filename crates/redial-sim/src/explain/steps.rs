//! Runs the calls of a script through the engine: admit, send, settle, repeat.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use redial_core::admit::{Guards, NotParked};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::HintRule;
use redial_core::{
    Call, Context, Deadline, Event, Observer, Policy, Request, Span, Stop, Time, Turn, Verdict,
};
use serde::Serialize;

use super::script::Answer;
use super::{Question, ms, seed_of};

/// One attempt and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Row")]
pub struct Step {
    /// The number of the call; 1 is the first.
    pub call: u32,
    /// The number of the attempt; 1 is the first.
    pub attempt: u32,
    /// The outcome, as written in the script; `None` when a guard refused the attempt.
    pub outcome: Option<String>,
    /// The engine's verdict.
    pub ruling: Ruling,
    /// How many retries the budget would grant after it; `None` when there is no budget.
    pub budget: Option<u64>,
    /// The time since its call began.
    pub elapsed: Span,
}

/// The verdict on an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The call succeeded.
    Done,
    /// Another attempt follows after this wait, for this reason.
    Wait(Span, String),
    /// The call is over.
    Stop(Stop, Parking),
}

/// Whether the call waited for evidence before it stopped, and why it did not, or no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parking {
    /// Whether it was parked after its last attempt.
    pub was_parked: bool,
    /// Why it was not parked, or no longer; `None` if that has not ended it.
    pub refused: Option<NotParked>,
}

impl Ruling {
    /// `done`, `wait` or `stop`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Wait(..) => "wait",
            Self::Stop(..) => "stop",
        }
    }

    /// The reason.
    pub fn reason(&self) -> Cow<'_, str> {
        match self {
            Self::Done => "success".into(),
            Self::Wait(_, reason) => reason.into(),
            Self::Stop(stop, Parking { was_parked, refused }) => {
                let stop = stop.name();
                match (refused, was_parked) {
                    (None, false) => stop.into(),
                    (None, true) => format!("{stop}, parked until then").into(),
                    (Some(why), false) => format!("{stop}, not parked: {}", why.name()).into(),
                    (Some(why), true) => format!("{stop}, no longer parked: {}", why.name()).into(),
                }
            }
        }
    }

    /// The wait before the next attempt, if there is one.
    pub fn delay(&self) -> Option<Span> {
        match self {
            Self::Wait(delay, _) => Some(*delay),
            Self::Done | Self::Stop(..) => None,
        }
    }
}

/// A policy may allow a million attempts; a call is cancelled after this many.
const MOST_ATTEMPTS: u32 = 1_000;

/// Makes the calls one after the other. All have the same key, so that a cool-down applies.
pub(super) fn run(policy: &Policy, question: &Question) -> Vec<Step> {
    let guards = Guards::new(policy, 1, 0);
    let (safety, why) = (question.safety, Why::default());
    let key = NonZeroU64::new(1);
    let request = Request { safety, key, park: u32::MAX, ..Request::default() };
    let cx = Context { policy, guards: &guards, observer: Some(&why), request };
    let (latency, steps) = (question.latency, Vec::new());
    let mut simulation = Simulation { cx, why: &why, latency, now: Time::ZERO, steps };
    for (number, answers) in (1..).zip(&question.script.calls) {
        simulation.call(number, answers, seed_of(question.seed, number));
    }
    simulation.steps
}

/// The last event that says why a call goes on or stops.
#[derive(Default)]
struct Why(Mutex<Option<Event>>);

impl Why {
    fn take(&self) -> Option<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for Why {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Released { .. } | Event::NotParked { .. }) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(*event);
        }
    }
}

struct Simulation<'a> {
    cx: Context<'a>,
    why: &'a Why,
    latency: Span,
    now: Time,
    steps: Vec<Step>,
}

impl Simulation<'_> {
    fn call(&mut self, number: u32, answers: &[Answer], seed: u64) {
        let (started, cx) = (self.now, self.cx);
        let mut call = Call::new(cx.policy, started, Deadline::NONE);
        let answers = answers.iter().chain(answers.last().into_iter().cycle());
        for (attempt, answer) in (1..).zip(answers) {
            if call.is_over() {
                break;
            }
            let (outcome, ruling) = if attempt > MOST_ATTEMPTS {
                call.cancel(&cx, self.now);
                (None, Ruling::Stop(Stop::Cancelled, Parking::default()))
            } else {
                self.attempt(&mut call, answer, seed)
            };
            let budget = cx.guards.balance(self.now);
            let elapsed = self.now - started;
            self.now += ruling.delay().unwrap_or_default();
            self.steps.push(Step { call: number, attempt, outcome, ruling, budget, elapsed });
        }
    }

    fn attempt(&mut self, call: &mut Call, answer: &Answer, seed: u64) -> (Option<String>, Ruling) {
        let permit = match call.admit(&self.cx, self.now) {
            Ok(permit) => permit,
            Err(_) if call.is_parked() => {
                let ruling = self.turn(call, self.now, "stalled");
                return (None, ruling);
            }
            Err(stop) => return (None, self.stopped(stop, false)),
        };
        let (outcome, text) = self.send(answer, permit.expires);
        let verdict = call.settle(&self.cx, permit, &outcome, self.now, || seed);
        let ruling = match verdict {
            Verdict::Wait(until) if call.is_parked() => {
                self.turn(call, until, &self.why_again(&outcome))
            }
            verdict => self.ruling(verdict, &outcome),
        };
        (Some(text), ruling)
    }

    /// A parked call waits for its turn. No other call is made meanwhile, so it is a probe, or there is none.
    fn turn(&mut self, call: &mut Call, mut until: Time, why: &str) -> Ruling {
        loop {
            match call.unpark(&self.cx, Waker::noop(), until) {
                Turn::Wait(later) => {
                    until = later
                        .time()
                        .unwrap_or_else(|| unreachable!("a call without a deadline does not park"));
                }
                Turn::Go => {
                    let is_probe =
                        matches!(self.why.take(), Some(Event::Released { probe: true, .. }));
                    let released = if is_probe { "a probe" } else { "a later success" };
                    return Ruling::Wait(
                        until - self.now,
                        format!("{why}, parked until {released}"),
                    );
                }
                Turn::Stop(stop) => {
                    self.now = until;
                    return self.stopped(stop, true);
                }
            }
        }
    }

    /// Advances the time by that of an attempt. An attempt that exceeds its timeout is cut off there, with that as
    /// its outcome.
    fn send(&mut self, answer: &Answer, expires: Deadline) -> (Outcome, String) {
        let answered = self.now + self.latency;
        let Some(expires) =
            expires.time().filter(|expires| answer.times_out || answered > *expires)
        else {
            self.now = answered;
            return (answer.outcome, answer.text.clone());
        };
        self.now = expires;
        if answer.times_out {
            return (answer.outcome, answer.text.clone());
        }
        let text = format!("timeout instead of {}", answer.text);
        (Failure::new(Class::Timeout).into(), text)
    }

    fn ruling(&self, verdict: Verdict, outcome: &Outcome) -> Ruling {
        match verdict {
            Verdict::Done => Ruling::Done,
            Verdict::Wait(until) => Ruling::Wait(until - self.now, self.why_again(outcome)),
            Verdict::InFlight => unreachable!("there is one attempt at a time"),
            Verdict::Stop(stop) => self.stopped(stop, false),
        }
    }

    fn stopped(&self, stop: Stop, was_parked: bool) -> Ruling {
        let refused = match self.why.take() {
            Some(Event::NotParked { reason }) => Some(reason),
            _ => None,
        };
        Ruling::Stop(stop, Parking { was_parked, refused })
    }

    fn why_again(&self, outcome: &Outcome) -> String {
        let what = match outcome {
            Outcome::Failure(failure) => failure.class.name(),
            Outcome::Success | Outcome::NotYet(_) => "not-yet",
        };
        let hint = match (outcome.hint(), self.cx.policy.hint_rule()) {
            (None, _) => "",
            (Some(_), HintRule::Honour { .. }) => ", hint honoured",
            (Some(_), HintRule::Ignore) => ", hint ignored",
        };
        format!("{what}{hint}")
    }
}

/// A step as a flat row of JSON.
#[derive(Serialize)]
struct Row {
    call: u32,
    attempt: u32,
    outcome: Option<String>,
    verdict: &'static str,
    reason: String,
    #[serde(serialize_with = "ms::maybe")]
    delay_ms: Option<Span>,
    budget: Option<u64>,
    #[serde(serialize_with = "ms::one")]
    elapsed_ms: Span,
}

impl From<Step> for Row {
    fn from(step: Step) -> Self {
        let Step { call, attempt, outcome, ruling, budget, elapsed } = step;
        let (verdict, reason) = (ruling.name(), ruling.reason().into_owned());
        let (delay_ms, elapsed_ms) = (ruling.delay(), elapsed);
        Self { call, attempt, outcome, verdict, reason, delay_ms, budget, elapsed_ms }
    }
}
