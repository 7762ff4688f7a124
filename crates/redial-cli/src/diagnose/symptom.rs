//! What is seen, and what to do about it: the symptom table of docs/seeing-a-storm.md, the rows of it that metrics can
//! show.

/// Something that metrics show and that can be put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// More attempts than calls, by our own retries, and no budget bounds them.
    Unbounded,
    /// More attempts than calls, by our own retries, though there is a budget.
    LooseBudget,
    /// More requests than those of users, and a layer above retries.
    FromAbove,
    /// Most of our own excess is hedges.
    Hedges,
    /// More calls than before, each of them one attempt.
    Surge,
    /// The budget has refused retries.
    BudgetDry,
    /// Calls that made more than five attempts.
    TooManyAttempts,
    /// Calls that used all their attempts and failed.
    AttemptsUsed,
    /// Calls that were not repeated because that may do them twice.
    Unsafe,
    /// The server said when, and we came sooner.
    HintsIgnored,
    /// The server said when, in no way that can be read.
    HintsUnreadable,
    /// The breaker lets nothing through.
    BreakerOpen,
    /// The oldest job waits longer and longer.
    QueueAgeing,
    /// More retries than jobs that came to an end.
    QueueRetries,
    /// Jobs that were given up.
    DeadLetters,
    /// Nobody answers for the budget of the fleet.
    FleetLost,
    /// Instances do not agree about it.
    FleetDiffers,
    /// It has nothing left.
    FleetDry,
}

impl Symptom {
    /// For programs.
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
                "add a retry budget (at most 10% of the calls), full jitter, and fewer attempts; `redial check` \
                 finds where a policy lacks them"
            }
            Self::LooseBudget => {
                "the budget lets this through: lower its ratio (0.1 is usual) or its floor, which multiplies by the \
                 number of instances unless they share a fleet budget"
            }
            Self::FromAbove => {
                "attempts multiply from layer to layer: let one layer retry, the one nearest to the user, give it a \
                 budget, and set `refuse_nested` in those below"
            }
            Self::Hedges => "let hedges start later, after the 95th percentile of the latency",
            Self::Surge => {
                "this is no storm, and no retry setting mends it: add capacity, limit rates, or shed load"
            }
            Self::BudgetDry => {
                "it does what it is for, and a larger one makes the outage worse: see why the upstream fails"
            }
            Self::TooManyAttempts => {
                "cap attempts at 5, and set a deadline; what has to happen in the end belongs into a queue"
            }
            Self::AttemptsUsed => "see why the upstream fails before anybody retries more",
            Self::Unsafe => {
                "if they may be repeated, send one idempotency key for all attempts of a user's action"
            }
            Self::HintsIgnored => {
                "take Retry-After as the least that the next wait lasts, or the server bans the client"
            }
            Self::HintsUnreadable => {
                "the server should send Retry-After as seconds or as an HTTP date"
            }
            Self::BreakerOpen => {
                "calls fail at once until a probe succeeds: see why the upstream fails"
            }
            Self::QueueAgeing => {
                "see whether jobs fail (`redial queue stats`); if they do not, they come faster than they are done: \
                 add workers"
            }
            Self::QueueRetries => {
                "see why they fail before there are more of them; attempts are in the store, so a restart does not \
                 begin them again"
            }
            Self::DeadLetters => "`redial dlq ls` shows why; `redial dlq redrive` tries them again",
            Self::FleetLost => {
                "who cannot reach it has at most its share of the floor: see whether its Redis is there"
            }
            Self::FleetDiffers => "the strictest settings hold: give all instances the same ones",
            Self::FleetDry => "it does what it is for: see why the upstream fails",
        }
    }
}

/// A symptom, and the numbers that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub symptom: Symptom,
    /// A sentence with the numbers, without its full stop.
    pub saw: String,
}

impl Finding {
    pub(super) fn new(symptom: Symptom, saw: impl Into<String>) -> Self {
        Self { symptom, saw: saw.into() }
    }
}
