//! Several endpoints of one upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::kit::{GET, OK, PATIENCE, Running, Upstream, free_port};

const TWICE: &str = "policy = \"twice\"\n[policy.twice]\nattempts = 2\nbackoff = { base = \"1ms\" }\nbudget = \"none\"\n";
const DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

fn targets(ports: &[u16]) -> String {
    let urls: Vec<String> =
        ports.iter().map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
    format!("[{}]", urls.join(", "))
}

#[test]
fn a_retry_goes_to_another_endpoint() {
    let (bad, good) = (Upstream::always(DOWN), Upstream::always(OK));
    // Whatever the first attempt meets, two attempts are enough.
    let proxy = Running::to(&targets(&[bad.port, good.port]), TWICE);
    for _ in 0..50 {
        assert_eq!(proxy.ask(GET).status(), 200);
    }
    assert_eq!(good.requests().len(), 50);
}

#[test]
fn a_hedge_goes_to_another_endpoint() {
    // Neither answers the first request that arrives at either. So it is the hedge that is answered, and only by the other
    // endpoint: on this one, or on a retry there, it would hang.
    let is_first = Arc::new(AtomicBool::new(true));
    let endpoint = || {
        let (is_first, stuck) = (Arc::clone(&is_first), AtomicBool::new(false));
        Upstream::new(move |accepted| {
            while accepted.request().is_some() {
                if is_first.swap(false, Ordering::SeqCst) {
                    stuck.store(true, Ordering::SeqCst);
                }
                if stuck.load(Ordering::SeqCst) {
                    accepted.wire.rest();
                    return;
                }
                accepted.respond(OK);
            }
        })
    };
    let (one, two) = (endpoint(), endpoint());
    let hedged = "policy = \"hedged\"\n[policy.hedged]\nattempts = 2\ndeadline = \"1m\"\nbudget = \"none\"\n\
                  hedge = { after = \"20ms\" }\n";
    let proxy = Running::to(&targets(&[one.port, two.port]), hedged);
    assert_eq!(proxy.ask(GET).status(), 200);
    assert_eq!((one.requests().len(), two.requests().len()), (1, 1));
}

#[test]
fn an_endpoint_that_refuses_connections_costs_no_request() {
    let good = Upstream::always(OK);
    let proxy = Running::to(&targets(&[free_port(), good.port]), TWICE);
    for _ in 0..50 {
        let post = "POST / HTTP/1.1\r\nhost: app\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(proxy.ask(post).status(), 200);
    }
    assert_eq!(good.requests().len(), 50);
}

#[test]
fn endpoints_that_fail_are_ejected_and_then_the_error_says_so() {
    let (one, two) = (Upstream::always(DOWN), Upstream::always(DOWN));
    let rule = "{ lookback = { calls = 2 }, minimum_calls = 2, open = \"1h\" }";
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
    let table = format!("endpoint = {{ breaker = {rule} }}\n{once}");
    let proxy = Running::to(&targets(&[one.port, two.port]), &table);
    for _ in 0..4 {
        assert_eq!(proxy.ask(GET).text(), "");
    }
    let response = proxy.ask(GET);
    assert_eq!(response.status(), 503);
    let text = response.text();
    assert!(
        text.contains("no endpoint of the upstream is available: 2 ejected by the breaker"),
        "{text}"
    );
    assert_eq!((one.requests().len(), two.requests().len()), (2, 2));
}

#[test]
fn a_slow_endpoint_gets_few_requests() {
    let slow = Upstream::new(|accepted| {
        while accepted.request().is_some() {
            std::thread::sleep(Duration::from_secs(1));
            accepted.respond(OK);
        }
    });
    let fast = Upstream::always(OK);
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
    let proxy = Running::to(&targets(&[slow.port, fast.port]), once);
    for _ in 0..100 {
        assert_eq!(proxy.ask(GET).status(), 200);
    }
    // With two endpoints both are drawn each time, so the slow one gets a request only before it has shown that it is.
    assert!(slow.requests().len() <= 2, "{} of 100", slow.requests().len());
}

#[test]
fn a_name_without_an_address_is_an_error_that_says_so() {
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
    let proxy = Running::to("\"http://nowhere.invalid\"", once);
    let response = proxy.ask(GET);
    assert_eq!(response.status(), 503);
    assert!(
        response.text().contains("the name of the upstream has no address"),
        "{}",
        response.text()
    );
}

#[test]
fn an_error_says_which_limit_keeps_a_request_from_all_endpoints() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.tell("received");
        accepted.wire.rest();
    });
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\ndeadline = \"1m\"\n";
    let table = format!("endpoint = {{ concurrency = 1 }}\n{once}");
    let proxy = Running::to(&targets(&[upstream.port]), &table);
    let mut first = proxy.connect();
    first.send(GET);
    assert_eq!(upstream.event(), "received");
    let text = proxy.ask(GET).text();
    let reason = "no endpoint of the upstream is available: 1 at the concurrency limit";
    assert!(text.contains(reason) && !text.contains("breaker"), "{text}");
}

#[test]
fn an_error_says_that_all_endpoints_fail_their_check() {
    let upstream = Upstream::always(DOWN);
    let table = format!("health = {{ path = \"/\", every = \"1h\" }}\n{TWICE}");
    let proxy = Running::to(&targets(&[upstream.port]), &table);
    let deadline = Instant::now() + PATIENCE;
    let text = loop {
        // Until the check has failed, the upstream's own response is returned.
        let text = proxy.ask(GET).text();
        if !text.is_empty() || Instant::now() > deadline {
            break text;
        }
    };
    let reason = "no endpoint of the upstream is available: 1 failing the health check";
    assert!(text.contains(reason) && !text.contains("breaker"), "{text}");
}

#[test]
fn callers_that_send_slowly_do_not_eject_endpoints() {
    let endpoint = || {
        Upstream::new(|accepted| {
            while accepted.request().is_some() {
                accepted.respond(OK);
            }
        })
    };
    let (one, other) = (endpoint(), endpoint());
    for policy in ["attempts = 1", "attempts = 4"] {
        let table = format!("policy = \"p\"\n[policy.p]\n{policy}\ndeadline = \"2s\"\n");
        let proxy = Running::to(&targets(&[one.port, other.port]), &table);
        let mut slow: Vec<_> = (0..40).map(|_| proxy.connect()).collect();
        for caller in &mut slow {
            caller.send("POST /slow HTTP/1.1\r\nhost: app\r\ncontent-length: 100000\r\n\r\nx");
        }
        for caller in &mut slow {
            let response = caller.response();
            assert_eq!(response.status(), 408, "{policy}: {}", response.text());
        }
        for _ in 0..40 {
            assert_eq!(proxy.ask(GET).status(), 200, "{policy}");
        }
    }
}
