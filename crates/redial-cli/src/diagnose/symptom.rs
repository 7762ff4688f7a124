//! Symptoms and their fixes: the rows of the symptom table in docs/seeing-a-storm.md that metrics can show.

/// A problem that metrics show and that can be fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// The client's own retries multiply its calls, and no budget limits them.
    Unbounded,
    /// The client's own retries multiply its calls, although there is a budget.
    LooseBudget,
    /// Retries of a layer above multiply the requests of users.
    FromAbove,
    /// Most of the client's own excess is hedges.
    Hedges,
    /// More calls than before, with one attempt each.
    Surge,
    /// The budget has refused retries.
    BudgetDry,
    /// Calls that made more than five attempts.
    TooManyAttempts,
    /// Calls that used all their attempts and failed.
    AttemptsUsed,
    /// Calls that were not repeated because they are not safe to repeat.
    Unsafe,
    /// The client retried earlier than the server's hint.
    HintsIgnored,
    /// The server's hints cannot be parsed.
    HintsUnreadable,
    /// The circuit breaker is open.
    BreakerOpen,
    /// Calls were held back because only timeouts came back.
    Stalled,
    /// The age of the oldest due job grows.
    QueueAgeing,
    /// More retries than jobs that ended.
    QueueRetries,
    /// Jobs that were given up.
    DeadLetters,
    /// The ledger of the fleet does not answer.
    FleetLost,
    /// Instances configure the fleet differently.
    FleetDiffers,
    /// The fleet's budget is empty.
    FleetDry,
}

impl Symptom {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unbounded => "unbounded",
            Self::LooseBudget => "loose-budget",
            Self::FromAbove => "from-above",
            Self::Hedges => "hedges",
            Self::Surge => "surge",
            Self::BudgetDry => "budget-dry",
            Self::TooManyAttempts => "too-many-attempts",
            Self::AttemptsUsed => "attempts-used",
            Self::Unsafe => "unsafe",
            Self::HintsIgnored => "hints-ignored",
            Self::HintsUnreadable => "hints-unreadable",
            Self::BreakerOpen => "breaker-open",
            Self::Stalled => "stalled",
            Self::QueueAgeing => "queue-ageing",
            Self::QueueRetries => "queue-retries",
            Self::DeadLetters => "dead-letters",
            Self::FleetLost => "fleet-lost",
            Self::FleetDiffers => "fleet-differs",
            Self::FleetDry => "fleet-dry",
        }
    }

    /// What to do.
    pub fn fix(self) -> &'static str {
        match self {
            Self::Unbounded => {
                "add a retry budget (retries earn that of the policy `standard`), full jitter, and fewer attempts; \
                 `redial check` finds where a policy lacks them"
            }
            Self::LooseBudget => {
                "the budget lets this through: use the one of the policy `standard`, or lower its ratio (0.1 is usual) or \
                 its floor, which multiplies by the number of instances unless they share a fleet budget"
            }
            Self::FromAbove => {
                "attempts multiply from layer to layer: let one layer retry, the one nearest to the user, give it a \
                 budget, and set `refuse_nested` in those below"
            }
            Self::Hedges => "let hedges start later, after the 95th percentile of the latency",
            Self::Surge => {
                "this is a surge and not a storm, and no retry setting helps: add capacity, limit rates, or shed load"
            }
            Self::BudgetDry => {
                "the budget works as intended, and a larger one makes the outage worse: find out why the upstream fails \
                 or is slower than usual"
            }
            Self::TooManyAttempts => {
                "cap attempts at 5, and set a deadline; work that must succeed eventually belongs in a queue"
            }
            Self::AttemptsUsed => "find out why the upstream fails before adding retries",
            Self::Unsafe => {
                "if they can be repeated, send one idempotency key with all attempts of a user's action"
            }
            Self::HintsIgnored => {
                "take Retry-After as the minimum of the next wait, or the server may ban the client"
            }
            Self::HintsUnreadable => {
                "the server should send Retry-After as seconds or as an HTTP date"
            }
            Self::BreakerOpen => {
                "calls fail immediately until a probe succeeds: find out why the upstream fails"
            }
            Self::Stalled => {
                "nothing is answered in time, and calls are held back so that the queue of the upstream can drain: find \
                 out why it hangs"
            }
            Self::QueueAgeing => {
                "check whether jobs fail (`redial queue stats`); if they do not, jobs arrive faster than they are \
                 processed: add workers"
            }
            Self::QueueRetries => {
                "find out why they fail before adding jobs; attempts are kept in the store, so a restart does not \
                 reset them"
            }
            Self::DeadLetters => "`redial dlq ls` shows why; `redial dlq redrive` tries them again",
            Self::FleetLost => {
                "an instance that cannot reach the ledger has at most its share of the floor: check its Redis"
            }
            Self::FleetDiffers => {
                "the strictest settings apply: give all instances the same settings"
            }
            Self::FleetDry => "the budget works as intended: find out why the upstream fails",
        }
    }
}

/// A symptom, and the numbers that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSymptom {
    /// The symptom.
    pub symptom: Symptom,
    /// A sentence with the numbers, without its full stop.
    pub saw: String,
}

impl ObservedSymptom {
    pub(super) fn new(symptom: Symptom, saw: impl Into<String>) -> Self {
        Self { symptom, saw: saw.into() }
    }
}
