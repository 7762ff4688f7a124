//! Clients of one protocol or one vendor.

use std::time::Duration;

use redial_core::admit::budget::{Budget, ThrottlingBudget, TokenBudget, WindowBudget};
use redial_core::schedule::{Backoff, HintRule, Jitter, TooLong};
use redial_core::{Draft, Rate};

use super::{Peer, UNLIMITED, ms};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "finagle",
        about: "3 attempts, decorrelated from 5 ms to 200 ms; a budget of 20% of the calls of 10 s and 10 \
                retries a second. Retries only what was not written, unless a method is declared idempotent",
        differs: Some(
            "its first wait is exactly 5 ms, and a range starts at the last wait; here the first wait is 5 ms to \
             15 ms, and every range starts at 5 ms",
        ),
        checks_safety: true,
        draft: || {
            let backoff = exponential(5, 200).jitter(Jitter::Decorrelated);
            let budget = WindowBudget::ratio(0.2).floor(Rate::per_second(10)).ttl(ms(10_000));
            Draft::bare(3).backoff(backoff).budget(Budget::Window(budget))
        },
    },
    Peer {
        name: "grpc",
        about: "off unless a service config enables it; then at most 5 attempts, exponential, ±20%. Waits \
                exactly as long as the server's pushback says. No budget unless configured",
        differs: Some(GRPC),
        checks_safety: false,
        draft: grpc,
    },
    Peer {
        name: "grpc-throttled",
        about: "the same with retry throttling, which is off by default: 10 tokens, 1 for every failure, a tenth \
                back for every success, and retries only while more than half is left",
        differs: Some(GRPC),
        checks_safety: false,
        draft: || grpc().budget(Budget::Throttling(ThrottlingBudget::new(10, 0.1))),
    },
    Peer {
        name: "aws",
        about: "the standard mode of the SDKs until 2026: 3 attempts, full jitter doubling from 1 s to 20 s; 500 \
                tokens, 5 a retry, 10 after a timeout. Ignores hints",
        differs: None,
        checks_safety: false,
        draft: || {
            Draft::bare(3)
                .backoff(exponential(1_000, 20_000))
                .budget(tokens(TokenBudget::default()))
        },
    },
    Peer {
        name: "aws-2026",
        about: "the standard mode since 2026: 3 attempts, full jitter doubling from 50 ms (1 s when throttled) to \
                20 s; 500 tokens, 14 a retry, 5 when throttled. Honours hints up to 5 s longer than its own wait",
        differs: Some(
            "a throttled call also waits from 50 ms; a hint of at most 5 s is honoured, a longer one \
             means 5 s instead of 5 s more than the drawn wait",
        ),
        checks_safety: false,
        draft: || {
            let clamped = honour(ms(5_000), TooLong::Clip);
            let budget = tokens(TokenBudget::new(500, 14).throttled_cost(5));
            Draft::bare(3).backoff(exponential(50, 20_000)).hint(clamped).budget(budget)
        },
    },
];

const GRPC: &str = "base, cap and factor have no defaults: 100 ms, 1 s and 2, and the throttling's 10 tokens and a \
                    tenth, are those of the example in its design (A6). Retry-After, which it does not read, is \
                    honoured here";

fn grpc() -> Draft {
    let backoff = exponential(100, 1_000).jitter(Jitter::Around(0.2));
    Draft::bare(5).backoff(backoff).hint(honour(UNLIMITED, TooLong::Stop))
}

fn exponential(base: u64, cap: u64) -> Backoff {
    Backoff::exponential(ms(base), ms(cap))
}

fn tokens(budget: TokenBudget) -> Budget {
    Budget::Tokens(budget)
}

/// Exactly as the server says: no peer spreads callers that got the same hint.
pub(super) fn honour(cap: Duration, too_long: TooLong) -> HintRule {
    HintRule::Honour { cap: cap.into(), too_long, spread: Some(0.0) }
}
