//! A sans-IO retry engine: decide, schedule, admit.
//!
//! A retry answers three questions. Each is a module here, in the order in which a call meets them:
//!
//! 1. Is the outcome transient, and is it safe to repeat? ([`decide`])
//! 2. When is the next attempt? ([`schedule`])
//! 3. Is there budget for it? ([`admit`])
//!
//! [`Call`] is the state machine that asks them. It reads a [`Policy`] and the
//! [`Guards`](admit::Guards) that calls share.
//!
//! The engine does not read a clock, draw entropy, sleep or allocate per call: time and randomness are
//! arguments. A runner does the rest; the crate `redial` has one for async and one for blocking code.
//! A whole call by hand:
//!
//! ```
//! use redial_core::admit::Guards;
//! use redial_core::decide::{Class, Failure, Outcome, Safety};
//! use redial_core::{Call, Context, Deadline, Policy, Request, Span, Time, Verdict};
//!
//! let policy = Policy::standard();
//! let guards = Guards::new(&policy, 1, 0);
//! let request = Request { safety: Safety::Idempotent, ..Request::default() };
//! let cx = Context { policy: &policy, guards: &guards, observer: None, request };
//!
//! let mut now = Time::ZERO; // any fixed point
//! let mut call = Call::new(&policy, now, Deadline::NONE);
//!
//! let first = call.admit(&cx, now).unwrap();
//! now += Span::from_millis(30); // the connection was reset
//! let outcome = Outcome::Failure(Failure::new(Class::Reset));
//! let Verdict::Wait(until) = call.settle(&cx, first, &outcome, now, || 42) else { panic!() };
//!
//! let second = call.admit(&cx, until).unwrap();
//! assert_eq!(second.number, 2);
//! assert_eq!(call.settle(&cx, second, &Outcome::Success, until, || 42), Verdict::Done);
//! ```
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

// In the order in which a call meets them:
mod call;

mod context;

mod event;

mod policy;

pub mod decide;

pub mod schedule;

pub mod admit;

pub mod fleet;

// What all of them need:
mod cell;
mod invalid;
mod random;
mod stop;
mod sync;
#[cfg(feature = "serde")]
mod text;
mod time;
mod units;

// What the totals of many calls tell:
pub mod storm;

pub use call::{Call, NoHedge, Permit, Progress, Resting, Suspended, Turn, Verdict};
pub use context::{Context, Request};
pub use event::{CallInfo, Event, Observer};
pub use invalid::Invalid;
pub use policy::{Draft, Policy, Preset, WorstCase};
pub use random::draw;
pub use stop::Stop;
pub use time::{Deadline, Span, Time, TimeLimit};
pub use units::{LONGEST_DURATION, Rate, Unreadable};
