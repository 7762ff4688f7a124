use std::fmt;

use redis::{ErrorKind, RedisError};

use crate::link::was_too_long;

/// The longest server message that is kept.
const MOST_TEXT: usize = 200;
/// Error codes of Redis that may also appear within the error of a script.
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

/// Why a ledger did not answer. Retries are then paid for with what this instance has earned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerError {
    /// The connection could not be made, or it broke.
    Unreachable {
        /// The error of the operating system.
        text: String,
    },
    /// Redis did not answer in time, or the connection was not made in time.
    Timeout,
    /// Redis rejected the command.
    Refused {
        /// The error code: `READONLY`, `OOM`, `WRONGTYPE`, `NOAUTH`, `WRONGPASS`, `MOVED` …
        code: String,
        /// The error message.
        text: String,
    },
    /// The server is not Redis, or the key is not a ledger.
    Garbage {
        /// What is wrong with the reply.
        text: String,
    },
}

impl LedgerError {
    /// The name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout => "timeout",
            Self::Refused { .. } => "refused",
            Self::Garbage { .. } => "garbage",
        }
    }

    /// Whether it concerns one key only, so that other ledgers of the same Redis may work.
    pub(super) fn is_of_one_key(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if matches!(&**code, "WRONGTYPE" | "NOPERM" | "MOVED" | "ASK"))
    }

    /// Whether a new connection may help.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout | Self::Garbage { .. } => true,
            Self::Refused { code, .. } => {
                matches!(&**code, "READONLY" | "NOAUTH" | "MASTERDOWN" | "LOADING")
            }
        }
    }

    /// Whether it is of the same kind as another, whatever the message is.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let code = |error: &Self| match error {
            Self::Refused { code, .. } => Some(code.clone()),
            _ => None,
        };
        self.name() == other.name() && code(self) == code(other)
    }

    pub(super) fn garbage(text: &str) -> Self {
        Self::Garbage { text: text.to_owned() }
    }
}

impl From<RedisError> for LedgerError {
    fn from(error: RedisError) -> Self {
        let whole = error.to_string();
        let message = error.code().and_then(|_| error.detail()).unwrap_or(&whole);
        let text: String = message.chars().filter(|it| !it.is_control()).take(MOST_TEXT).collect();
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
            // The library reports this for a password that it could not use.
            ErrorKind::AuthenticationFailed => {
                let code = code_in(&whole).unwrap_or("WRONGPASS").to_owned();
                Self::Refused { code, text }
            }
            _ => match error.code() {
                Some(code) => {
                    // An older Redis wraps the error of a script.
                    let code = if code == "ERR" { code_in(&whole).unwrap_or(code) } else { code };
                    Self::Refused { code: code.to_owned(), text }
                }
                None => Self::Unreachable { text },
            },
        }
    }
}

fn code_in(text: &str) -> Option<&'static str> {
    CODES.into_iter().find(|code| text.contains(code))
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { text } => write!(f, "Redis cannot be reached: {text}"),
            Self::Timeout => f.write_str("Redis does not answer in time"),
            Self::Refused { code, text } => write!(f, "Redis refuses with {code}: {text}"),
            Self::Garbage { text } => write!(f, "invalid reply from the ledger: {text}"),
        }
    }
}

impl std::error::Error for LedgerError {}
