//! Requests that wait until their upstream is back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use redial_policy::file::{AccessLog, Address};
use redial_proxy::Proxy;

use crate::access::logged;
use crate::admin::{page, with_table};
use crate::kit::{GET, OK, PATIENCE, Running, Upstream, Wire, file, port};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy";

/// Longer than a test waits.
const HOLD: &str = "policy = \"hold\"\n[policy.hold]\ndeadline = \"1m\"\n";

/// The same with a budget that pays for nothing: requests are parked until their deadline.
const DRY: &str = "policy = \"dry\"\n[policy.dry]\ndeadline = \"1m\"\nbudget = { tokens = { capacity = 20000, cost = 2000, opening = 0 } }\n";

/// So many requests in a moment, and those that follow are not alone.
const TRAFFIC: usize = 30;

/// An upstream that is busy after so many times that traffic.
fn busy_after(times: usize) -> Upstream {
    let left = AtomicUsize::new(times * TRAFFIC);
    Upstream::new(move |accepted| {
        while accepted.request().is_some() {
            let more = |left: usize| left.checked_sub(1);
            let is_well = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok();
            accepted.respond(if is_well { OK } else { BUSY });
        }
    })
}

fn make_traffic(port: u16) {
    let mut caller = Wire::connect(port);
    for _ in 0..TRAFFIC {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
    }
}

/// What a new user writes.
const FIRST: &str = "policy = \"first\"\n[policy.first]\nattempt_timeout = \"300ms\"\n";

#[test]
fn a_response_after_a_wait_says_how_long_it_was() {
    let upstream = Upstream::in_turn(&[BUSY, OK]);
    let (proxy, lines) = logged(AccessLog::Text, upstream.port, HOLD);
    let response = proxy.ask(GET);
    assert_eq!(response.status(), 200);
    let parked = response.get("redial-parked").unwrap();
    let seconds: f64 = parked.parse().unwrap();
    assert!(seconds > 0.0, "{parked}");
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains(&format!(" attempts=2 parked={parked}s ")), "{line}");
}

#[test]
fn a_first_request_that_times_out_twice_succeeds() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        match accepted.number {
            0 | 1 => drop(accepted.wire.rest()),
            _ => accepted.respond(OK),
        }
    });
    let proxy = Running::before(&upstream, FIRST);
    assert_eq!((proxy.ask(GET).status(), upstream.connections()), (200, 3));
}

#[test]
fn a_response_without_a_wait_does_not_mention_one() {
    let upstream = Upstream::always(OK);
    let (proxy, lines) = logged(AccessLog::Json, upstream.port, HOLD);
    assert_eq!(proxy.ask(GET).get("redial-parked"), None);
    let line = lines.recv_timeout(PATIENCE).unwrap();
    assert!(line.contains("\"parked_ms\":null"), "{line}");
}

/// The number of parked requests.
fn await_parked(admin: u16, count: u32) {
    let deadline = Instant::now() + PATIENCE;
    while !page(admin, "/budgets").contains(&format!("\"parked\": {count},")) {
        assert!(Instant::now() < deadline, "{}", page(admin, "/budgets"));
    }
}

#[test]
fn a_caller_that_leaves_gives_its_place_back() {
    let upstream = busy_after(1);
    let (proxy, admin) = with_table(&upstream, DRY);
    make_traffic(proxy.port);
    let mut caller = proxy.connect();
    caller.send(GET);
    await_parked(admin, 1);
    let metrics = page(admin, "/metrics");
    for name in ["redial_parked{upstream=\"app\"}", "redial_parked_seconds_count{upstream=\"app\"}"]
    {
        assert!(metrics.contains(name), "{metrics}");
    }
    drop(caller);
    await_parked(admin, 0);
}

#[test]
fn one_limit_counts_the_requests_of_all_upstreams() {
    let upstream = busy_after(2);
    let to = format!("to = \"http://127.0.0.1:{}\"\npolicy = \"dry\"\n", upstream.port);
    let (_, policy) = DRY.split_once('\n').unwrap();
    let mut file =
        file(&format!("[proxy]\nparked = 1\n[upstream.app]\n{to}[upstream.other]\n{to}{policy}"));
    file.proxy.admin = Some(Address::Tcp("127.0.0.1:0".parse().unwrap()));
    let proxy = Proxy::start(&file).unwrap();
    let Some(Address::Tcp(admin)) = proxy.admin() else { panic!("no admin address") };
    make_traffic(port(&proxy, "app"));
    make_traffic(port(&proxy, "other"));
    let mut waiting = Wire::connect(port(&proxy, "app"));
    waiting.send(GET);
    await_parked(admin.port(), 1);
    let mut refused = Wire::connect(port(&proxy, "other"));
    refused.send(GET);
    let response = refused.response();
    assert_eq!((response.status(), response.get("redial-stop")), (503, Some("budget")));
    assert_eq!(response.get("redial-parked"), None);
}

#[test]
fn the_answer_at_the_deadline_is_the_last_response() {
    let upstream = busy_after(1);
    let proxy = Running::before(&upstream, &DRY.replace("1m", "1s"));
    make_traffic(proxy.port);
    let response = proxy.ask(GET);
    assert_eq!((response.status(), upstream.requests().len()), (503, TRAFFIC + 1));
    assert!(response.get("redial-parked").is_some(), "{response:?}");
    assert!(response.get("redial-stop").is_some(), "its caller does not retry: {response:?}");
}

/// The upstream fails only after the file has been replaced, so that the retry is made after that.
#[test]
fn a_reload_leads_parked_requests_to_the_new_endpoints() {
    let (reloaded, has_reloaded) = channel::<()>();
    let has_reloaded = Mutex::new(has_reloaded);
    let old = Upstream::new(move |accepted| {
        accepted.request();
        accepted.tell("received");
        has_reloaded.lock().unwrap().recv().unwrap();
        accepted.respond(BUSY);
    });
    let new = Upstream::always(OK);
    let proxy = Running::before(&old, HOLD);
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(old.event(), "received");
    let next = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", new.port);
    proxy.proxy.reload(&file(&next)).unwrap();
    reloaded.send(()).unwrap();
    assert_eq!(caller.response().status(), 200);
    assert_eq!((old.requests().len(), new.requests().len()), (1, 1));
}
