//! A policy in one line, for people who have not read it.

use redial_core::admit::budget::Budget;
use redial_core::schedule::Jitter;
use redial_core::{Policy, Span};
use redial_sim::report::{milliseconds, percent};

/// What a policy does: "4 attempts · waits of 100 ms to 2 s · full jitter · a budget that successes pay for".
pub(crate) fn about(policy: &Policy) -> String {
    let attempts = match policy.attempts() {
        1 => return "one attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let backoff = policy.backoff();
    let ms = |span: Span| milliseconds(span.as_millis_f64());
    let (first, last) = (backoff.ceiling(1), backoff.ceiling(policy.attempts() - 1));
    let waits = if first == last {
        format!("waits of {}", ms(first))
    } else {
        format!("waits of {} to {}", ms(first), ms(last))
    };
    let jitter = match backoff.jitter {
        Jitter::None => "no jitter",
        Jitter::Full => "full jitter",
        Jitter::Equal => "equal jitter",
        Jitter::Decorrelated => "decorrelated jitter",
        _ => "some jitter",
    };
    let mut parts = vec![attempts, waits, jitter.to_owned(), budget(policy.budget())];
    if policy.breaker().is_some() {
        parts.push("circuit breaker".to_owned());
    }
    parts.join(" · ")
}

fn budget(budget: &Budget) -> String {
    match budget {
        Budget::None => "no budget".to_owned(),
        Budget::Window(window) => format!("a budget of {} of the calls", percent(window.ratio)),
        Budget::Tokens(tokens) if tokens.bonus > 0 => "a budget that successes pay for".to_owned(),
        Budget::Tokens(_) | Budget::Throttling(_) => "a bucket of tokens".to_owned(),
        Budget::Inflight(inflight) => {
            format!("a budget of {} of the attempts in flight", percent(inflight.ratio))
        }
    }
}
