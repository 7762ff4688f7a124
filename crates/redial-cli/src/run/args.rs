//! The arguments of `redial run`, and the policy that they describe.

use std::ffi::OsString;

use redial_core::admit::budget::Budget;
use redial_core::fleet::Location;
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Draft, LONGEST_DURATION, Policy, Preset, Rate, Span};
use regex_lite::Regex;
use toml::Table;

use super::budget::Place;
use super::output::Output;
use super::stdin::Mode;
use crate::log::Form;
use crate::policy;
use crate::process::ExitCodes;

const POLICY: &str = "Policy";
const WHAT: &str = "What is retried";
const BUDGET: &str = "Budget";
const STREAMS: &str = "Input and output";

/// Run a command, and retry it when it fails
///
/// Use it only for commands that are safe to run twice. The environment of each attempt has REDIAL_ATTEMPT (1 is the
/// first), REDIAL_ATTEMPTS, and REDIAL_IDEMPOTENCY_KEY, which is the same for all attempts.
#[derive(clap::Args)]
#[command(override_usage = "redial run [OPTIONS] -- <CMD>...")]
#[command(after_help = "\
By default every exit code except 0 is retried, but not 126 and 127 (the command cannot be executed, or is not \
found), and not a command that the user ends: Ctrl-C, SIGTERM, SIGHUP, SIGQUIT. Of curl, wget, rsync and git, exit \
codes that another attempt cannot change are not retried either, such as that of curl for a 404 (docs/run.md lists \
them). With --retry-on-exit or \
--retry-on-output, only what they name is retried.

Exit codes: that of the last attempt, 128 plus the signal that ended it, 124 if it timed out, 75 if it was 0 but \
the output matched --retry-on-output, 125 if redial itself failed, 126 or 127 if the command cannot be executed or \
is not found, 2 for wrong usage.

If redial itself is killed, a command that has run for 20 ms is killed too. If stderr stalls, as after Ctrl-S, log \
lines that do not fit into a queue of 256 KiB are dropped and counted.

Examples:
  # 4 attempts, equal jitter, a shared budget
  redial run -- date
  # two minutes in all
  redial run --attempts 6 --deadline 2m -- date
  # after 30 s SIGTERM, then SIGKILL
  redial run --attempt-timeout 30s -- date > now
  # each attempt reads the file from its start
  redial run --retry-on-exit 75 -- wc -c < now
  redial run --retry-on-output 'lock timeout' -- cat now
  # wait at least as long as the output says
  redial run --hint 'try again in (.*)' -- cat now
  # a pipe is buffered, to be read again
  cat now | redial run --stdin-limit 64MB -- wc -c")]
pub(crate) struct Args {
    /// A preset, or the path of a policy file, with #NAME if it has several [default: the preset standard-0.1 without
    /// its deadline, with equal jitter and waits of up to 5s, 10s and 20s]
    #[arg(long, help_heading = POLICY, value_name = "POLICY", value_parser = policy::Named::read)]
    policy: Option<policy::Named>,
    /// The most attempts, including the first: from 1 to 1000000
    #[arg(long, help_heading = POLICY, value_name = "N", value_parser = attempts)]
    attempts: Option<u32>,
    /// Timeout of an attempt (SIGTERM to all of its processes, SIGKILL after --grace)
    #[arg(long, help_heading = POLICY, value_name = "TIME", value_parser = duration)]
    attempt_timeout: Option<Span>,
    /// Timeout of the whole call, attempts and waits together
    #[arg(long, help_heading = POLICY, value_name = "TIME", value_parser = duration)]
    deadline: Option<Span>,
    /// The upper limit of the first wait; raises --cap to four times this, if it is lower
    #[arg(long, help_heading = POLICY, value_name = "TIME", value_parser = duration)]
    base: Option<Span>,
    /// The upper limit of every wait
    #[arg(long, help_heading = POLICY, value_name = "TIME", value_parser = duration)]
    cap: Option<Span>,
    /// The distribution of waits
    #[arg(long, help_heading = POLICY, value_parser = ["none", "full", "equal", "decorrelated"])]
    jitter: Option<String>,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, help_heading = POLICY, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(super) grace: Span,

    /// Retry only these exit codes, such as 75,1-3
    #[arg(long, help_heading = WHAT, value_name = "CODES", value_parser = ExitCodes::read)]
    pub(super) retry_on_exit: Option<ExitCodes>,
    /// Never retry these exit codes
    #[arg(long, help_heading = WHAT, value_name = "CODES", value_parser = ExitCodes::read)]
    pub(super) stop_on_exit: Option<ExitCodes>,
    /// Retry if a line of the output matches, for any exit code; may be repeated
    #[arg(long, help_heading = WHAT, value_name = "REGEX", value_parser = pattern)]
    pub(super) retry_on_output: Vec<Regex>,
    /// Never retry if a line of the output matches; may be repeated
    #[arg(long, help_heading = WHAT, value_name = "REGEX", value_parser = pattern)]
    pub(super) stop_on_output: Vec<Regex>,
    /// Wait at least as long as the group of this pattern: seconds, a duration or a date. Retry-After of a printed
    /// response is always read
    #[arg(long, help_heading = WHAT, value_name = "REGEX", value_parser = hint_pattern)]
    pub(super) hint: Vec<Regex>,

    /// The budget that this call shares: a name (per user), the path of a file, a fleet in Redis
    /// (redis://[user:password@]host[:port][/db]#FLEET, or rediss:// for TLS), or none [default: the fleet
    /// that the policy names, or else the budget of all commands with the same name]
    #[arg(long, help_heading = BUDGET, value_name = "NAME|PATH|REDIS#FLEET|none", value_parser = Budgeted::read)]
    pub(super) budget: Option<Budgeted>,
    /// Allowed ratio of retries to calls
    #[arg(long, help_heading = BUDGET, value_name = "RATIO")]
    budget_ratio: Option<f64>,
    /// Rate of retries that is always allowed, such as 1/s
    #[arg(long, help_heading = BUDGET, value_name = "RATE", value_parser = rate)]
    budget_floor: Option<Rate>,

    /// How to pass on the output
    #[arg(long, help_heading = STREAMS, value_enum, default_value_t = Output::Auto)]
    pub(super) output: Output,
    /// What the attempts read from stdin
    #[arg(long, help_heading = STREAMS, value_enum, default_value_t = Mode::Auto)]
    pub(super) stdin: Mode,
    /// The most bytes of a pipe that are buffered; a command that gets more is not retried
    #[arg(long, help_heading = STREAMS, value_name = "SIZE", default_value = "8MB", value_parser = size)]
    pub(super) stdin_limit: usize,
    /// Log on stderr
    #[arg(long, help_heading = STREAMS, value_enum, default_value_t = Form::Text)]
    pub(super) log: Form,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// Whether a call shares a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Budgeted {
    No,
    In(Place),
    /// With the ledger of a fleet.
    By {
        url: String,
        fleet: String,
    },
}

impl Budgeted {
    fn read(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::No);
        }
        if !text.starts_with("redis:") && !text.starts_with("rediss:") {
            return Place::read(text).map(Self::In);
        }
        // It is validated later: an error here would repeat the whole argument, with its password.
        let named = text.rsplit_once('#').filter(|(_, fleet)| !fleet.contains('@'));
        let (url, fleet) = named.unwrap_or((text, ""));
        Ok(Self::By { url: url.to_owned(), fleet: fleet.to_owned() })
    }
}

impl Args {
    /// The policy with the fields that flags override. They are validated as fields of the policy.
    pub(super) fn policy(&self) -> Result<Policy, String> {
        let draft = match &self.policy {
            Some(named) => alone(&named.policy),
            None => unattended(),
        };
        let draft = if self.changes() { self.changed(&draft)? } else { draft };
        draft.build().map_err(|wrong| format!("{}{wrong}", flag(wrong.field())))
    }

    /// The fleet that the policy names, and where its ledger is, unless a flag names another budget.
    pub(super) fn fleet(&self) -> Option<(&Location, &str)> {
        let named = self.policy.as_ref().filter(|_| self.budget.is_none())?;
        named.location.as_ref().zip(named.policy.fleet())
    }

    fn changes(&self) -> bool {
        let plain = self.attempts.is_none() && self.attempt_timeout.is_none();
        let plain = plain && self.deadline.is_none() && self.base.is_none() && self.cap.is_none();
        let plain = plain && self.jitter.is_none() && self.budget.is_none();
        !(plain && self.budget_ratio.is_none() && self.budget_floor.is_none())
    }

    fn changed(&self, draft: &Draft) -> Result<Draft, String> {
        let mut all = Table::try_from(draft).map_err(|error| error.to_string())?;
        let time = |time: Span| time.to_string();
        put(&mut all, "attempts", self.attempts.map(i64::from));
        put(&mut all, "attempt_timeout", self.attempt_timeout.map(time));
        put(&mut all, "deadline", self.deadline.map(time));
        let known = draft.clone().build().map(|policy| policy.backoff().cap).unwrap_or_default();
        let backoff = table(&mut all, "backoff");
        put(backoff, "base", self.base.map(time));
        put(backoff, "cap", self.cap.or(self.base.map(|base| raised(known, base))).map(time));
        put(backoff, "jitter", self.jitter.clone());
        if self.budget.is_some() {
            all.remove("fleet");
        }
        if self.budget == Some(Budgeted::No) {
            put(&mut all, "budget", Some("none"));
        } else if self.budget_ratio.is_some() || self.budget_floor.is_some() {
            let window = table(table(&mut all, "budget"), "window");
            put(window, "ratio", self.budget_ratio);
            put(window, "floor", self.budget_floor.map(|floor| floor.to_string()));
            let window = std::mem::take(window);
            // Other kinds of budgets have neither field.
            put(&mut all, "budget", Some(Table::from_iter([("window".to_owned(), window.into())])));
        }
        all.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

/// The policy without `--policy`. A command may take hours, and what it calls may be restarting, which takes tens of
/// seconds: longer than a request of a user could wait. With equal jitter the waits are at least half of their upper limits,
/// 17.5 s in all; with full jitter they could be over before the restart is.
fn unattended() -> Draft {
    let preset = Policy::from(Preset::Standard01);
    let (base, cap, jitter) = (Span::from_secs(5), Span::from_secs(30), Jitter::Equal);
    let backoff = Backoff { base, cap, jitter, ..*preset.backoff() };
    preset.edit().without_deadline().backoff(backoff)
}

/// The cap for this base: high enough for waits that double twice.
fn raised(cap: Span, base: Span) -> Span {
    cap.max(base * 4).min(LONGEST_DURATION)
}

/// A policy for one command. It has no other calls to earn retries with, or to hold back for.
fn alone(policy: &Policy) -> Draft {
    let draft = policy.edit().without_stall().without_park();
    match policy.budget() {
        Budget::Tokens(tokens) if tokens.bonus > 0 => draft.budget(Budget::default()),
        _ => draft,
    }
}

fn put(table: &mut Table, name: &str, value: Option<impl Into<toml::Value>>) {
    if let Some(value) = value {
        table.insert(name.to_owned(), value.into());
    }
}

/// The table with this name, which replaces any other value.
fn table<'a>(all: &'a mut Table, name: &str) -> &'a mut Table {
    let entry = all.entry(name).or_insert_with(|| Table::new().into());
    if !entry.is_table() {
        *entry = Table::new().into();
    }
    match entry {
        toml::Value::Table(table) => table,
        _ => unreachable!("it was just made one"),
    }
}

/// The flag that sets a field.
fn flag(field: &str) -> &'static str {
    match field {
        "attempts" => "--attempts: ",
        "attempt_timeout" => "--attempt-timeout: ",
        "deadline" => "--deadline: ",
        "backoff.base" => "--base: ",
        "backoff.cap" => "--cap: ",
        "budget.window.ratio" => "--budget-ratio: ",
        "budget.window.floor" => "--budget-floor: ",
        _ => "--policy: ",
    }
}

fn attempts(text: &str) -> Result<u32, String> {
    let attempts = text.parse().ok().filter(|attempts| (1..=1_000_000).contains(attempts));
    attempts.ok_or_else(|| "must be from 1 to 1000000".to_owned())
}

fn duration(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: redial_core::Unreadable| error.to_string())
}

fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|error: redial_core::Unreadable| error.to_string())
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("invalid regular expression: {error}"))
}

fn hint_pattern(text: &str) -> Result<Regex, String> {
    let pattern = pattern(text)?;
    match pattern.captures_len() {
        2 => Ok(pattern),
        _ => {
            Err("must have one group in parentheses that matches the time, as in 'retry in (\\S+)'"
                .to_owned())
        }
    }
}

fn size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, usize); 4] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)];
    let upper = text.trim().to_uppercase();
    let unit = UNITS.iter().find(|(name, _)| upper.ends_with(name));
    let (number, unit) = unit.map_or((upper.as_str(), 1), |(name, unit)| {
        (upper.strip_suffix(name).unwrap_or(&upper), *unit)
    });
    let size = number.trim().parse().ok().and_then(|number: usize| number.checked_mul(unit));
    size.ok_or_else(|| "not a size such as 64KB, 8MB or 1GB".to_owned())
}
