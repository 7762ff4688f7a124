use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::Hint;
use redial_core::{Call, Context, Deadline, Policy, Request, Span, Stop, Time, Verdict};
use redial_sim::peers::Peer;

const SECOND: Span = Span::SECOND;

fn policy(name: &str) -> Policy {
    Peer::find(name).unwrap_or_else(|| panic!("no peer {name}")).policy()
}

/// The attempts, and the range of each wait in ms if all waits before it are the longest. Waits are uniform on
/// their range, and a draw above the cap becomes the cap.
fn waits(policy: &Policy) -> String {
    let (backoff, mut previous) = (policy.backoff(), Span::ZERO);
    let ms = Span::as_millis_f64;
    let ranges = (1..policy.attempts().min(8)).map(|k| {
        let range = backoff.range(k, previous);
        let (lo, hi) = (range.lo.min(backoff.cap()), backoff.longest(k, previous));
        previous = hi;
        if lo == hi { ms(hi).to_string() } else { format!("{}-{}", ms(lo), ms(hi)) }
    });
    let ranges: Vec<_> = ranges.collect();
    format!("{}: {}", policy.attempts(), ranges.join(" "))
}

#[test]
fn attempts_and_waits_are_those_of_the_peers() {
    let none = "0.000001 0.000001 0.000001 0.000001 0.000001 0.000001 0.000001";
    let table = [
        ("finagle", "3: 5-15 5-45"),
        ("grpc", "5: 80-120 160-240 320-480 640-960"),
        ("grpc-throttled", "5: 80-120 160-240 320-480 640-960"),
        ("aws", "3: 0-1000 0-2000"),
        ("aws-2026", "3: 0-50 0-100"),
        ("envoy", "2: 0-25"),
        ("envoy-budget", "2: 0-25"),
        ("istio", "3: 0-25 0-50"),
        ("istio-budget", "3: 0-25 0-50"),
        ("linkerd", "2: 0-25"),
        ("linkerd-profile", "2: 0-25"),
        ("gateway-api", "2: 0-25"),
        ("polly", "4: 2000 2000 2000"),
        ("dotnet", "4: 0-2750 0-4812.5 0-8421.875"),
        ("resilience4j", "3: 500 500"),
        ("failsafe-go", "3: 0.000001 0.000001"),
        ("failsafe-budget", "3: 0.000001 0.000001"),
        ("tenacity", &format!("65535: {none}")),
        ("python-backoff", "65535: 0-1000 0-2000 0-4000 0-8000 0-16000 0-32000 0-64000"),
        ("stamina", "10: 100-1100 200-1200 400-1400 800-1800 1600-2600 3200-4200 5000"),
        (
            "cenkalti",
            "65535: 250-750 375-1125 562.5-1687.5 843.75-2531.25 1265.625-3796.875 \
             1898.4375-5695.3125 2847.65625-8542.96875",
        ),
        ("backon", "4: 1000 2000 4000"),
        ("client-go", "65535: 5 10 20 40 80 160 320"),
    ];
    for (name, want) in table {
        assert_eq!(waits(&policy(name)), want, "{name}");
    }
    let listed: Vec<_> = table.iter().map(|(name, _)| *name).collect();
    assert_eq!(Peer::all().map(|peer| peer.name).collect::<Vec<_>>(), listed);
}

#[test]
fn longer_sequences_end_at_the_caps_of_the_peers() {
    let longer = |name: &str| policy(name).edit().attempts(9).build().unwrap();
    assert_eq!(waits(&longer("istio")), "9: 0-25 0-50 0-100 0-200 0-250 0-250 0-250");
    assert_eq!(waits(&longer("linkerd")), "9: 0-25 0-50 0-100 0-200 0-250 0-250 0-250");
    let ends = |name: &str, k| policy(name).backoff().range(k, Span::ZERO);
    assert_eq!(ends("cenkalti", 40).lo, 30 * SECOND);
    assert_eq!(ends("cenkalti", 40).hi, 60 * SECOND);
    assert_eq!(ends("client-go", 40).hi, 1_000 * SECOND);
    assert_eq!(ends("aws", 40).hi, 20 * SECOND);
    assert_eq!(ends("aws-2026", 40).hi, 20 * SECOND);
    assert_eq!(ends("backon", 40).hi, 60 * SECOND);
    assert_eq!(ends("grpc", 40).hi, SECOND);
    assert_eq!(
        policy("finagle").backoff().range(2, Span::from_millis(190)).hi,
        Span::from_millis(200)
    );
}

#[test]
fn deadlines_and_timeouts_are_those_of_the_peers() {
    let limited = |limit: fn(&Policy) -> Option<Duration>| -> Vec<_> {
        let limit = |peer: &'static Peer| Some((peer.name, limit(&peer.policy())?.as_secs()));
        Peer::all().filter_map(limit).collect()
    };
    let deadlines =
        [("envoy", 15), ("envoy-budget", 15), ("dotnet", 30), ("stamina", 45), ("cenkalti", 900)];
    assert_eq!(limited(Policy::deadline), deadlines);
    assert_eq!(limited(Policy::attempt_timeout), [("dotnet", 10)]);
}

/// A destination, with calls under one policy.
struct Lab {
    policy: Policy,
    guards: Guards,
    now: Time,
}

impl Lab {
    fn new(name: &str) -> Self {
        let policy = policy(name);
        let guards = Guards::new(&policy, 1, 0);
        Self { policy, guards, now: Time::at(1_000 * SECOND) }
    }

    fn cx(&self) -> Context<'_> {
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        Context { policy: &self.policy, guards: &self.guards, observer: None, request }
    }

    /// A thousand calls fail at the same instant: how many retries are in flight at once after that?
    fn retries_of_a_thousand(&self, class: Class) -> usize {
        let mut calls: Vec<_> = (0..1_000)
            .map(|_| {
                let mut call = Call::new(&self.policy, self.now, Deadline::NONE);
                let permit = call.admit(&self.cx(), self.now).unwrap();
                (call, permit)
            })
            .collect();
        let outcome = Failure::new(class).into();
        let mut waiting = Vec::new();
        for (mut call, permit) in calls.drain(..) {
            if let Verdict::Wait(until) = call.settle(&self.cx(), permit, &outcome, self.now, || 1)
            {
                waiting.push((call, until));
            }
        }
        let sent =
            waiting.iter_mut().filter_map(|(call, until)| call.admit(&self.cx(), *until).ok());
        sent.collect::<Vec<_>>().len()
    }

    /// One call, always with the same outcome: how many attempts it made and how it ended.
    fn call(&mut self, outcome: impl Into<Outcome>) -> (u32, Option<Stop>) {
        let (mut call, outcome) =
            (Call::new(&self.policy, self.now, Deadline::NONE), outcome.into());
        loop {
            let permit = match call.admit(&self.cx(), self.now) {
                Ok(permit) => permit,
                Err(stop) => return (call.attempts(), Some(stop)),
            };
            match call.settle(&self.cx(), permit, &outcome, self.now, || 1) {
                Verdict::Wait(until) => self.now = until,
                Verdict::Stop(stop) => return (call.attempts(), Some(stop)),
                Verdict::Done | Verdict::InFlight => return (call.attempts(), None),
            }
        }
    }
}

#[test]
fn budgets_grant_what_those_of_the_peers_grant() {
    let granted = [
        // A fifth of the calls, and 10 a second for 10 s.
        ("finagle", 300),
        ("linkerd-profile", 300),
        ("gateway-api", 300),
        // The fifth failure leaves half of the tokens, and more than half is required.
        ("grpc-throttled", 4),
        // 500 tokens at 5 and at 14.
        ("aws", 100),
        ("aws-2026", 35),
        ("envoy", 3),
        ("envoy-budget", 200),
        ("istio-budget", 200),
        ("failsafe-budget", 200),
        // Its breaker opens before any of the waits ends.
        ("dotnet", 0),
        ("client-go", 100),
    ];
    for peer in Peer::all() {
        let known = granted.iter().find(|(name, _)| *name == peer.name);
        let want = known.map_or(1_000, |(_, retries)| *retries);
        let lab = Lab::new(peer.name);
        assert_eq!(lab.retries_of_a_thousand(Class::Overloaded), want, "{}", peer.name);
    }
}

#[test]
fn tokens_cost_more_or_less_by_the_kind_of_failure() {
    let retries = |name: &str, class| Lab::new(name).retries_of_a_thousand(class);
    assert_eq!(retries("aws", Class::Timeout), 50);
    assert_eq!(retries("aws", Class::Throttled), 100);
    assert_eq!(retries("aws-2026", Class::Timeout), 35);
    assert_eq!(retries("aws-2026", Class::Throttled), 100);
}

#[test]
fn grpc_retries_only_while_more_than_half_of_the_tokens_are_left() {
    let failure = Failure::new(Class::Overloaded);
    let mut lab = Lab::new("grpc-throttled");
    assert_eq!(lab.call(failure), (5, Some(Stop::Attempts)), "10 tokens, and 5 failures");
    assert_eq!(lab.call(failure), (1, Some(Stop::Budget)), "4 tokens");
    for _ in 0..20 {
        lab.call(Outcome::Success);
    }
    assert_eq!(lab.call(failure), (1, Some(Stop::Budget)), "6 tokens, and 5 after the failure");
    for _ in 0..11 {
        lab.call(Outcome::Success);
    }
    assert_eq!(lab.call(failure), (2, Some(Stop::Budget)), "6.1 tokens, and then 5.1 and 4.1");
}

#[test]
fn a_clean_call_brings_the_bucket_of_aws_one_token() {
    let balance = |lab: &Lab| lab.guards.balance(lab.now).unwrap();
    let mut lab = Lab::new("aws");
    lab.call(Failure::new(Class::Timeout));
    assert_eq!(balance(&lab), 96, "two retries at 10 of 500, counted in retries at 5");
    for _ in 0..19 {
        lab.call(Outcome::Success);
    }
    assert_eq!(balance(&lab), 99);
    lab.call(Outcome::Success);
    assert_eq!(balance(&lab), 100);
}

#[test]
fn few_peers_honour_hints() {
    let wait = |peer: &Peer, hint| {
        let mut lab = Lab::new(peer.name);
        let started = lab.now;
        let policy = peer.policy().edit().attempts(2).build().unwrap();
        lab.policy = policy;
        lab.call(Failure::new(Class::Overloaded).hint(hint));
        lab.now - started
    };
    let exact = Peer::all().filter(|peer| {
        wait(peer, Hint::AtLeast(Duration::from_millis(4_567))) == Span::from_millis(4_567)
    });
    let names: Vec<_> = exact.map(|peer| peer.name).collect();
    assert_eq!(names, ["grpc", "grpc-throttled", "aws-2026", "dotnet"]);

    let [grpc, aws] = ["grpc", "aws-2026"].map(|name| Peer::find(name).unwrap());
    assert_eq!(wait(grpc, Hint::Pushback(Duration::from_secs(7_200))), 7_200 * SECOND);
    assert_eq!(wait(aws, Hint::AtLeast(Duration::from_secs(60))), 5 * SECOND);
}

#[test]
fn only_finagle_checks_safety() {
    let asking: Vec<_> = Peer::all().filter(|peer| peer.checks_safety).collect();
    assert_eq!(asking.iter().map(|peer| peer.name).collect::<Vec<_>>(), ["finagle"]);
}

#[test]
fn names_are_kebab_case_and_texts_are_one_line() {
    let names: BTreeSet<_> = Peer::all().map(|peer| peer.name).collect();
    assert_eq!(names.len(), Peer::all().count());
    for peer in Peer::all() {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(peer.name.chars().all(plain), "{}", peer.name);
        for text in [Some(peer.about), peer.differs].into_iter().flatten() {
            assert!(!text.contains(['\n', '|']) && !text.contains("  "), "{text}");
            assert!(!text.ends_with('.') && !text.is_empty(), "{text}");
        }
        let endless = peer.policy().attempts() == 65_535;
        assert_eq!(endless, peer.differs.is_some_and(|text| text.contains("65535")));
    }
    assert!(Peer::find("Envoy").is_none());
}

/// The page and the code list the same, in the same order.
#[test]
fn the_page_lists_every_peer() {
    let page = include_str!("../../../../docs/peers.md");
    let shown: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let rows = Peer::all().map(|peer| format!("| `{}` | {} |", peer.name, peer.about));
    assert_eq!(shown, rows.collect::<Vec<_>>());
}
