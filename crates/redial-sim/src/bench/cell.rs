use std::time::Duration;

use redial_core::{DurationText, Nanos, nanos};

use crate::scale_model::scale_of;
use crate::scenario::{BUILT_IN, Problem};
use crate::{Scenario, Subject};

/// The shortest time that counts as that of a request: where the backend takes none, patience would be zero.
const SHORTEST_REQUEST: f64 = 10e6;
/// The timeout of an attempt is this share of the deadline.
const TIMEOUTS_PER_DEADLINE: u32 = 5;

/// The most calls of a run: larger scenarios are run as a scale model.
const MOST_CALLS: f64 = 120_000.0;

/// The most attempts of a call. Only endless loops with hardly any wait come to it, and a run of them would not end.
const MOST_ATTEMPTS: u32 = 20;

/// A scenario, and the patience of its callers.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name of the scenario, and what distinguishes its cells.
    pub name: String,
    /// What goes wrong, in a word.
    pub kind: &'static str,
    /// The scenario.
    pub scenario: Scenario,
    /// Its file.
    pub text: String,
    /// How long callers wait for a call.
    pub deadline: Duration,
    /// How long they wait for an attempt; `None` if only the deadline ends it.
    pub timeout: Option<Duration>,
}

/// What ends an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Only the deadline, unless the policy itself ends it sooner.
    Deadline,
    /// A timeout that the user has set.
    Timeout,
}

/// How long callers wait, as a multiple of how long a request usually takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// 20 times.
    Short,
    /// 100 times.
    Medium,
    /// 500 times.
    Long,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Deadline, Self::Timeout];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Timeout => "timeout",
        }
    }
}

impl Patience {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Short, Self::Medium, Self::Long];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }

    fn times(self) -> f64 {
        match self {
            Self::Short => 20.0,
            Self::Medium => 100.0,
            Self::Long => 500.0,
        }
    }
}

impl Cell {
    /// The cells of a scenario: every patience, in both families.
    pub fn of(name: &str, kind: &'static str, scenario: &Scenario, text: &str) -> Vec<Self> {
        let request = scenario.busy().max(SHORTEST_REQUEST);
        let cell = |patience: Patience, family: Family| {
            let deadline = Duration::from_nanos((request * patience.times()) as Nanos);
            let timeout = (family == Family::Timeout).then(|| deadline / TIMEOUTS_PER_DEADLINE);
            Self {
                name: format!("{name} {}", patience.name()),
                kind,
                scenario: scenario.clone(),
                text: text.to_owned(),
                deadline,
                timeout,
            }
        };
        let patiences = Patience::ALL.into_iter();
        patiences.flat_map(|it| Family::ALL.map(|family| cell(it, family))).collect()
    }

    /// The cells of all built-in scenarios.
    ///
    /// # Errors
    ///
    /// A built-in scenario cannot be read.
    pub fn built_in() -> Result<Vec<Self>, Problem> {
        let mut cells = Vec::new();
        for it in BUILT_IN {
            let scenario = it.read(&[])?;
            cells.extend(Self::of(it.name, it.name, &scenario, it.text));
        }
        Ok(cells)
    }

    /// Its family.
    pub fn family(&self) -> Family {
        if self.timeout.is_some() { Family::Timeout } else { Family::Deadline }
    }

    /// It is run as a scale model 1:k with this k; 1 if it is small enough.
    pub fn scale(&self) -> u32 {
        scale_of(&self.scenario, MOST_CALLS)
    }

    /// The patience of its callers, in words.
    pub fn patience(&self) -> String {
        let deadline = DurationText(nanos(self.deadline));
        match self.timeout {
            Some(timeout) => format!("{deadline}, attempts {}", DurationText(nanos(timeout))),
            None => deadline.to_string(),
        }
    }

    /// The policy with the patience of this cell instead of its own. Where only the deadline is a wall, a policy that
    /// ends attempts sooner still does.
    ///
    /// # Errors
    ///
    /// The policy does not allow it.
    pub fn dress(&self, subject: &Subject) -> Result<Subject, String> {
        let policy = &subject.policy;
        let own = policy.attempt_timeout().filter(|own| *own < self.deadline);
        let attempts = policy.attempts().min(MOST_ATTEMPTS);
        let draft = policy.edit().attempts(attempts).deadline(self.deadline);
        let draft = match self.timeout.or(own) {
            Some(timeout) => draft.attempt_timeout(timeout),
            None => draft.without_attempt_timeout(),
        };
        let longest = self.timeout.or(own).unwrap_or(self.deadline);
        let draft = match policy.connect_timeout() {
            Some(connect) => draft.connect_timeout(connect.min(longest)),
            None => draft,
        };
        let policy = draft.build().map_err(|wrong| format!("{}: {wrong}", subject.name))?;
        Ok(Subject { policy, ..subject.clone() })
    }
}
