//! Libraries that wrap any call: they only see that a function failed.

use std::time::Duration;

use redial_core::admit::BreakerRule;
use redial_core::admit::budget::{Budget, InflightBudget, WindowBudget};
use redial_core::schedule::{Backoff, Jitter, TooLong};
use redial_core::{Draft, Rate};

use super::rpc::honour;
use super::{ENDLESS, Peer, UNLIMITED, ms};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "polly",
        about: "4 attempts, 2 s between them, no jitter, no budget",
        differs: None,
        checks_safety: false,
        draft: || Draft::bare(4).backoff(every(2_000)),
    },
    Peer {
        name: "dotnet",
        about: "the standard resilience handler of .NET: 4 attempts of at most 10 s, exponential from 2 s with \
                jitter, 30 s in total; no budget; a breaker at 10% of at least 100 calls in 30 s, open for 5 s; 1000 \
                calls at once. Honours Retry-After",
        differs: Some(
            "its jitter is not uniform: waits below 2.8, 5.7 and 8.7 s with means of 1.7, 2.3 and 4.2 s. Full \
             jitter below 2.75, 4.8 and 8.4 s approximates it, with means of 1.4, 2.4 and 4.2 s. Retry-After \
             replaces its wait; here it is a floor. Its 1000 are calls, waiting or not; here attempts in flight",
        ),
        checks_safety: false,
        draft: dotnet,
    },
    Peer {
        name: "resilience4j",
        about: "3 attempts, 500 ms between them, no jitter, no budget",
        differs: None,
        checks_safety: false,
        draft: || Draft::bare(3).backoff(every(500)),
    },
    Peer {
        name: "failsafe-go",
        about: "3 attempts, no wait between them, no budget",
        differs: Some(NO_WAIT),
        checks_safety: false,
        draft: || Draft::bare(3).backoff(at_once()),
    },
    Peer {
        name: "failsafe-budget",
        about: "failsafe-go with a budget, which is opt-in: retries are at most 20% of the calls in flight, and 3 \
                are always allowed",
        differs: Some(NO_WAIT),
        checks_safety: false,
        draft: || {
            Draft::bare(3).backoff(at_once()).budget(Budget::Inflight(InflightBudget::new(0.2, 3)))
        },
    },
    Peer {
        name: "tenacity",
        about: "for ever, no wait between attempts, no budget",
        differs: Some(
            "for ever is 65535 attempts, and no wait is 1 ns, the shortest possible wait",
        ),
        checks_safety: false,
        draft: || Draft::bare(ENDLESS).backoff(at_once()),
    },
    Peer {
        name: "python-backoff",
        about: "the package backoff for Python: for ever, full jitter doubling from 1 s without a cap, no budget",
        differs: Some("for ever is 65535 attempts, and the cap is 366 days"),
        checks_safety: false,
        draft: || Draft::bare(ENDLESS).backoff(Backoff::exponential(ms(1_000), UNLIMITED)),
    },
    Peer {
        name: "stamina",
        about: "10 attempts, doubling from 100 ms plus up to 1 s of jitter, at most 5 s, 45 s in total; no budget",
        differs: Some("it checks the 45 s only between attempts, and can sleep past them"),
        checks_safety: false,
        draft: || {
            let added = Jitter::added(ms(1_000));
            let backoff = Backoff::exponential(ms(100), ms(5_000)).jitter(added).clipped();
            Draft::bare(10).backoff(backoff).deadline(ms(45_000))
        },
    },
    Peer {
        name: "cenkalti",
        about: "backoff for Go: for up to 15 minutes, growing by half from 500 ms to 60 s, ±50%; \
                no budget",
        differs: Some(
            "without a limit is 65535 attempts; its jitter is applied after the cap, so its last waits are 30 s to \
             90 s, and here they are 30 s to 60 s; it does not cut an attempt off",
        ),
        checks_safety: false,
        draft: || {
            let backoff = Backoff::exponential(ms(500), ms(60_000)).factor(1.5);
            let around = backoff.jitter(Jitter::Around(0.5));
            Draft::bare(ENDLESS).backoff(around).deadline(ms(15 * 60_000))
        },
    },
    Peer {
        name: "backon",
        about: "4 attempts, doubling from 1 s to 60 s, no jitter unless enabled, no budget",
        differs: None,
        checks_safety: false,
        draft: || {
            Draft::bare(4).backoff(Backoff::exponential(ms(1_000), ms(60_000)).jitter(Jitter::None))
        },
    },
    Peer {
        name: "client-go",
        about: "the work queue of Kubernetes controllers: for ever, doubling from 5 ms to 1000 s, no jitter; all \
                items together 10 retries a second, with a burst of 100",
        differs: Some(
            "for ever is 65535 attempts; where its bucket makes an item wait longer, here the call ends: 100 \
             retries in any 10 s approximate the bucket",
        ),
        checks_safety: false,
        draft: || {
            let bucket = WindowBudget::ratio(0.0).floor(Rate::per_second(10)).ttl(ms(10_000));
            let backoff = Backoff::exponential(ms(5), ms(1_000_000)).jitter(Jitter::None);
            Draft::bare(ENDLESS).backoff(backoff).budget(Budget::Window(bucket))
        },
    },
];

const NO_WAIT: &str = "no wait is 1 ns, the shortest possible wait";

/// The ranges of its own jitter grow by a factor below 2, and start above the base.
fn dotnet() -> Draft {
    let breaker = BreakerRule::default().last_time(ms(30_000)).minimum_calls(100);
    let breaker = breaker.failure_ratio(0.1).open_for(ms(5_000), 0.0).probes(1);
    Draft::bare(4)
        .attempt_timeout(ms(10_000))
        .deadline(ms(30_000))
        .backoff(Backoff::exponential(ms(2_750), ms(30_000)).factor(1.75))
        .hint(honour(ms(30_000), TooLong::Stop))
        .breaker(breaker)
        .concurrency(1_000)
}

fn every(wait: u64) -> Backoff {
    Backoff::constant(ms(wait)).jitter(Jitter::None)
}

fn at_once() -> Backoff {
    Backoff::constant(Duration::from_nanos(1)).jitter(Jitter::None)
}
