//! Many connections: as many callers as the proxy accepts by default, and idle connections to an upstream that restarts.
#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::kit::{GET, OK, Upstream, Wire};
use crate::process::Process;

const CONNECTIONS: usize = 10_000;
const THREADS: usize = 8;

/// This process and that of the proxy each have one end of every connection.
fn allow_descriptors(connections: usize) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = connections as u64 + 1_000;
    assert!(most >= needed, "the limit of open files is {most}: raise it to {needed} (ulimit -Hn)");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

fn ask(caller: &mut Wire) {
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
}

/// Opens connections that stay open, with a request on each.
fn crowd(port: u16) -> Vec<Wire> {
    let open = move || {
        let mut caller = Wire::connect(port);
        ask(&mut caller);
        caller
    };
    thread::scope(|scope| {
        let opening = || (0..CONNECTIONS / THREADS).map(|_| open()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(opening)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn ten_thousand_callers_are_answered_and_leave_nothing_behind() {
    allow_descriptors(CONNECTIONS);
    let upstream = Upstream::always(OK);
    let text = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port);
    let process = Process::start("crowd", &text);
    let port = process.port("app");
    let before = (process.descriptors(), process.resident());
    let mut callers = crowd(port);
    let more = process.descriptors() - before.0;
    assert!(more <= CONNECTIONS + 2 * THREADS, "{more} more descriptors");
    // The proxy closes connections that were idle for 75 s, which on a slow machine are the first ones.
    callers.retain(|caller| !caller.is_closed_now());
    assert!(more >= callers.len(), "{more} more descriptors for {} callers", callers.len());
    // Beyond the limit, so it is accepted in place of another one.
    callers.pop();
    ask(&mut Wire::connect(port));
    let each = ((process.resident() - before.1) << 10) / CONNECTIONS as u64;
    assert!(each < 32 << 10, "a connection takes {each} bytes");
    drop(callers);
    let now = || (process.descriptors(), process.resident());
    let is_as_before =
        |(descriptors, resident)| descriptors <= before.0 + 1 && resident < before.1 + (16 << 10);
    // The limit only ends a test that has failed.
    let mut tries = (0..1200).inspect(|_| thread::sleep(Duration::from_millis(100)));
    let is_over = tries.any(|_| is_as_before(now()));
    assert!(is_over, "(descriptors, KiB) before: {before:?}, after: {:?}", now());
    process.end();
}

/// So many that a stack which grew with each of them would overflow.
const STALE: usize = 3_000;

#[test]
fn an_upstream_that_closed_thousands_of_idle_connections_is_connected_to_again() {
    allow_descriptors(2 * STALE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = format!("[proxy]\nthreads = 1\n[upstream.app]\nto = \"http://127.0.0.1:{port}\"\n");
    let process = Process::start("stale", &to);
    let accept = move || {
        let mut wire = Wire::new(listener.accept().unwrap().0);
        wire.request().unwrap();
        wire
    };
    let call = || {
        let mut caller = Wire::connect(process.port("app"));
        caller.send(GET);
        caller
    };
    // No request is answered before all have been sent, so that each needs a connection.
    let mut pairs: Vec<(Wire, Wire)> = (0..STALE).map(|_| (call(), accept())).collect();
    for (caller, upstream) in &mut pairs {
        upstream.send(OK);
        assert_eq!(caller.response().text(), "ok");
    }
    drop(pairs);
    // On a thread, so that a proxy that has crashed is noticed by its caller.
    thread::spawn(move || accept().send(OK));
    assert_eq!(call().response().text(), "ok");
    process.end();
}
