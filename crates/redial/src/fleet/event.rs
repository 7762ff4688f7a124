use std::fmt;

use redial_core::fleet::Terms;
use redis::{ErrorKind, RedisError};

use crate::link::was_too_long;

/// The most of a server's own words that is kept.
const MOST_TEXT: usize = 200;
/// Words that Redis begins an error with, also within the error of a script.
const CODES: [&str; 9] = [
    "WRONGTYPE",
    "READONLY",
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "MISCONF",
    "CLUSTERDOWN",
    "MASTERDOWN",
];

/// Why a ledger did not answer. Retries are then paid for with what this instance has earned itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no connection to be had, or it broke.
    Unreachable {
        /// What the operating system says.
        text: String,
    },
    /// It takes too long to answer, or to connect.
    Timeout,
    /// Redis does not do what it is asked to.
    Refused {
        /// Its word for why: `READONLY`, `OOM`, `WRONGTYPE`, `NOAUTH`, `WRONGPASS`, `MOVED` …
        code: String,
        /// Its own explanation.
        text: String,
    },
    /// What answers is not Redis, or the key is not a ledger.
    Garbage {
        /// What is wrong with the answer.
        text: String,
    },
}

impl Trouble {
    /// One word for it, as the metrics have it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout => "timeout",
            Self::Refused { .. } => "refused",
            Self::Garbage { .. } => "garbage",
        }
    }

    /// Whether it is the key's own, and other ledgers of the same Redis may be well.
    pub(super) fn is_of_one_key(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if matches!(&**code, "WRONGTYPE" | "NOPERM" | "MOVED" | "ASK"))
    }

    /// Whether another connection may do better.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout | Self::Garbage { .. } => true,
            Self::Refused { code, .. } => {
                matches!(&**code, "READONLY" | "NOAUTH" | "MASTERDOWN" | "LOADING")
            }
        }
    }

    /// Whether it is the same as another, whatever the words are.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let code = |trouble: &Self| match trouble {
            Self::Refused { code, .. } => Some(code.clone()),
            _ => None,
        };
        self.name() == other.name() && code(self) == code(other)
    }

    pub(super) fn garbage(text: &str) -> Self {
        Self::Garbage { text: text.to_owned() }
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        let whole = error.to_string();
        let said = error.code().and_then(|_| error.detail()).unwrap_or(&whole);
        let text: String = said.chars().filter(|it| !it.is_control()).take(MOST_TEXT).collect();
        if error.is_timeout() {
            return Self::Timeout;
        }
        if was_too_long(&error) {
            return Self::Garbage { text };
        }
        match error.kind() {
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => {
                Self::Garbage { text }
            }
            // The library says so of a password that it could not use.
            ErrorKind::AuthenticationFailed => {
                let code = named(&whole).unwrap_or("WRONGPASS").to_owned();
                Self::Refused { code, text }
            }
            _ => match error.code() {
                Some(code) => {
                    // An older Redis wraps what went wrong within a script.
                    let code = if code == "ERR" { named(&whole).unwrap_or(code) } else { code };
                    Self::Refused { code: code.to_owned(), text }
                }
                None => Self::Unreachable { text },
            },
        }
    }
}

fn named(text: &str) -> Option<&'static str> {
    CODES.into_iter().find(|code| text.contains(code))
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { text } => write!(f, "Redis cannot be reached: {text}"),
            Self::Timeout => f.write_str("Redis does not answer in time"),
            Self::Refused { code, text } => write!(f, "Redis refuses with {code}: {text}"),
            Self::Garbage { text } => write!(f, "not an answer of a ledger: {text}"),
        }
    }
}

impl std::error::Error for Trouble {}

/// A change that the user of a fleet should know of: told once when it happens, not with every ask.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetEvent {
    /// The ledger answers, for the first time or again.
    Reached {
        /// Which one: the fleet's name, and the destination if it has its own.
        ledger: String,
        /// How many instances share it.
        members: u64,
    },
    /// The ledger does not answer any more, or not yet.
    Lost {
        /// Which one.
        ledger: String,
        /// Why.
        trouble: Trouble,
    },
    /// The ledger is another one than before: it was emptied, or restarted without its data.
    Anew {
        /// Which one.
        ledger: String,
    },
    /// Other instances configure the fleet more strictly, and that counts.
    Differs {
        /// Which one.
        ledger: String,
        /// What counts.
        terms: Terms,
    },
    /// What is configured here counts again.
    Agrees {
        /// Which one.
        ledger: String,
    },
}

impl FleetEvent {
    /// The name of the ledger that it is about.
    pub fn ledger(&self) -> &str {
        let (Self::Reached { ledger, .. }
        | Self::Lost { ledger, .. }
        | Self::Anew { ledger }
        | Self::Differs { ledger, .. }
        | Self::Agrees { ledger }) = self;
        ledger
    }
}

impl fmt::Display for FleetEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { ledger, members } => {
                write!(f, "fleet {ledger}: the ledger answers, {members} instances share it")
            }
            Self::Lost { ledger, trouble } => write!(f, "fleet {ledger}: {trouble}"),
            Self::Anew { ledger } => write!(f, "fleet {ledger}: the ledger has lost its data"),
            Self::Differs { ledger, terms } => {
                let Terms { ratio, floor, ttl } = *terms;
                let (ratio, floor) = (ratio as f64 / 1e6, floor as f64 / 1e6);
                let ttl = redial_core::DurationText(ttl);
                write!(
                    f,
                    "fleet {ledger}: another instance is stricter; what counts is ratio {ratio}, floor {floor}/s, ttl {ttl}"
                )
            }
            Self::Agrees { ledger } => write!(f, "fleet {ledger}: all instances agree again"),
        }
    }
}
