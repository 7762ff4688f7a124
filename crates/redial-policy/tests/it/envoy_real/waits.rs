//! Envoy's waits, against what `redial explain` says about its config. Envoy's documentation has ceilings of base·(2^k − 1);
//! measured, they double.

use std::thread;
use std::time::{Duration, Instant};

use redial_policy::{Format, Found, Inputs, SourceText};
use redial_sim::explain::{Question, explain};

use super::proxy::{Proxy, validate};
use super::upstream::Upstream;

/// A bootstrap with these waits, in which nothing bounds the retries in flight.
fn bootstrap(retries: u32, waits: &str) -> String {
    format!(
        r#"
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: 10000 }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: v
              domains: ["*"]
              routes:
              - match: {{ prefix: / }}
                route:
                  cluster: c
                  timeout: 60s
                  # tidy-allow: the name in Envoy's API
                  retry_policy: {{ retry_on: "5xx", num_retries: {retries}, retry_back_off: {waits} }}
  clusters:
  - name: c
    type: STATIC
    circuit_breakers: {{ thresholds: [{{ max_retries: 100000, max_requests: 100000 }}] }} # tidy-allow: its name in the API
    load_assignment:
      cluster_name: c
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: 8080 }} }} }} }}] }}]
"#
    )
}

fn import(text: &str) -> Result<Found, String> {
    let mut inputs = Inputs::new();
    let source = SourceText::new("envoy.yaml", text.as_bytes().to_vec()).unwrap();
    inputs.add(source, None).map_err(|(_, problem)| problem.to_string())?;
    let mut reading = inputs.read(Some(Format::Envoy));
    match reading.problems.first() {
        Some((_, problem)) => Err(problem.to_string()),
        None => Ok(reading.found.remove(0)),
    }
}

/// A route whose calls wait for a millisecond at most: the control.
const CONTROL: &str = r#"
              - match: { path: /504 }
                route:
                  cluster: c
                  timeout: 60s
                  # tidy-allow: the name in Envoy's API
                  retry_policy: { retry_on: "5xx", num_retries: 5, retry_back_off: { base_interval: 0.001s, max_interval: 0.001s } }"#;

/// 300 calls fail five times each. The machine can only make a wait longer, and it does so with those of the control too, at
/// the same time and in the same Envoy. With 300 draws, the 95th percentile of a uniform distribution is within 8% of its
/// ceiling in all but one of 10⁹ runs, and ceilings of base·(2^k − 1) are 75% and more above it.
#[test]
fn waits_and_attempts_are_those_of_explain() {
    const CALLS: usize = 300;
    let text = bootstrap(5, "{ base_interval: 0.1s, max_interval: 10s }");
    let policy = import(&text).unwrap().policy;
    let upstream = Upstream::start();
    let text = text.replace("routes:", &format!("routes:{CONTROL}"));
    let proxy = Proxy::start(&text, upstream.port());
    let calls = [503, 504].map(|status| (0..CALLS).map(move |call| format!("{status}-{call}")));
    thread::scope(|scope| {
        for (call, control) in calls[0].clone().zip(calls[1].clone()) {
            let proxy = &proxy;
            scope.spawn(move || proxy.call("GET /503", &call, ""));
            scope.spawn(move || proxy.call("GET /504", &control, ""));
        }
    });

    let question = Question { script: "503".parse().unwrap(), ..Question::default() };
    let explained = explain(&policy, &question);
    let attempts = explained.steps.iter().filter(|step| step.outcome.is_some()).count();
    let [times, control] =
        calls.map(|calls| calls.map(|call| upstream.times(&call)).collect::<Vec<_>>());
    assert!(times.iter().all(|times| times.len() == attempts), "{attempts} attempts of each call");
    assert_eq!(explained.waits.len(), 5);
    let waits = |times: &[Vec<Instant>], k: usize| {
        let mut waits: Vec<_> = times.iter().map(|times| times[k + 1] - times[k]).collect();
        waits.sort_unstable();
        waits
    };
    let late = (0..5).filter_map(|k| waits(&control, k).pop()).max().unwrap();
    for (k, expected) in explained.waits.iter().enumerate() {
        let waits = waits(&times, k);
        let (p95, ceiling) = (waits[CALLS * 95 / 100], Duration::from(expected.ceiling));
        let (least, most) = (ceiling.mul_f64(0.87), ceiling.mul_f64(1.03) + late);
        assert!(
            (least..most).contains(&p95),
            "retry {}: 95% below {p95:?}, not {ceiling:?}",
            k + 1
        );
        let median = waits[CALLS / 2];
        let (least, most) = (ceiling.mul_f64(0.32), ceiling.mul_f64(0.68) + late);
        assert!((least..most).contains(&median), "retry {}: half below {median:?}", k + 1);
    }
}

/// Envoy cuts both intervals to whole milliseconds, makes at least one of them, and only then compares them.
#[test]
fn both_intervals_are_at_least_a_millisecond() {
    for (base, most, ms) in [
        ("0.0001s", Some("0.0009s"), Some((1, 1))),
        ("0.0009s", Some("0.0001s"), Some((1, 1))),
        ("0.0015s", Some("0.0012s"), Some((1, 1))),
        ("0.0029s", Some("0.0120s"), Some((2, 12))),
        ("0.0029s", None, Some((2, 20))),
        ("0.0020s", Some("0.0019s"), None),
    ] {
        let most = most.map_or(String::new(), |most| format!(", max_interval: {most}"));
        let text = bootstrap(1, &format!("{{ base_interval: {base}{most} }}"));
        let ours = import(&text).map(|found| *found.policy.backoff());
        let ours = ours.ok().map(|backoff| (backoff.base.as_millis(), backoff.cap.as_millis()));
        assert_eq!(ours, ms, "{base}{most}");
        assert_eq!(validate(&text).is_ok(), ms.is_some(), "Envoy on {base}{most}");
    }
}
