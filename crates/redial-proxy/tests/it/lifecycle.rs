//! Reloads and the end.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::kit::{GET, OK, Running, Upstream, Wire, file, free_port, port};

const DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

fn app(to: u16, more: &str) -> String {
    format!("[upstream.app]\nto = \"http://127.0.0.1:{to}\"\n{more}")
}

#[test]
fn a_reload_applies_to_the_next_request_of_an_open_connection() {
    let (old, new) = (Upstream::always(OK), Upstream::always(OK));
    let proxy = Running::before(&old, "");
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    proxy.proxy.reload(&file(&app(new.port, ""))).unwrap();
    assert_eq!(port(&proxy.proxy, "app"), proxy.port, "a free port stays");
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    assert_eq!((old.requests().len(), new.requests().len()), (1, 1));
}

#[test]
fn a_reload_does_not_end_requests_in_flight() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.tell("received");
        thread::sleep(Duration::from_millis(200));
        accepted.respond(OK);
    });
    let proxy = Running::before(&upstream, "");
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(upstream.event(), "received");
    proxy.proxy.reload(&file(&app(free_port(), ""))).unwrap();
    assert_eq!(caller.response().text(), "ok");
}

#[test]
fn a_policy_that_did_not_change_keeps_its_budget_and_endpoints_their_connections() {
    let upstream = Upstream::always(DOWN);
    let policy = "policy = \"p\"\n[policy.p]\nattempts = 2\nbackoff = { base = \"1ms\" }\npark = \"none\"\n\
                  budget = { tokens = { capacity = 10, cost = 5 } }\n";
    let proxy = Running::of(&app(upstream.port, policy));
    let attempts = || {
        let before = upstream.requests().len();
        assert_eq!(proxy.ask(GET).status(), 503);
        upstream.requests().len() - before
    };
    assert_eq!([attempts(), attempts(), attempts()], [2, 2, 1], "the bucket pays for two retries");
    let reload = |text: &str| proxy.proxy.reload(&file(&app(upstream.port, text))).unwrap();
    reload(&format!("buffer = \"1KiB\"\n{policy}"));
    assert_eq!(attempts(), 1);
    assert_eq!(upstream.connections(), 1);
    reload(&policy.replace("cost = 5", "cost = 10"));
    assert_eq!([attempts(), attempts()], [2, 1]);
}

#[test]
fn idle_connections_to_an_endpoint_that_is_gone_are_closed_although_a_caller_stays() {
    let old = Upstream::new(|accepted| {
        while accepted.request().is_some() {
            accepted.respond(OK);
        }
        accepted.tell("closed");
    });
    let proxy = Running::before(&old, "");
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    proxy.proxy.reload(&file(&app(free_port(), ""))).unwrap();
    assert_eq!(old.event(), "closed");
}

#[test]
fn a_fleet_whose_ledger_has_moved_is_asked_at_the_new_place() {
    let upstream = Upstream::always(OK);
    let [first, second] = [(), ()].map(|()| {
        Upstream::new(|accepted| {
            accepted.tell("connected");
            accepted.wire.rest();
        })
    });
    let text = |ledger: &Upstream| {
        let policy =
            "policy = \"p\"\n[policy.p]\nfleet = \"f\"\nbudget = { window = { ratio = 0.2 } }\n";
        let at = format!("[fleet.f]\nredis = \"redis://127.0.0.1:{}\"\n", ledger.port);
        app(upstream.port, &format!("{policy}{at}"))
    };
    let proxy = Running::of(&text(&first));
    assert_eq!(proxy.ask(GET).status(), 200);
    assert_eq!(first.event(), "connected");
    proxy.proxy.reload(&file(&text(&second))).unwrap();
    assert_eq!(proxy.ask(GET).status(), 200);
    assert_eq!(second.event(), "connected");
}

#[test]
fn listeners_come_and_go() {
    let upstream = Upstream::always(OK);
    let (first, second) = (free_port(), free_port());
    let text = |name: &str, listen: u16| {
        let to = upstream.port;
        format!(
            "[upstream.{name}]\nto = \"http://127.0.0.1:{to}\"\nlisten = \"127.0.0.1:{listen}\"\n"
        )
    };
    let proxy = Running::of(&text("app", first));
    proxy.proxy.reload(&file(&(text("app", first) + &text("more", second)))).unwrap();
    let ask = |port: u16| {
        let mut caller = Wire::connect(port);
        caller.send(GET);
        caller.response().status()
    };
    assert_eq!((ask(first), ask(second)), (200, 200));
    // The same address under another name, and open connections of both upstreams that are gone.
    let (mut stays, mut goes) = (Wire::connect(first), Wire::connect(second));
    for caller in [&mut stays, &mut goes] {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
    }
    proxy.proxy.reload(&file(&text("renamed", first))).unwrap();
    stays.send(GET);
    assert_eq!(stays.response().status(), 200);
    goes.send(GET);
    let response = goes.response();
    assert_eq!(
        (response.status(), response.text().as_str()),
        (503, "this upstream is no longer configured\n")
    );
    assert_eq!(ask(first), 200);
    // Closed on the proxy's own thread.
    for _ in 0..100 {
        if TcpStream::connect(("127.0.0.1", second)).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the listener of an upstream that is gone stays open");
}

#[test]
fn open_connections_follow_their_port_to_another_upstream() {
    let (a, b) = (Upstream::always(OK), Upstream::always(OK));
    let (first, second) = (free_port(), free_port());
    let text = |of_a: u16, of_b: u16| {
        let upstream = |name: &str, to: u16, listen: u16| {
            app(to, &format!("listen = \"127.0.0.1:{listen}\"\n")).replace("app", name)
        };
        upstream("app", a.port, of_a) + &upstream("b", b.port, of_b)
    };
    let proxy = Running::of(&text(first, second));
    let mut caller = Wire::connect(first);
    let mut ask = || {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
        (a.requests().len(), b.requests().len())
    };
    assert_eq!(ask(), (1, 0));
    proxy.proxy.reload(&file(&text(second, first))).unwrap();
    assert_eq!(ask(), (1, 1));
    assert_eq!((port(&proxy.proxy, "app"), port(&proxy.proxy, "b")), (second, first));
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let upstream = Upstream::always(OK);
    let proxy = Running::before(&upstream, "");
    let used = Upstream::always(OK);
    let text = app(upstream.port, "")
        + &format!(
            "[upstream.b]\nto = \"http://127.0.0.1:1\"\nlisten = \"127.0.0.1:{}\"\n",
            used.port
        );
    let error = proxy.proxy.reload(&file(&text)).unwrap_err().to_string();
    assert!(error.starts_with("upstream.b.listen: cannot listen on"), "{error}");
    assert_eq!(proxy.ask(GET).status(), 200);
    assert_eq!(proxy.proxy.addresses().len(), 1);
}

#[test]
fn no_request_fails_during_reloads() {
    let upstream = Upstream::always(OK);
    let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
    let proxy = Running::of(&app(upstream.port, once));
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut caller = proxy.connect();
                while !is_over.load(Ordering::Relaxed) {
                    caller.send(GET);
                    assert_eq!(caller.response().text(), "ok");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..100 {
            let buffer = format!("buffer = \"{}KiB\"\n{once}", round + 1);
            proxy.proxy.reload(&file(&app(upstream.port, &buffer))).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(upstream.requests().len(), served.load(Ordering::Relaxed));
}

#[test]
fn a_drain_lets_requests_finish_and_then_closes_their_connections() {
    let upstream = Upstream::new(|accepted| {
        while let Some(request) = accepted.request() {
            if request.start.contains("/slow") {
                accepted.tell("received");
                thread::sleep(Duration::from_millis(600));
            }
            accepted.respond(OK);
        }
    });
    let proxy = Running::before(&upstream, "");
    let mut busy = proxy.connect();
    let mut idle = proxy.connect();
    idle.send(GET);
    assert_eq!(idle.response().status(), 200);
    busy.send("GET /slow HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(upstream.event(), "received");
    let address = proxy.port;
    let draining = thread::spawn(move || proxy.proxy.drain());
    let response = busy.response();
    assert_eq!((response.text().as_str(), response.get("connection")), ("ok", Some("close")));
    assert!(busy.is_closed() && idle.is_closed());
    draining.join().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", address)).is_err());
}

#[test]
fn a_drain_has_a_limit() {
    let upstream = Upstream::new(|accepted| {
        accepted.request();
        accepted.tell("received");
        accepted.wire.rest();
    });
    let proxy = Running::of(&format!("[proxy]\ndrain = \"100ms\"\n{}", app(upstream.port, "")));
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(upstream.event(), "received");
    proxy.proxy.drain();
    assert!(caller.is_closed());
}

#[test]
fn threads_share_the_connections_evenly() {
    let upstream = Upstream::always(OK);
    let proxy = Running::of(&format!("[proxy]\nthreads = 2\n{}", app(upstream.port, "")));
    let mut callers: Vec<Wire> = (0..4).map(|_| proxy.connect()).collect();
    for caller in callers.iter_mut().chain([]) {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
    }
    for caller in &mut callers {
        caller.send(GET);
        assert_eq!(caller.response().status(), 200);
    }
    // One idle connection to the upstream for each thread serves all, one after the other.
    assert_eq!(upstream.connections(), 2);
}
