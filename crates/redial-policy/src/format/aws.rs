//! The AWS SDKs read a mode and a number of attempts from the shared config file or the environment. The mode determines
//! everything else, such as waits and quota.

use std::time::Duration;

use redial_core::admit::ThrottleRule;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::schedule::Backoff;
use redial_core::{Draft, LONGEST_DURATION, Policy, Span};

use super::export::{dropped, safety};
use super::import::{Import, Metadata};
use super::system::{Advice, System, Words};
use super::{Format, Written, policies, usual_failures};
use crate::file::{File, Named, Setting};
use crate::format::{ConfigReading, Note};
use crate::source::Problem;
use crate::tree::{Cursor, Document, Language, Node, Truncated, Value};

pub(super) static SYSTEM: System = System {
    name: "aws",
    title: "the shared config of the AWS SDKs",
    recognises,
    read,
    write: Some(write),
    language: |_| Some(Language::Ini),
    words: Words::Names(&[("attempts", "max_attempts"), ("budget", "retry_mode")]),
    names: &["retry_mode", "max_attempts", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"],
    is_own: |path| match path {
        [variable] => variable.starts_with("AWS_"),
        [section, _] => profile(section).is_some(),
        _ => false,
    },
    duration: |_, span| span.to_string(),
    counts_retries: false,
    advice: Advice {
        add_budget: Some("set `retry_mode` to standard"),
        added_budget: || Some(Budget::Tokens(TokenBudget::default())),
        names_requests: false,
        requests: Some("all operations of this profile"),
        has_timeouts_in_code: true,
        exempt: "set the client token of operations that have one",
        ..Advice::NONE
    },
};

/// The settings, in a profile and as environment variables.
const PROFILE: [&str; 2] = ["retry_mode", "max_attempts"];
const VARIABLES: [&str; 2] = ["AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"];

fn recognises(node: &Node) -> bool {
    let has = |node: &Node, names: [&str; 2]| names.iter().any(|name| node.get(name).is_some());
    let Some(table) = node.table() else { return false };
    has(node, VARIABLES)
        || table
            .entries()
            .iter()
            .any(|entry| profile(&entry.key).is_some() && has(&entry.node, PROFILE))
}

/// The name of a profile, if the section is one.
fn profile(section: &str) -> Option<&str> {
    match section.strip_prefix("profile ") {
        Some(name) => Some(name.trim()),
        None => (section == "default").then_some(section),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Legacy,
    Standard,
    Adaptive,
}

impl Mode {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Legacy, "legacy"), (Self::Standard, "standard"), (Self::Adaptive, "adaptive")];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The default number.
    fn attempts(self) -> u32 {
        if self == Self::Legacy { 5 } else { 3 }
    }

    /// The behaviour of SDKs until 2026.
    fn draft(self, attempts: u32) -> Draft {
        let wait = |cap: Span| Backoff::exponential(Duration::from_secs(1), cap.into());
        let quota = Budget::Tokens(TokenBudget::default());
        let draft = Draft::bare(attempts).retry_on(usual_failures());
        match self {
            Self::Legacy => draft.backoff(wait(LONGEST_DURATION)),
            Self::Standard => draft.backoff(wait(Span::from_secs(20))).budget(quota),
            Self::Adaptive => Self::Standard.draft(attempts).throttle(ThrottleRule::default()),
        }
    }

    /// What the mode implies, as notes of an import.
    fn notes(self) -> Vec<Note> {
        let mode = format!("retry_mode = {}", self.name());
        let waits = match self {
            Self::Legacy => {
                "waits double from 1 s without a cap, and there is no quota, as in Python's SDK; others differ"
            }
            Self::Standard | Self::Adaptive => {
                "waits double from 1 s to 20 s with a quota of 500 tokens, as until 2026; in later SDKs, or with \
                 AWS_NEW_RETRIES_2026, waits start at 50 ms, a retry costs 14 tokens, and hints are honoured"
            }
        };
        let mut notes = vec![Note::approximated(&mode, waits)];
        if self == Self::Adaptive {
            let text = "throttle: the client's own rate limit delays attempts, and a throttle rejects them";
            notes.push(Note::approximated(&mode, text));
        }
        let text = "retry_on by class; the SDKs also recognise the errors of each service by name";
        notes.push(Note::approximated(mode, text));
        notes
    }
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents.iter().filter(|document| recognises(&document.node)) {
        let top = Cursor::top(&document.node);
        let sections =
            top.fields().filter_map(|(name, here)| Some((profile(name)?, here, PROFILE)));
        let variables = std::iter::once(("environment", top.clone(), VARIABLES));
        for (name, here, settings) in sections.chain(variables) {
            if settings.iter().all(|setting| here.get(setting).is_none()) {
                continue;
            }
            one(document, name, &here, settings, reading);
        }
    }
}

fn one(
    document: &Document,
    name: &str,
    here: &Cursor<'_>,
    [mode, attempts]: [&str; 2],
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(document, here);
    if mode == VARIABLES[0] {
        let first = here.first(&[mode, attempts]).map_or(here.node.span, |first| first.node.span);
        import.places = crate::places::Places::new(document.place(first));
    }
    let chosen = match here.get(mode) {
        Some(setting) => {
            let chosen = import.problems.or(Mode::Standard, self::mode(&setting));
            for field in ["backoff", "budget", "retry_on"] {
                import.places.put(field, import.place(&setting));
            }
            chosen
        }
        None => {
            let text =
                "retry_mode is not set, and the default depends on the SDK: read as standard";
            import.notes.push(Note::approximated(here.path(), text));
            Mode::Standard
        }
    };
    import.notes.extend(chosen.notes());
    let count = match here.get(attempts) {
        Some(setting) => {
            let help = "it counts attempts, including the first; 1 disables retries";
            import.attempts(&setting, 1, help)
        }
        None => None,
    };
    let count = count.unwrap_or(chosen.attempts());
    misspelt(here, &[mode, attempts], &mut import);
    let (name, setting) = (name.to_owned(), Setting::default());
    let metadata = Metadata { format: Format::Aws, name, routes: Vec::new(), setting };
    import.finish(chosen.draft(count), metadata, reading);
}

fn mode(setting: &Cursor<'_>) -> Result<Mode, Problem> {
    let text = setting.text()?;
    let known = Mode::NAMES.iter().find(|(_, name)| text.eq_ignore_ascii_case(name));
    known.map(|(mode, _)| *mode).ok_or_else(|| {
        let problem = setting.problem(format_args!("unknown mode `{}`", Truncated(text)));
        problem.help("use legacy, standard or adaptive")
    })
}

/// A profile has many other settings, so only names that look like a retry setting are reported.
fn misspelt(here: &Cursor<'_>, known: &[&str], import: &mut Import<'_>) {
    let is_environment = known.contains(&VARIABLES[0]);
    let like = |name: &str| {
        // Other programs have variables too.
        let is_own = !is_environment || name.starts_with("AWS_");
        let name = name.to_ascii_lowercase();
        is_own && (name.contains("attempt") || name.contains("retr"))
    };
    let suspects = here.fields().filter(|(name, _)| !known.contains(name) && like(name));
    for (name, field) in suspects {
        match &field.node.value {
            Value::Text(_) if name == "AWS_NEW_RETRIES_2026" => {
                import.dropped(&field, "read as the mode was until 2026");
            }
            Value::Text(_) => import.unknown(name, &field, known),
            _ => {}
        }
    }
}

fn write(file: &File) -> Result<Written, Problem> {
    let mut text = String::new();
    let mut notes = Vec::new();
    for (i, Named { name, policy, .. }) in policies(file)?.iter().enumerate() {
        let mode = nearest(policy);
        let blank = if i > 0 { "\n" } else { "" };
        let section =
            if name == "default" { name.clone() } else { format!("profile {}", section(name)?) };
        let attempts = policy.attempts();
        text.push_str(&format!(
            "{blank}[{section}]\nretry_mode = {}\nmax_attempts = {attempts}\n",
            mode.name()
        ));
        notes.push((name.clone(), losses(policy, mode)?));
    }
    Ok(Written { text, notes })
}

/// The name of a section.
fn section(name: &str) -> Result<&str, Problem> {
    let strange =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, '[' | ']' | '#' | ';');
    if name.is_empty() || name.contains(strange) {
        let message = format!("policy `{}`: not a valid name for a profile", Truncated(name));
        return Err(Problem::whole(message).help("use letters, digits, hyphens and dots"));
    }
    Ok(name)
}

fn nearest(policy: &Policy) -> Mode {
    match policy.budget() {
        _ if policy.throttle().is_some() => Mode::Adaptive,
        Budget::None if policy.backoff().cap == LONGEST_DURATION => Mode::Legacy,
        _ => Mode::Standard,
    }
}

fn losses(policy: &Policy, mode: Mode) -> Result<Vec<Note>, Problem> {
    let theirs = mode.draft(policy.attempts()).build();
    let theirs = theirs.map_err(|invalid| Problem::whole(invalid.to_string()))?;
    let mut notes = vec![Note::kept("attempts", "max_attempts: both include the first")];
    let fixed = [
        ("backoff", policy.backoff() == theirs.backoff()),
        ("budget", policy.budget() == theirs.budget()),
        ("retry_on", policy.retry_on() == theirs.retry_on()),
        ("throttle", policy.throttle() == theirs.throttle()),
    ];
    for (field, same) in fixed {
        let comes = format!("comes with retry_mode = {}", mode.name());
        if !same {
            notes.push(Note::dropped(field, format!("{comes}, with another value")));
        } else if field != "throttle" || policy.throttle().is_some() {
            notes.push(Note::kept(field, comes));
        }
    }
    notes.extend(dropped(policy, &["attempts", "backoff", "budget", "retry_on", "throttle"]));
    notes.push(safety());
    Ok(notes)
}
