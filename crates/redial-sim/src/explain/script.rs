//! A script of outcomes, as text: `503,timeout,200; UNAVAILABLE@pushback=40ms,OK`.

use std::fmt;
use std::str::FromStr;

use redial_core::Span;
use redial_core::decide::{Class, Failure, GRPC_STATUSES, Outcome, RetryOn};
use redial_core::schedule::Hint;

/// The outcomes of some calls: outcomes are separated by `,` and calls by `;`. The last outcome of a call repeats.
///
/// An outcome is an HTTP status, the name of a failure class, a gRPC code by name or as `grpc:14`, or `not-yet`. A
/// hint may follow: `@retry-after=7` (seconds, or a duration), `@slot=250ms` or `@pushback=40ms`.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// None of them is empty.
    pub(super) calls: Vec<Vec<Answer>>,
}

/// The outcome of one attempt.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// As written.
    pub(super) text: String,
    pub(super) outcome: Outcome,
    /// Whether it takes all the time that the attempt has.
    pub(super) times_out: bool,
}

/// Why a text is not a [`Script`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// There is nothing between two separators.
    Missing(String),
    /// Not an outcome.
    Outcome(String),
    /// The text after the `@` is not a hint.
    Hint(String),
    /// A success with a hint.
    HintOfSuccess(String),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(call) => write!(f, "an outcome is missing in `{call}`"),
            Self::Outcome(token) => {
                let classes: Vec<_> = classes().map(Class::name).collect();
                write!(
                    f,
                    "`{token}` is not an outcome: write an HTTP status from 100 to 599, a gRPC code such as \
                     UNAVAILABLE or grpc:14, not-yet, or one of {}",
                    classes.join(", ")
                )
            }
            Self::Hint(token) => write!(
                f,
                "`{token}` has an invalid hint: write @retry-after=7 (seconds, or a duration \
                 such as 250ms), @slot=250ms or @pushback=40ms"
            ),
            Self::HintOfSuccess(token) => {
                write!(f, "`{token}` is a success, and a success cannot have a hint")
            }
        }
    }
}

impl std::error::Error for ScriptError {}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let call = |call: &str| {
            let missing = || ScriptError::Missing(call.trim().to_owned());
            let tokens = call.split(',').map(str::trim);
            tokens
                .map(|token| if token.is_empty() { Err(missing()) } else { answer(token) })
                .collect()
        };
        Ok(Self { calls: text.split(';').map(call).collect::<Result<_, _>>()? })
    }
}

fn answer(token: &str) -> Result<Answer, ScriptError> {
    let (name, written) = match token.split_once('@') {
        Some((name, hint)) => (name.trim_end(), Some(hint)),
        None => (token, None),
    };
    let hint = written.map(|text| hint(text).ok_or_else(|| ScriptError::Hint(token.to_owned())));
    let hint = hint.transpose()?;
    let outcome = outcome(name, hint.is_some());
    let outcome = outcome.ok_or_else(|| ScriptError::Outcome(token.to_owned()))?;
    let outcome = match hint {
        Some(_) if outcome == Outcome::Success => {
            return Err(ScriptError::HintOfSuccess(token.to_owned()));
        }
        Some(hint) => outcome.with_hint(hint),
        None => outcome,
    };
    let times_out = name == Class::Timeout.name();
    Ok(Answer { text: token.to_owned(), outcome, times_out })
}

fn outcome(name: &str, hinted: bool) -> Option<Outcome> {
    if name == "not-yet" {
        return Some(Outcome::NotYet(None));
    }
    if let Some(class) = Class::from_name(name) {
        return Some(Failure::new(class).into());
    }
    let number = |text: &str| text.parse::<u16>().ok();
    if let Some(status) = number(name) {
        return (100..600).contains(&status).then(|| Outcome::of_status(status));
    }
    let code = match name.strip_prefix("grpc:") {
        Some(code) => number(code).filter(|code| usize::from(*code) < GRPC_STATUSES.len()),
        None => GRPC_STATUSES.iter().position(|known| *known == name).map(|code| code as u16),
    };
    code.map(|code| Outcome::of_grpc(code, hinted))
}

fn hint(text: &str) -> Option<Hint> {
    let (kind, after) = text.split_once('=')?;
    let span = || after.parse::<Span>().ok();
    Some(match kind.trim() {
        "retry-after" => Hint::AtLeast(seconds(after).or_else(span)?.into()),
        "slot" => Hint::Slot(span()?.into()),
        "pushback" => Hint::Pushback(span()?.into()),
        _ => return None,
    })
}

/// A number of seconds, as in the header: only digits (RFC 9110, 10.2.3).
fn seconds(text: &str) -> Option<Span> {
    let text = text.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(1_000_000_000).map(Span::from_nanos)
}

fn classes() -> impl Iterator<Item = Class> {
    let transient = RetryOn::transient();
    let named: Vec<_> = transient.classes().collect();
    named.into_iter().chain([Class::Permanent, Class::Cancelled])
}
