use std::time::Duration;

use redial_core::{Span, Time};

use crate::scale_model::{ScaleModel, scale_of};
use crate::scenario::BUILT_IN;
use crate::{Scenario, Subject};
use redial_policy::Problem;

/// The shortest time that counts as that of a request: where the backend takes none, patience would be zero.
const SHORTEST_REQUEST: f64 = 10e6;
/// How many timeouts of an attempt the deadline lasts.
const TIMEOUTS_PER_DEADLINE: u32 = 5;

/// The most calls of a run: larger scenarios are run as a scale model.
pub(super) const MOST_CALLS: f64 = 120_000.0;

/// The most attempts of a call. A loop without an end and with hardly any wait makes as many until the deadline, evenly
/// spaced, because a run of it would not end.
const MOST_ATTEMPTS: u32 = 20;
/// The story of the playground. It is `redial demo` in an open loop, and was chosen because a plain loop collapses in it.
const NOT_RANKED: &str = "collapse";

/// A scenario, and the patience of its callers.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The name of the scenario, and what distinguishes its cells.
    pub name: String,
    /// What goes wrong, in a word.
    pub kind: &'static str,
    /// The cells with which it is compared.
    pub suite: Suite,
    /// The scenario.
    pub scenario: Scenario,
    /// Its file.
    pub text: String,
    /// How long callers wait for a call.
    pub deadline: Duration,
    /// How long they wait for an attempt; `None` if only the deadline ends it.
    pub timeout: Option<Duration>,
}

/// Where cells come from. Figures of different suites are never averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// The built-in scenarios.
    BuiltIn,
    /// Random scenarios; most processes make few calls.
    Random,
    /// Random scenarios in which every process has much traffic.
    HighTraffic,
    /// A scenario that the user has named.
    Named,
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

impl Suite {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 4] = [Self::BuiltIn, Self::Random, Self::HighTraffic, Self::Named];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Random => "random",
            Self::HighTraffic => "high traffic",
            Self::Named => "scenario",
        }
    }
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
    /// The cells of a scenario: every patience that its run is long enough for, in both families.
    ///
    /// # Errors
    ///
    /// The policies of a cell cannot be compared in it.
    pub fn of(
        name: &str,
        kind: &'static str,
        scenario: &Scenario,
        text: &str,
    ) -> Result<Vec<Self>, &'static str> {
        if scenario.clients.requeue.is_some() {
            return Err("failed calls are made again until they succeed, so none is lost");
        }
        if !scenario.clients.others.is_empty() {
            return Err("most calls may be those of other policies");
        }
        let request = scenario.request_time().max(SHORTEST_REQUEST);
        let cell = |patience: Patience, family: Family| {
            let deadline = Duration::from_millis((request * patience.times() / 1e6) as u64);
            let timeout = (family == Family::Timeout).then(|| deadline / TIMEOUTS_PER_DEADLINE);
            Self {
                name: format!("{name} {}", patience.name()),
                kind,
                suite: Suite::Named,
                scenario: scenario.clone(),
                text: text.to_owned(),
                deadline,
                timeout,
            }
        };
        let patiences = Patience::ALL.into_iter();
        let all = patiences.flat_map(|it| Family::ALL.map(|family| cell(it, family)));
        Ok(all.filter(Self::is_long_enough).collect())
    }

    /// Whether calls that begin after the trouble can end within the run.
    fn is_long_enough(&self) -> bool {
        let scenario = &self.scenario;
        let end = scenario.fault_span().map(|(_, end)| end).filter(|end| *end < scenario.end());
        let left = scenario.end() - end.unwrap_or(Time::at(scenario.duration / 2));
        scenario.rate().is_none() || Span::from(self.deadline) <= left
    }

    /// The cells of all built-in scenarios in which policies can be compared.
    ///
    /// # Errors
    ///
    /// A built-in scenario cannot be read.
    pub fn built_in() -> Result<Vec<Self>, Problem> {
        let mut cells = Vec::new();
        for it in BUILT_IN.iter().filter(|it| it.name != NOT_RANKED) {
            let scenario = it.read(&[])?;
            let own = Self::of(it.name, it.name, &scenario, it.text).unwrap_or_default();
            cells.extend(own.into_iter().map(|cell| Self { suite: Suite::BuiltIn, ..cell }));
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
        let deadline = Span::from(self.deadline);
        match self.timeout {
            Some(timeout) => format!("{deadline}, attempts {}", Span::from(timeout)),
            None => deadline.to_string(),
        }
    }

    /// The policy with the patience of this cell instead of its own. In the family of deadlines, a policy that ends
    /// attempts sooner still does.
    ///
    /// # Errors
    ///
    /// The policy does not allow it.
    pub fn with_patience(&self, subject: &Subject) -> Result<Subject, String> {
        let policy = &subject.policy;
        let own = policy.attempt_timeout().filter(|own| *own < self.deadline);
        let mut draft = policy.edit().deadline(self.deadline);
        draft = match self.timeout.or(own) {
            Some(timeout) => draft.attempt_timeout(timeout),
            None => draft.without_attempt_timeout(),
        };
        if let Some(connect) = policy.connect_timeout() {
            let longest = self.timeout.or(own).unwrap_or(self.deadline);
            draft = draft.connect_timeout(connect.min(longest));
        }
        if policy.attempts() > MOST_ATTEMPTS {
            let least = Span::from(self.deadline / MOST_ATTEMPTS);
            let mut backoff = *policy.backoff();
            if backoff.cap < least {
                (backoff.base, backoff.cap) = (least, least);
            }
            draft = draft.attempts(MOST_ATTEMPTS).backoff(backoff);
        }
        let policy = draft.build().map_err(|wrong| format!("{}: {wrong}", subject.name))?;
        let subject = Subject { policy, ..subject.clone() };
        match self.scale() {
            1 => self.scenario.accept(subject),
            // It has fewer guards than the scenario, and every policy of a cell has to be divided alike.
            k => ScaleModel::new(&self.scenario, &subject, k).map(|_| subject),
        }
    }
}
