use alloc::vec::Vec;
use core::num::NonZeroU16;

use crate::schedule::Hint;

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded: the call is over.
    Success,
    /// It succeeded, and the answer is "not yet": poll again on the schedule. Polling is not retrying, so
    /// neither budget nor breaker is charged.
    NotYet(Option<Hint>),
    /// It failed.
    Failure(Failure),
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// No connection could be made.
    Connect,
    /// The server, or a proxy in front of it, rejected the request without processing it.
    Refused,
    /// The connection broke.
    Reset,
    /// No answer in time.
    Timeout,
    /// The server limits this client (429).
    Throttled,
    /// The server is overloaded (503).
    Overloaded,
    /// The server failed (500, 502, 504).
    ServerError,
    /// Declared transient by the application, without further detail. It is repeated whatever the policy
    /// lists.
    Transient,
    /// Repeating it cannot help.
    Permanent,
    /// The result is no longer needed; or, with a code, a server says so (gRPC's CANCELLED).
    Cancelled,
}

/// What an attempt says about the health of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The server processed the request.
    Good,
    /// The server failed.
    Bad,
    /// The attempt says nothing about the server.
    Unknown,
}

impl Class {
    const NAMES: [(Self, &'static str); 10] = [
        (Self::Connect, "connect"),
        (Self::Refused, "refused"),
        (Self::Reset, "reset"),
        (Self::Timeout, "timeout"),
        (Self::Throttled, "throttled"),
        (Self::Overloaded, "overloaded"),
        (Self::ServerError, "server-error"),
        (Self::Transient, "transient"),
        (Self::Permanent, "permanent"),
        (Self::Cancelled, "cancelled"),
    ];

    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        Self::NAMES.into_iter().map(|(class, _)| class)
    }

    /// The name in policy files, events and metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The class with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(class, _)| class)
    }

    /// How a breaker counts it. Throttling is not a health failure.
    pub fn health(self) -> Health {
        match self {
            Self::Connect | Self::Reset | Self::Timeout | Self::Overloaded | Self::ServerError => {
                Health::Bad
            }
            Self::Transient => Health::Bad,
            Self::Permanent => Health::Good,
            Self::Refused | Self::Throttled | Self::Cancelled => Health::Unknown,
        }
    }

    /// Whether the server accepted the request, which is what the adaptive throttle counts; `None` if the
    /// attempt was cancelled before that was known.
    pub(crate) fn accepted(self) -> Option<bool> {
        (self != Self::Cancelled).then_some(matches!(self, Self::ServerError | Self::Permanent))
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How far the request can have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Nothing was sent.
    NotSent,
    /// It arrived, and was rejected unprocessed.
    Refused,
    /// Unknown: it may have been processed.
    Unknown,
}

/// A failed attempt, as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub class: Class,
    /// Whether it can have reached the server.
    pub reach: Reach,
    /// A code from the classifier, such as the HTTP status.
    pub code: Option<NonZeroU16>,
    /// When the server wants the next attempt.
    pub hint: Option<Hint>,
    /// A layer below asked not to retry: the call ends.
    pub stop: bool,
}

impl Failure {
    /// A failure of this class, with the reach that the class implies: a failed connect was not sent; a
    /// refused or throttled request was not processed; any other one may have been.
    pub const fn new(class: Class) -> Self {
        let reach = match class {
            Class::Connect => Reach::NotSent,
            Class::Refused | Class::Throttled => Reach::Refused,
            _ => Reach::Unknown,
        };
        Self { class, reach, code: None, hint: None, stop: false }
    }

    /// Overrides the reach that the class implies.
    pub const fn reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// Sets the code, such as the HTTP status; 0, which means success everywhere, removes it.
    pub const fn code(self, code: u16) -> Self {
        Self { code: NonZeroU16::new(code), ..self }
    }

    /// Sets the server's hint.
    pub const fn hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Marks that a layer below asked not to retry.
    pub const fn told_to_stop(self) -> Self {
        Self { stop: true, ..self }
    }
}

impl Outcome {
    /// The server's hint, if it gave one.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Success => None,
            Self::NotYet(hint) => *hint,
            Self::Failure(failure) => failure.hint,
        }
    }

    /// Replaces the hint. A success has none.
    pub fn with_hint(self, hint: Hint) -> Self {
        match self {
            Self::Success => Self::Success,
            Self::NotYet(_) => Self::NotYet(Some(hint)),
            Self::Failure(failure) => failure.hint(hint).into(),
        }
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The failures that a policy repeats: classes and codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    classes: u16,
    codes: Vec<u16>,
}

impl RetryOn {
    /// An empty list.
    pub const fn nothing() -> Self {
        Self { classes: 0, codes: Vec::new() }
    }

    /// Every transient failure: all classes except permanent and cancelled.
    pub const fn transient() -> Self {
        Self { classes: Class::Permanent.bit() - 1, codes: Vec::new() }
    }

    /// Adds a class. Permanent failures and cancelled calls are never repeated for their class, so adding
    /// those has no effect; if a server answered with a code, that can be listed.
    pub fn class(mut self, class: Class) -> Self {
        self.classes |= class.bit() & Self::transient().classes;
        self
    }

    /// Adds a code, whatever the class.
    pub fn code(mut self, code: u16) -> Self {
        if let Err(place) = self.codes.binary_search(&code) {
            self.codes.insert(place, code);
        }
        self
    }

    /// Whether this failure is repeated.
    pub fn contains(&self, failure: &Failure) -> bool {
        self.has(failure.class)
            || failure.class == Class::Transient
            || failure.code.is_some_and(|code| self.codes.binary_search(&code.get()).is_ok())
    }

    /// Whether this class is listed.
    pub fn has(&self, class: Class) -> bool {
        self.classes & class.bit() != 0
    }

    /// The listed classes.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        Class::NAMES.into_iter().map(|(class, _)| class).filter(|class| self.has(*class))
    }

    /// The listed codes, ascending.
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }
}
