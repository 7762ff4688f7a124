use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule, Lookback, ParkRule, RateRule, StallRule};
use redial_core::schedule::HedgeDelay;
use redial_core::{LONGEST_DURATION, Policy, Rate};

use super::{BUCKET_SECONDS, Divider, UNNOTICED, multiplied};

/// So many calls of an instance with little traffic may park, and a model's instances have little.
const LEAST_PARKED: f64 = 100.0;

impl Divider {
    /// The policy of callers that make `by` times fewer calls with one set of guards: `flow` a second.
    pub(super) fn policy(&mut self, of: &Policy, by: f64, flow: f64) -> Result<Policy, String> {
        // A fleet has one ledger for all of its calls.
        let (ledger_by, ledger_flow) =
            of.fleet().map_or((by, flow), |_| (self.k, self.calls_a_second));
        let budget = self.budget(of.budget(), ledger_by, ledger_flow);
        let mut draft = of.edit().budget(budget);
        if let Some(rule) = of.breaker() {
            draft = draft.breaker(self.breaker(rule, by, flow));
        }
        if let Some(RateRule { rate, burst }) = of.rate().copied() {
            let rate = divided(rate, by);
            let a_second = f64::from(rate.count) * 1e9 / rate.per.as_nanos_f64();
            draft = draft.rate(RateRule::new(rate, self.bucket("rate.burst", burst, by, a_second)));
        }
        if let Some(limit) = of.concurrency() {
            draft = draft.concurrency(self.whole("concurrency", limit, by, 1));
        }
        if let Some(rule) = of.cooldown() {
            let places = self.whole("cooldown.places", rule.places, by, 1);
            draft = draft.cooldown(CoolDownRule { places, ..*rule });
        }
        if let Some(StallRule { timeouts, most }) = of.stall().copied() {
            let timeouts = self.bucket("stall.timeouts", timeouts, by, flow);
            draft = draft.stall(StallRule { timeouts, most });
        }
        if let Some(ParkRule { outage, most }) = of.park().copied() {
            let most = self.whole("park.most", most, by, 1);
            draft = draft.park(ParkRule { outage, most });
        }
        if by > 1.0 + UNNOTICED {
            self.learning(of, by);
            if of.parks() && flow < LEAST_PARKED {
                self.note(format_args!(
                    "100 calls of an instance park however few it makes, which stand for {:.0}",
                    LEAST_PARKED * by
                ));
            }
        }
        draft.build().map_err(|invalid| format!("its policy cannot be divided: {invalid}"))
    }

    /// Notes what an instance learns from its calls, which are fewer.
    fn learning(&mut self, policy: &Policy, by: f64) {
        let rule = policy.hedge();
        let overtaken = rule.is_some_and(|rule| rule.overtaken);
        if rule.is_some_and(|rule| matches!(rule.when, HedgeDelay::Quantile(_))) {
            self.note(format_args!(
                "a learnt hedge.after needs 32 calls of an instance, which take {by:.0} times as long"
            ));
        }
        if overtaken || matches!(policy.budget(), Budget::Tokens(it) if it.slowdown.is_some()) {
            self.note(format_args!(
                "an instance knows the pace of the backend from {by:.0} times fewer successes"
            ));
        }
    }

    fn budget(&mut self, budget: &Budget, by: f64, flow: f64) -> Budget {
        match *budget {
            Budget::None => Budget::None,
            Budget::Window(window) => Budget::Window(WindowBudget {
                floor: self.floor(&window, by),
                bootstrap: self.bucket("budget.window.bootstrap", window.bootstrap, by, flow),
                ..window
            }),
            Budget::Tokens(tokens) => Budget::Tokens(self.tokens(&tokens, by, flow)),
            Budget::Throttling(mut throttling) => {
                let what = "budget.throttling.capacity";
                throttling.capacity = self.bucket(what, throttling.capacity, by, flow);
                Budget::Throttling(throttling)
            }
            Budget::Inflight(inflight) => {
                let least = u32::from(inflight.ratio == 0.0);
                let floor = self.whole("budget.inflight.floor", inflight.floor, by, least);
                Budget::Inflight(InflightBudget { floor, ..inflight })
            }
        }
    }

    /// What the bucket holds and holds at first is divided, and so is its floor. What a retry costs or earns is not: it is
    /// one retry here too.
    fn tokens(&mut self, tokens: &TokenBudget, by: f64, flow: f64) -> TokenBudget {
        let dearest = tokens.cost.max(tokens.timeout_cost).max(tokens.throttled_cost);
        let least = dearest.max(tokens.bonus);
        // So many retries can be under way. With fewer, refunds would find a full bucket more often than in the scenario.
        let under_way = flow * BUCKET_SECONDS * f64::from(tokens.cost);
        let kept = under_way.max(f64::from(least));
        let capacity = self.bucket_of("budget.tokens.capacity", tokens.capacity, by, kept);
        let mut pot = |what: &str, pot: u32| {
            let divided = (f64::from(pot) / by).round() as u32;
            if pot >= tokens.cost && divided < tokens.cost {
                self.note(format_args!(
                    "budget.tokens.{what} {pot} becomes {divided}, which is less than a retry costs"
                ));
            }
            divided
        };
        TokenBudget {
            capacity,
            opening: tokens.opening.map(|opening| pot("opening", opening).min(capacity)),
            bootstrap: pot("bootstrap", tokens.bootstrap),
            // One that takes years allows nothing.
            floor: tokens.floor.map(|it| divided(it, by)).filter(|it| it.per <= LONGEST_DURATION),
            ..*tokens
        }
    }

    /// A window has a floor of at least one retry, or none.
    fn floor(&mut self, window: &WindowBudget, by: f64) -> Rate {
        let floor = divided(window.floor, by);
        let retries = f64::from(floor.count) * window.ttl.as_nanos_f64() / floor.per.as_nanos_f64();
        if floor.count == 0 || retries >= 1.0 {
            return floor;
        }
        let one = Rate { count: 1, per: window.ttl };
        let (used, becomes) = if window.ratio > 0.0 { (Rate::ZERO, 0) } else { (one, 1) };
        self.note(format_args!(
            "budget.window.floor becomes {becomes} instead of {retries:.2} retries in a window"
        ));
        used
    }

    fn breaker(&mut self, rule: &BreakerRule, by: f64, flow: f64) -> BreakerRule {
        let lookback = match rule.lookback {
            Lookback::Calls(calls) => {
                Lookback::Calls(self.bucket("breaker.lookback.calls", calls, by, flow))
            }
            time @ Lookback::Time(_) => time,
        };
        let minimum = rule.minimum().min(u64::from(u32::MAX)) as u32;
        let minimum = self.bucket("breaker.minimum_calls", minimum, by, flow);
        BreakerRule { lookback, minimum_calls: Some(minimum), ..*rule }
    }
}

fn divided(rate: Rate, by: f64) -> Rate {
    Rate { per: multiplied(rate.per, by), ..rate }
}
