//! What the rest of the crate needs to know about a system. Each folder of `format` declares it in one `SYSTEM`, so that no
//! other file has to know what a system calls a field.

use std::fmt::Display;

use redial_core::Span;
use redial_core::admit::budget::Budget;
use redial_core::schedule::{Backoff, HintRule};

use super::Written;
use crate::file::{File, fields};
use crate::format::ConfigReading;
use crate::places::Places;
use crate::source::Problem;
use crate::tree::{Document, Language, Node};

/// Writes policies as a config of a system.
type Writer = fn(&File) -> Result<Written, Problem>;

/// A system, or our own policy files.
pub(crate) struct System {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The name in messages.
    pub(super) title: &'static str,
    /// Whether a document contains a config of this system.
    pub(super) recognises: fn(&Node) -> bool,
    /// Reads the configs of this system, and ignores all others.
    pub(super) read: fn(&[Document], &mut ConfigReading),
    /// Writes policies as a config of this system; `None`, if its configs are only read.
    pub(super) write: Option<Writer>,
    /// The language of a text, if the name of its file does not show it.
    pub(super) language: fn(&str) -> Option<Language>,
    pub(super) words: Words,
    /// Names of fields that no other field is nearly called, for a question about a misspelt one.
    pub(super) names: &'static [&'static str],
    /// Whether the last key of a path is the system's own: documents also have keys of other programs, and names that
    /// users choose.
    pub(super) is_own: fn(&[&str]) -> bool,
    /// How the field at this path writes a duration.
    pub(super) duration: fn(&str, Span) -> String,
    /// Whether its number of attempts leaves out the first one.
    pub(super) counts_retries: bool,
    pub(crate) advice: Advice,
}

/// What a system calls the fields of a policy.
pub(crate) enum Words {
    /// By their paths: our own policy files.
    Paths,
    /// Pairs of a path and the system's own name. A field that is not listed cannot be configured there.
    Names(&'static [(&'static str, &'static str)]),
}

/// Advice that takes more than the name of a field and a value.
pub(crate) struct Advice {
    /// How to add jitter to waits that have none.
    pub(crate) add_jitter: Option<&'static str>,
    /// How to draw the whole wait at random.
    pub(crate) full_jitter: Option<&'static str>,
    /// How to honour `Retry-After`.
    pub(crate) honour_hints: Option<&'static str>,
    /// How to add a retry budget.
    pub(crate) add_budget: Option<&'static str>,
    /// How to make a single attempt, if the field for the number cannot say so.
    pub(crate) one_attempt: Option<&'static str>,
    /// What to add to the advice on attempts if there is no cap on them.
    pub(crate) uncapped_attempts: &'static str,
    /// What to add to the advice not to retry these statuses.
    pub(crate) client_errors: fn(&[u16]) -> &'static str,
    /// What to add to every finding in a config that leaves retries to the system's default. Such a finding is one
    /// severity lower.
    pub(crate) defaulted: fn(&Places) -> Option<&'static str>,
    /// The waits that `add_jitter` produces, and those that `full_jitter` does.
    pub(crate) with_jitter: fn(&Backoff) -> Option<Backoff>,
    pub(crate) with_full_jitter: fn(&Backoff) -> Option<Backoff>,
    /// The rule that `honour_hints` produces.
    pub(crate) honoured: fn() -> Option<HintRule>,
    /// The budget that `add_budget` produces.
    pub(crate) added_budget: fn() -> Option<Budget>,
    /// Whether a config of this kind lacks the field at this path, although another kind of the system has it.
    pub(crate) lacks: fn(&Places, &str) -> bool,
    /// Whether a config can name the requests that it is about, by their method or a key.
    pub(crate) names_requests: bool,
    /// What requests are called, if not by their methods.
    pub(crate) requests: Option<&'static str>,
    /// How to exempt requests from retries.
    pub(crate) exempt: &'static str,
    /// What to retry instead of failures with an unknown outcome.
    pub(crate) only: &'static str,
    /// The timeouts of an attempt and a call that the system has by default.
    pub(crate) default_timeouts: Option<(Span, Span)>,
    /// Whether the code that makes the calls usually sets their timeouts.
    pub(crate) has_timeouts_in_code: bool,
    /// What carries the server's hint.
    pub(crate) hint: &'static str,
    /// The field that bounds the queue in front of the upstream.
    pub(crate) queue: Option<&'static str>,
    /// Whether the system refuses a breaker window below two attempt timeouts by itself, so that its reader reports it.
    pub(crate) refuses_short_breaker_window: bool,
}

impl Advice {
    /// The names of fields are enough.
    pub(super) const NONE: Self = Self {
        add_jitter: None,
        full_jitter: None,
        honour_hints: None,
        add_budget: None,
        one_attempt: None,
        uncapped_attempts: "",
        client_errors: |_| "; of 4xx, only 408, 425 and 429 can succeed later",
        defaulted: |_| None,
        with_jitter: |_| None,
        with_full_jitter: |_| None,
        honoured: || None,
        added_budget: || None,
        lacks: |_, _| false,
        names_requests: true,
        requests: None,
        exempt: "give these requests a route without retries",
        only: "retry only failures before processing",
        default_timeouts: None,
        has_timeouts_in_code: false,
        hint: "Retry-After",
        queue: None,
        refuses_short_breaker_window: false,
    };
}

impl System {
    /// What the system calls the field at this path, if it can be configured there.
    pub(crate) fn word(&self, path: &'static str) -> Option<&'static str> {
        debug_assert!(fields::is_field(path), "{path} is not a field of a policy");
        match self.words {
            Words::Paths => Some(path),
            Words::Names(names) => {
                names.iter().find(|(known, _)| *known == path).map(|(_, name)| *name)
            }
        }
    }

    /// "set `per_try_timeout` to 2s", or what to do where the field does not exist.
    pub(crate) fn set(&self, path: &'static str, value: impl Display) -> String {
        match (self.word(path), &self.words) {
            (Some(name), Words::Paths) => format!("write `{name} = {value}`"),
            (Some(name), Words::Names(_)) => format!("set `{name}` to {value}"),
            (None, _) => {
                format!("{} has no field for it: configure it in the client", self.title)
            }
        }
    }

    /// The same for a duration.
    pub(crate) fn set_time(&self, path: &'static str, span: Span) -> String {
        self.set(path, (self.duration)(path, span))
    }

    /// The same for the number of attempts.
    pub(crate) fn set_attempts(&self, attempts: u32) -> String {
        if let (1, Some(advice)) = (attempts, self.advice.one_attempt) {
            return advice.to_owned();
        }
        if self.counts_retries {
            let (retries, plural) = (attempts - 1, if attempts == 1 { "" } else { "s" });
            let value = format_args!("{retries}, which is {attempts} attempt{plural}");
            return self.set("attempts", value);
        }
        self.set("attempts", attempts)
    }
}
