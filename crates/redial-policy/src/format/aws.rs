//! The AWS SDKs read two settings from the shared config file or the environment, a mode and a number of attempts. All
//! the rest, waits and quota, comes with the mode.

use std::time::Duration;

use redial_core::admit::ThrottleRule;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::schedule::Backoff;
use redial_core::{Draft, LONGEST, Policy};

use super::account::{Account, Around};
use super::unsaid::unsaid;
use super::{Border, Format, Written, policies, usual_failures};
use crate::file::{File, Named, Setting};
use crate::found::Note;
use crate::pile::{Document, Reading};
use crate::source::Problem;
use crate::tree::{Here, Node, Short, Value};

pub(super) const BORDER: Border = Border { recognises, read, write };

/// The settings in a profile, and as variables.
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

/// The name of the profile, if the section is one.
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

    /// Unless the config says another number.
    fn attempts(self) -> u32 {
        if self == Self::Legacy { 5 } else { 3 }
    }

    /// What it does, until 2026.
    fn draft(self, attempts: u32) -> Draft {
        let wait = |cap| Backoff {
            cap,
            ..Backoff::exponential(Duration::from_secs(1), Duration::from_secs(20))
        };
        let quota = Budget::Tokens(TokenBudget::default());
        let draft = Draft::bare(attempts).retry_on(usual_failures());
        match self {
            Self::Legacy => draft.backoff(wait(LONGEST)),
            Self::Standard => draft.backoff(wait(20_000_000_000)).budget(quota),
            Self::Adaptive => Self::Standard.draft(attempts).throttle(ThrottleRule::default()),
        }
    }

    /// What it brings along, as notes of an import.
    fn notes(self) -> Vec<Note> {
        let mode = format!("retry_mode = {}", self.name());
        let waits = match self {
            Self::Legacy => {
                "waits doubling from 1 s without a cap and no quota, as Python's SDK has them; others differ"
            }
            Self::Standard | Self::Adaptive => {
                "waits doubling from 1 s to 20 s and a quota of 500 tokens, as until 2026; in SDKs since then, or \
                 with AWS_NEW_RETRIES_2026, waits begin at 50 ms, a retry costs 14 tokens, and hints are honoured"
            }
        };
        let mut notes = vec![Note::approximated(&mode, waits)];
        if self == Self::Adaptive {
            let text = "throttle: the client's own rate limit delays attempts, and a throttle refuses them";
            notes.push(Note::approximated(&mode, text));
        }
        let text = "retry_on by class; the SDKs also know errors of each service by name";
        notes.push(Note::approximated(mode, text));
        notes
    }
}

fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents.iter().filter(|document| recognises(&document.node)) {
        let top = Here::top(&document.node);
        let sections =
            top.fields().filter_map(|(name, here)| Some((profile(name)?, here, PROFILE)));
        let variables = std::iter::once(("environment", top.clone(), VARIABLES));
        for (name, here, settings) in sections.chain(variables) {
            if settings.iter().all(|setting| here.get(setting).is_none()) {
                continue;
            }
            if let Err(problem) = one(document, name, &here, settings, reading) {
                reading.problems.push((document.source, problem));
            }
        }
    }
}

fn one(
    document: &Document,
    name: &str,
    here: &Here<'_>,
    [mode, attempts]: [&str; 2],
    reading: &mut Reading,
) -> Result<(), Problem> {
    let mut account = Account::new(document, here);
    if mode == VARIABLES[0] {
        let first = here.first(&[mode, attempts]).map_or(here.node.span, |first| first.node.span);
        account.places = crate::Places::new(document.place(first));
    }
    let chosen = match here.get(mode) {
        Some(setting) => {
            let chosen = self::mode(&setting)?;
            for field in ["backoff", "budget", "retry_on"] {
                account.places.put(field, account.place(&setting));
            }
            chosen
        }
        None => {
            let text =
                "retry_mode is not set, and the default differs between SDKs: read as standard";
            account.notes.push(Note::approximated(here.path(), text));
            Mode::Standard
        }
    };
    account.notes.extend(chosen.notes());
    let count = match here.get(attempts) {
        Some(setting) => {
            let help = "it counts attempts, the first one included; 1 turns retries off";
            account.attempts(&setting, 1).map_err(|problem| problem.help(help))?
        }
        None => chosen.attempts(),
    };
    misspelt(here, &[mode, attempts], &mut account);
    let (name, setting) = (name.to_owned(), Setting::default());
    let around = Around { format: Format::Aws, name, routes: Vec::new(), setting };
    account.finish(chosen.draft(count), around, reading);
    Ok(())
}

fn mode(setting: &Here<'_>) -> Result<Mode, Problem> {
    let text = setting.text()?;
    let known = Mode::NAMES.iter().find(|(_, name)| text.eq_ignore_ascii_case(name));
    known.map(|(mode, _)| *mode).ok_or_else(|| {
        let problem = setting.wrong(format_args!("there is no mode `{}`", Short(text)));
        problem.help("there are legacy, standard and adaptive")
    })
}

/// A profile says a hundred other things: only what comes near one of ours is worth a word.
fn misspelt(here: &Here<'_>, known: &[&str], account: &mut Account<'_>) {
    let like = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("attempt") || name.contains("retr")
    };
    let suspects = here.fields().filter(|(name, _)| !known.contains(name) && like(name));
    for (name, field) in suspects {
        match &field.node.value {
            Value::Text(_) if name == "AWS_NEW_RETRIES_2026" => {
                account.dropped(&field, "read as the mode is until 2026");
            }
            Value::Text(_) => account.unknown(name, &field, known),
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

/// What a section can be called.
fn section(name: &str) -> Result<&str, Problem> {
    let strange =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, '[' | ']' | '#' | ';');
    if name.is_empty() || name.contains(strange) {
        let message = format!("policy `{}`: a profile cannot have this name", Short(name));
        return Err(Problem::whole(message).help("use letters, digits, hyphens and dots"));
    }
    Ok(name)
}

fn nearest(policy: &Policy) -> Mode {
    match policy.budget() {
        _ if policy.throttle().is_some() => Mode::Adaptive,
        Budget::None if policy.backoff().cap == LONGEST => Mode::Legacy,
        _ => Mode::Standard,
    }
}

fn losses(policy: &Policy, mode: Mode) -> Result<Vec<Note>, Problem> {
    let theirs = mode.draft(policy.attempts()).build();
    let theirs = theirs.map_err(|invalid| Problem::whole(invalid.to_string()))?;
    let mut notes = vec![Note::kept("attempts", "max_attempts: both count the first one")];
    let fixed = [
        ("backoff", policy.backoff() == theirs.backoff()),
        ("budget", policy.budget() == theirs.budget()),
        ("retry_on", policy.retry_on() == theirs.retry_on()),
        ("throttle", policy.throttle() == theirs.throttle()),
    ];
    for (field, same) in fixed {
        let comes = format!("comes with retry_mode = {}", mode.name());
        if !same {
            notes.push(Note::dropped(field, format!("{comes}, and differs")));
        } else if field != "throttle" || policy.throttle().is_some() {
            notes.push(Note::kept(field, comes));
        }
    }
    notes.extend(unsaid(policy, &["budget", "retry_on", "throttle"]));
    Ok(notes)
}
