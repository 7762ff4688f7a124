//! Proxies, meshes and gateways: they retry on behalf of clients, and do not see whether a request is idempotent.

use redial_core::admit::budget::{Budget, InflightBudget, WindowBudget};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Rate};

use super::{Peer, ms};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "envoy",
        about: "off unless a route enables it; then 2 attempts, full jitter doubling from 25 ms to 250 ms; \
                3 retries at once in a cluster, 15 s in total. Ignores hints",
        differs: Some("a waiting retry counts against the 3; here only one in flight does"),
        checks_safety: false,
        draft: || envoy().budget(Budget::Inflight(InflightBudget::new(0.0, 3))),
    },
    Peer {
        name: "envoy-budget",
        about: "the same with a retry budget, which is off by default: retries are at most 20% of the requests in \
                flight, and 3 are always allowed",
        differs: Some(ENVOY_BUDGET),
        checks_safety: false,
        draft: || envoy().budget(Budget::Inflight(InflightBudget::default())),
    },
    Peer {
        name: "istio",
        about: "on: 3 attempts, full jitter doubling from 25 ms to 250 ms, no limit on retries at once, no deadline. \
                Ignores hints",
        differs: None,
        checks_safety: false,
        draft: || Draft::bare(3).backoff(doubling()),
    },
    Peer {
        name: "istio-budget",
        about: "the same with a retry budget, when one is set: retries are at most 20% of the requests in flight, \
                and 3 are always allowed",
        differs: Some(ENVOY_BUDGET),
        checks_safety: false,
        draft: || {
            let budget = Budget::Inflight(InflightBudget::default());
            Draft::bare(3).backoff(doubling()).budget(budget)
        },
    },
    Peer {
        name: "linkerd",
        about: "off unless a route is annotated; then 2 attempts, full jitter doubling from 25 ms to 250 ms, no \
                budget. Ignores hints",
        differs: None,
        checks_safety: false,
        draft: || Draft::bare(2).backoff(doubling()),
    },
    Peer {
        name: "linkerd-profile",
        about: "off unless a ServiceProfile declares a route retryable; then a budget of 20% of the calls of 10 s and \
                10 retries a second. Ignores hints",
        differs: Some(
            "a profile has neither attempts nor waits: those of an annotated route are used, 2 attempts and 25 ms \
             to 250 ms",
        ),
        checks_safety: false,
        draft: || Draft::bare(2).backoff(doubling()).budget(fifth_of_10_s()),
    },
    Peer {
        name: "gateway-api",
        about: "specifies only a budget: 20% of the requests of 10 s, at least 10 retries a second",
        differs: Some(
            "attempts and waits are left to the implementation: Envoy's are used, 2 attempts below 25 ms. Its share \
             is of all requests, retries included; here it is of the calls, and the 10 a second are added",
        ),
        checks_safety: false,
        draft: || Draft::bare(2).backoff(doubling()).budget(fifth_of_10_s()),
    },
];

const ENVOY_BUDGET: &str = "a waiting retry counts against the budget, whose share is of the requests in flight, \
                            retries included; here a retry counts while it is in flight, and the share is of the \
                            calls";

fn envoy() -> Draft {
    Draft::bare(2).backoff(doubling()).deadline(ms(15_000))
}

/// The waits of Envoy and Linkerd. Envoy's documentation has base·(2^k − 1); its code doubles, and so do its waits.
fn doubling() -> Backoff {
    Backoff::exponential(ms(25), ms(250))
}

fn fifth_of_10_s() -> Budget {
    let budget = WindowBudget::ratio(0.2).floor(Rate::per_second(10)).ttl(ms(10_000));
    Budget::Window(budget)
}
