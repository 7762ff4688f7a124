use serde::Serialize;

/// What a visitor reads: whether there is a storm, where it is worst, and what stopped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LiveState {
    /// The answer in one sentence.
    pub verdict: StormVerdict,
    /// The worst first.
    pub upstreams: Vec<UpstreamState>,
    /// What ended without success lately, the latest first.
    pub stops: Vec<Stopped>,
}

/// Whether there is a storm.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct StormVerdict {
    /// The storm level of the worst upstream.
    pub level: &'static str,
    /// The beginning of the sentence: `Calm · payments 1.03×`, `Storm: payments 3.2×` or `No traffic yet`.
    pub text: String,
    /// Since when, in Unix milliseconds; absent when it is calm.
    pub since: Option<u64>,
    /// The failure that most retries repeat; absent when it is calm.
    pub cause: Option<&'static str>,
    /// Attempts per fresh call of the worst upstream; absent without traffic.
    pub multiplier: Option<f64>,
    /// Attempts per call of the worst upstream: what our own retries add.
    pub amplification: Option<f64>,
    /// The worst upstream; absent without traffic.
    pub upstream: Option<String>,
    /// Whether most attempts of the last seconds failed, at all upstreams together.
    pub is_failing: bool,
}

/// What became of the attempts of the last seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentOutcomes {
    pub(super) attempts: u64,
    pub(super) succeeded: u64,
}

impl RecentOutcomes {
    pub(super) fn are_failures(self) -> bool {
        self.succeeded < self.attempts / 2
    }

    fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            succeeded: self.succeeded + other.succeeded,
        }
    }
}

/// The state of an upstream.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct UpstreamState {
    /// Its name.
    pub name: String,
    /// Its storm level.
    pub level: &'static str,
    /// Attempts per fresh call; absent without calls in the detector's window.
    pub multiplier: Option<f64>,
    /// Attempts per call.
    pub amplification: Option<f64>,
    /// Fresh calls relative to the window before.
    pub surge: Option<f64>,
    /// When the level left calm, in Unix milliseconds.
    pub since: Option<u64>,
    /// The failure that was most frequent in the last minute.
    pub reason: Option<&'static str>,
    /// How often it was.
    pub failures: u64,
    /// All attempts of that minute.
    pub attempts: u64,
    /// Retries that its budgets would grant now; absent without a budget, and for a queue.
    pub budget_left: Option<u64>,
    /// The worst state of its breakers; absent without a breaker, and for a queue.
    pub breaker: Option<&'static str>,
    /// Attempts in flight.
    pub in_flight: u64,
    /// Parked calls.
    pub parked: u64,
    /// Whether it is a queue. Its workers have a budget and a breaker for each destination, and a sum of them has no meaning.
    pub is_queue: bool,
    /// How long the oldest due job has waited; absent if it is not a queue, or the store failed.
    pub oldest_due_ms: Option<u64>,
    /// What to do, if there is something to do.
    pub action: Option<String>,
    /// Whether most attempts of the last seconds failed.
    pub is_failing: bool,
    #[serde(skip)]
    pub(super) outcomes: RecentOutcomes,
    #[serde(skip)]
    pub(super) rank: u8,
    /// Whether it was ever called.
    #[serde(skip)]
    pub(super) had_calls: bool,
}

/// Calls to an upstream that ended without success, for one reason and at about the same time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Stopped {
    /// When the last of them ended, in Unix milliseconds.
    pub at: u64,
    #[serde(skip)]
    pub(super) first: u64,
    /// The upstream.
    pub upstream: String,
    /// The name of the reason.
    pub reason: &'static str,
    /// The reason in words.
    pub meaning: String,
    /// How many.
    pub count: u64,
}

impl StormVerdict {
    /// The verdict over upstreams that are sorted.
    pub(super) fn of(upstreams: &[UpstreamState]) -> Self {
        let with_calls = upstreams.iter().find_map(|it| Some((it, it.multiplier?)));
        let Some((worst, multiplier)) = with_calls else {
            let had_calls = upstreams.iter().any(|it| it.had_calls);
            let text = if had_calls { "Idle · no requests lately" } else { "No traffic yet" };
            return Self {
                level: "calm",
                text: text.to_owned(),
                since: None,
                cause: None,
                multiplier: None,
                amplification: None,
                upstream: None,
                is_failing: false,
            };
        };
        let UpstreamState { name, level, amplification, since, reason, .. } = worst;
        let outcomes = upstreams.iter().map(|upstream| upstream.outcomes);
        let is_calm = worst.rank == 0;
        let text = match (is_calm, *level) {
            (true, _) => format!("Calm · {name} {multiplier:.2}×"),
            (false, "warn") => format!("Warning: {name} {multiplier:.1}×"),
            (false, "critical") => format!("Critical storm: {name} {multiplier:.1}×"),
            (false, _) => format!("Storm: {name} {multiplier:.1}×"),
        };
        Self {
            level,
            text,
            since: *since,
            cause: reason.filter(|_| !is_calm),
            multiplier: Some(multiplier),
            amplification: *amplification,
            upstream: Some(name.clone()),
            is_failing: outcomes
                .fold(RecentOutcomes::default(), RecentOutcomes::and)
                .are_failures(),
        }
    }
}

impl UpstreamState {
    /// The higher, the sooner a person should look at it.
    pub(super) fn badness(&self) -> f64 {
        let breaker = match self.breaker {
            Some("open") => 3.0,
            Some("half-open") => 1.0,
            _ => 0.0,
        };
        let dry = if self.budget_left == Some(0) { 2.0 } else { 0.0 };
        f64::from(self.rank) * 1000.0
            + breaker * 100.0
            + dry * 100.0
            + self.multiplier.unwrap_or(0.0)
    }
}
