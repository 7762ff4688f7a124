//! The oracle is chosen and scored with different seeds, because the best of many noisy figures is lucky, and it may not
//! collapse or multiply the load.
//!
//! The policies among which the oracle of a cell is chosen: what a knowing engineer might write for it. Their times
//! are shares of the cell's patience, so that each is as sensible in a fast cell as in a slow one.

use std::time::Duration;

use redial_core::admit::budget::{Budget, ThrottlingBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, ThrottleRule};
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, HedgeRule};
use redial_core::{Draft, Rate};

use super::cell::Cell;
use crate::Subject;

/// The policies of this cell. All have its patience.
pub fn candidates(cell: &Cell) -> Vec<Subject> {
    let drafts = retries(cell).into_iter().chain(hedges(cell)).chain(guarded(cell));
    let subjects = drafts.filter_map(|(name, draft)| {
        let subject = Subject::new(name, draft.build().ok()?).ok()?;
        cell.with_patience(&subject).ok()
    });
    subjects.collect()
}

type Named = (String, Draft);

/// Waits × attempts × budgets × what becomes of slow attempts.
fn retries(cell: &Cell) -> Vec<Named> {
    let mut all = Vec::new();
    for (wait, backoff) in [("soon", backoff(cell, 50)), ("later", backoff(cell, 8))] {
        for attempts in [2, 4] {
            for (paid, budget) in budgets() {
                let draft = draft(cell).attempts(attempts).backoff(backoff).budget(budget);
                let name = format!("{attempts} attempts, {wait}, {paid}");
                for (slow, draft) in slow_attempts(cell, draft) {
                    all.push((format!("{name}{slow}"), draft));
                }
            }
        }
    }
    all
}

/// In the family of deadlines a policy may cut slow attempts off; where the user does, it may repeat them or not.
fn slow_attempts(cell: &Cell, draft: Draft) -> [(&'static str, Draft); 2] {
    match cell.timeout {
        None => {
            let cut = draft.clone().attempt_timeout(cell.deadline / 4);
            [("", draft), (", attempts cut at a quarter", cut)]
        }
        Some(_) => {
            let careful = draft.clone().retry_on(without_timeouts());
            [("", draft), (", timeouts not repeated", careful)]
        }
    }
}

/// A second attempt beside a slow first one.
fn hedges(cell: &Cell) -> Vec<Named> {
    let longest = cell.timeout.unwrap_or(cell.deadline);
    let rules = [
        ("hedged at a tenth", HedgeRule::after(longest / 10)),
        ("hedged at a third", HedgeRule::after(longest / 3)),
        ("hedged at the 90th percentile", HedgeRule::quantile(0.9)),
        ("hedged at the 99th percentile", HedgeRule::quantile(0.99)),
        ("hedged at three times the 95th percentile", HedgeRule::quantile(0.95).multiple(3.0)),
    ];
    let mut all = Vec::new();
    for (name, rule) in rules {
        for (paid, budget) in budgets() {
            let draft = draft(cell).attempts(3).backoff(backoff(cell, 20)).budget(budget);
            all.push((format!("{name}, {paid}"), draft.hedge(rule)));
        }
    }
    all
}

/// Guards that also hold back first attempts.
fn guarded(cell: &Cell) -> Vec<Named> {
    let longest = cell.timeout.unwrap_or(cell.deadline);
    let slow = BreakerRule::default()
        .failure_ratio(1.0)
        .slow_calls(longest * 19 / 20, 0.8)
        .last_time(Duration::from_secs(2))
        .minimum_calls(10)
        .open_for(Duration::from_millis(200), 0.1);
    let failing = BreakerRule::default()
        .failure_ratio(0.5)
        .last_time(Duration::from_secs(10))
        .minimum_calls(20)
        .open_for(Duration::from_secs(1), 0.1);
    let base = |attempts: u32, budget| {
        draft(cell).attempts(attempts).backoff(backoff(cell, 20)).budget(budget)
    };
    let mut all = Vec::new();
    for attempts in [1, 3] {
        for (paid, budget) in [WINDOW, TOKENS] {
            let base = base(attempts, budget());
            all.push((
                format!("{attempts} attempts, slow-call breaker, {paid}"),
                base.clone().breaker(slow),
            ));
            all.push((
                format!("{attempts} attempts, failure breaker, {paid}"),
                base.clone().breaker(failing),
            ));
            all.push((
                format!("{attempts} attempts, throttle, {paid}"),
                base.throttle(ThrottleRule::default()),
            ));
        }
    }
    all
}

type NamedBudget = (&'static str, fn() -> Budget);

const WINDOW: NamedBudget = ("a fifth of the calls", || {
    Budget::Window(WindowBudget::ratio(0.2).floor(Rate::per_second(0)))
});
const TOKENS: NamedBudget =
    ("tokens 20/2/20", || Budget::Tokens(TokenBudget::new(20, 2).timeout_cost(20)));

fn budgets() -> [(&'static str, Budget); 4] {
    [
        ("no budget", Budget::None),
        (WINDOW.0, WINDOW.1()),
        (TOKENS.0, TOKENS.1()),
        ("gRPC's throttling", Budget::Throttling(ThrottlingBudget::new(10, 0.1))),
    ]
}

fn draft(cell: &Cell) -> Draft {
    let plain = Draft::default().without_hedge().without_stall().without_park();
    plain.deadline(cell.deadline).without_attempt_timeout()
}

/// Full jitter from this part of the deadline to four times that.
fn backoff(cell: &Cell, part: u32) -> Backoff {
    let base = (cell.deadline / part).max(Duration::from_nanos(1));
    Backoff::exponential(base, base * 4)
}

fn without_timeouts() -> RetryOn {
    let all = RetryOn::transient();
    let kept = all.classes().filter(|class| *class != Class::Timeout);
    kept.fold(RetryOn::nothing(), RetryOn::class)
}
