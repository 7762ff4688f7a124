//! Unsupported parts of a scenario are errors.

use redial_live::Error;

use crate::try_setting;

const SPIKE: &str = "spike={ start = '0s', duration = '1s', factor = 2 }";

fn refused(sets: &[&str]) -> &'static str {
    match try_setting(sets) {
        Err(Error::Unsupported { path, .. }) => path,
        other => panic!("{sets:?}: {other:?}"),
    }
}

#[test]
fn unsupported_parts_are_named() {
    let cases: &[(&str, &[&str])] = &[
        ("duration", &["duration=2h", "window=1s"]),
        ("clients.arrivals", &["clients.arrivals={ synchronised = { callers = 10 } }"]),
        ("clients.arrivals.closed.callers", &["clients.arrivals.closed.callers=100001"]),
        ("clients.keys", &["clients.keys={ uniform = { keys = 10 } }"]),
        ("clients.work", &["clients.work=unsafe"]),
        ("clients.keyed", &["clients.keyed=true"]),
        ("clients.requeue", &["clients.requeue=1s"]),
        ("clients.latency", &["clients.latency=1ms"]),
        ("chain", &["chain.deadline=true"]),
        ("backend.backlog", &["backend.backlog=10"]),
        ("backend.when_full", &["backend.when_full=hang"]),
        ("backend.discipline", &["backend.discipline=lifo"]),
        ("backend.reject_cost", &["backend.reject_cost=0.1"]),
        ("backend.service.per_request", &["backend.service={ base = '1s', per_request = '10ms' }"]),
        ("backend.cancel", &["backend.cancel=true"]),
        ("backend.connections", &["backend.connections=10"]),
        ("backend.shards", &["backend.shards=2"]),
        ("backend.errors", &["backend.errors=0.1"]),
        ("backend.lost_replies", &["backend.lost_replies=0.1"]),
        ("backend.limit", &["backend.limit={ rate = 10, burst = 1 }"]),
        ("backend.hint", &["backend.hint=slots"]),
        ("backend.ban", &["backend.ban={ after = 1, duration = '1s' }"]),
        ("backend.calls", &["backend.calls=['b']", "service.b={ service = '1ms' }"]),
        ("outage.answer", &["outage={ start = '0s', duration = '1s', answer = 'hang' }"]),
        ("brownout.answer", &["brownout={ start = '0s', duration = '1s', answer = 500 }"]),
        ("outage.cost", &["outage={ start = '0s', duration = '1s', cost = 1.0 }"]),
        ("brownout.cost", &["brownout={ start = '0s', duration = '1s', cost = 1.0 }"]),
        ("spike", &[SPIKE, "clients.arrivals={ poisson = { rate = 10 } }"]),
        ("restart", &["restart={ start = '0s', share = 0.5 }"]),
        ("switched_off", &["switched_off={ start = '0s', duration = '1s' }"]),
    ];
    for (path, sets) in cases {
        assert_eq!(refused(sets), *path);
    }
    let text = try_setting(&["backend.shards=2"]).unwrap_err().to_string();
    assert!(text.contains("`backend.shards`") && text.contains("supported: 1"), "{text}");
}
