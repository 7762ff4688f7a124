use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule, Lookback, RateRule};
use redial_core::{Policy, Rate};

use super::{BUCKET_SECONDS, Divider, UNNOTICED};
use crate::scenario::learns_hedges;

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
            let a_second = f64::from(rate.count) * 1e9 / rate.per as f64;
            draft = draft.rate(RateRule::new(rate, self.bucket("rate.burst", burst, by, a_second)));
        }
        if let Some(limit) = of.concurrency() {
            draft = draft.concurrency(self.whole("concurrency", limit, by, 1));
        }
        if let Some(rule) = of.cooldown() {
            let places = self.whole("cooldown.places", rule.places, by, 1);
            draft = draft.cooldown(CoolDownRule { places, ..*rule });
        }
        if learns_hedges(of) && by > 1.0 + UNNOTICED {
            self.note(format_args!(
                "a learnt hedge.after needs 32 calls of an instance, which take {by:.0} times as long"
            ));
        }
        draft.build().map_err(|invalid| format!("its policy cannot be divided: {invalid}"))
    }

    fn budget(&mut self, budget: &Budget, by: f64, flow: f64) -> Budget {
        match *budget {
            Budget::None => Budget::None,
            Budget::Window(window) => Budget::Window(WindowBudget {
                floor: self.floor(&window, by),
                bootstrap: self.bucket("budget.window.bootstrap", window.bootstrap, by, flow),
                ..window
            }),
            Budget::Tokens(tokens) => {
                let least = tokens.cost.max(tokens.timeout_cost).max(tokens.throttled_cost);
                let kept = (flow * BUCKET_SECONDS).max(f64::from(least));
                let what = "budget.tokens.capacity";
                let capacity = self.bucket_of(what, tokens.capacity, by, kept);
                Budget::Tokens(TokenBudget { capacity, ..tokens })
            }
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

    /// A window has a floor of at least one retry, or none.
    fn floor(&mut self, window: &WindowBudget, by: f64) -> Rate {
        let floor = divided(window.floor, by);
        let retries = f64::from(floor.count) * window.ttl as f64 / floor.per as f64;
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
    Rate { per: (rate.per as f64 * by).round() as u64, ..rate }
}
