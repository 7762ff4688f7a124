use alloc::vec::Vec;

use crate::schedule::Hint;

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked: the call is over.
    Success,
    /// It worked, and the answer is "not yet": ask again on the schedule. This is polling, not
    /// retrying, so neither budget nor breaker is charged.
    NotYet(Option<Hint>),
    /// It failed.
    Failure(Failure),
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// No connection could be made.
    Connect,
    /// The server, or something before it, turned the request away before looking at it.
    Refused,
    /// The connection broke.
    Reset,
    /// No answer in time.
    Timeout,
    /// The server said that this client sends too much (429).
    Throttled,
    /// The server said that it has too much to do (503).
    Overloaded,
    /// The server failed (500, 502, 504).
    ServerError,
    /// The author says that it passes, and nothing else is known of it. That is enough: it is repeated
    /// whatever a policy lists.
    Transient,
    /// Repeating it cannot help.
    Permanent,
    /// Somebody no longer wants the answer.
    Cancelled,
}

/// What an attempt says about the health of the one who answered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It did its work.
    Good,
    /// It did not.
    Bad,
    /// This says nothing about it.
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

    /// What it tells a breaker. A throttling server is well: it says so itself.
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

    /// Whether the server took the request on, which is what the adaptive throttle counts; `None` when
    /// nobody waited to see.
    pub(crate) fn accepted(self) -> Option<bool> {
        (self != Self::Cancelled).then_some(matches!(self, Self::ServerError | Self::Permanent))
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How far the request can have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// No byte of it left.
    NotSent,
    /// It arrived, and was turned away unprocessed.
    Refused,
    /// Nobody can say: it may have been done.
    Unknown,
}

/// A failed attempt, as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub class: Class,
    /// Whether it can have reached the server.
    pub reach: Reach,
    /// The classifier's own number for it, such as the HTTP status; 0 when it has none.
    pub code: u16,
    /// When the server wants to hear from us again.
    pub hint: Option<Hint>,
    /// A layer below says that repeating is not wanted: the call ends.
    pub stop: bool,
}

impl Failure {
    /// A failure of this class, with the reach that the class implies: a failed connect was not sent,
    /// a refusal and a throttling answer were not processed, everything else may have been.
    pub const fn new(class: Class) -> Self {
        let reach = match class {
            Class::Connect => Reach::NotSent,
            Class::Refused | Class::Throttled => Reach::Refused,
            _ => Reach::Unknown,
        };
        Self { class, reach, code: 0, hint: None, stop: false }
    }

    /// With another reach than the class implies.
    pub const fn reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// With the classifier's own number, such as the HTTP status.
    pub const fn code(self, code: u16) -> Self {
        Self { code, ..self }
    }

    /// With the server's hint.
    pub const fn hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// With the stop signal of a layer below.
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

    /// The same with another hint. A success has none.
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

/// Which failures a policy repeats: classes, and codes by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    classes: u16,
    codes: Vec<u16>,
}

impl RetryOn {
    /// Nothing.
    pub const fn nothing() -> Self {
        Self { classes: 0, codes: Vec::new() }
    }

    /// Everything that can pass: all classes except permanent and cancelled.
    pub const fn transient() -> Self {
        Self { classes: Class::Permanent.bit() - 1, codes: Vec::new() }
    }

    /// This class too. Permanent failures and cancelled calls are not repeated for their class, so naming
    /// those changes nothing; a permanent failure can be listed by its code.
    pub fn class(mut self, class: Class) -> Self {
        self.classes |= class.bit() & Self::transient().classes;
        self
    }

    /// Failures with this code too, whatever their class.
    pub fn code(mut self, code: u16) -> Self {
        if let Err(place) = self.codes.binary_search(&code) {
            self.codes.insert(place, code);
        }
        self
    }

    /// Whether this failure is one of them.
    pub fn contains(&self, failure: &Failure) -> bool {
        self.has(failure.class)
            || failure.class == Class::Transient
            || (failure.code != 0 && self.codes.binary_search(&failure.code).is_ok())
    }

    /// Whether this class is named.
    pub fn has(&self, class: Class) -> bool {
        self.classes & class.bit() != 0
    }

    /// The classes that are named.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        Class::NAMES.into_iter().map(|(class, _)| class).filter(|class| self.has(*class))
    }

    /// The codes that are named, ascending.
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }
}
