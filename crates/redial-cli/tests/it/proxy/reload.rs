//! Another file, other addresses and the end, under load.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use nix::sys::signal::Signal;

use super::{FREE, Load, REDIAL, Server, Sidecar, ask, get, upstream};
use crate::{Scratch, eventually, program, redial};

const POLICY: &str = "policy = \"p\"\n[policy.p]\nattempts = 2\n";

#[test]
fn a_hundred_reloads_under_load_fail_no_request() {
    let server = Server::ok();
    let first = format!("{FREE}{}", upstream("app", &server, POLICY));
    let more = format!("{first}{}", upstream("other", &server, ""));
    let other_policy = first.replace("attempts = 2", "attempts = 4");
    let sidecar = Sidecar::start(&first);
    let load = Load::start(sidecar.port("app"), 4);
    for number in 0..100 {
        sidecar.write([&more, &other_policy, &first][number % 3]);
        sidecar.signal(Signal::SIGHUP);
        eventually(|| sidecar.log().matches("proxy.toml: reloaded").count() > number);
    }
    let before = load.sent();
    eventually(|| load.sent() > before + 100);
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn a_file_that_cannot_be_used_is_refused_and_the_old_one_stays() {
    let server = Server::ok();
    let good = format!("{FREE}{}", upstream("app", &server, POLICY));
    let sidecar = Sidecar::start(&good);
    let port = sidecar.port("app");
    sidecar.write("[upstream.app]\nto = 3\n");
    // Without a signal: the change is noticed.
    sidecar.await_log("the new file is not used");
    assert!(sidecar.log().contains("upstream.app.to"), "{}", sidecar.log());
    assert_eq!(get(port, "/"), 200);
    // A port in use is noticed before anything has changed.
    let taken = format!("{good}{}", upstream("taken", &server, ""));
    let second = taken.rfind("127.0.0.1:0").unwrap();
    let taken = format!("{}127.0.0.1:{}{}", &taken[..second], port, &taken[second + 11..]);
    sidecar.write(&taken);
    sidecar.await_log("upstream.taken.listen");
    assert_eq!(get(port, "/"), 200);
    sidecar.write(&good.replace("attempts = 2", "attempts = 3"));
    sidecar.await_log("proxy.toml: reloaded");
    assert_eq!(get(port, "/"), 200);
}

#[test]
fn a_reload_keeps_the_budget_of_a_policy_that_did_not_change() {
    let server = Server::new(|_, path| if path == "/down" { 503 } else { 200 });
    let tight = "policy = \"p\"\n[policy.p]\nattempts = 2\nbackoff = { base = \"1ms\" }\nbudget = { throttling = { capacity = 10, ratio = 0.1 } }\n";
    let file = format!("{FREE}{}", upstream("app", &server, tight));
    let sidecar = Sidecar::start(&file);
    let (port, admin) = (sidecar.port("app"), sidecar.port("admin"));
    let budgets =
        || ask(admin, "GET", "/budgets", "").1.split_once("\r\n\r\n").unwrap().1.to_owned();
    let full = budgets();
    (0..3).for_each(|_| assert_eq!(get(port, "/down"), 503));
    let spent = budgets();
    assert_ne!(spent, full);
    for number in 0..3 {
        let unrelated = format!("buffer = \"{}KiB\"\n", number + 1);
        sidecar
            .write(&format!("{FREE}{}", upstream("app", &server, &format!("{unrelated}{tight}"))));
        sidecar.signal(Signal::SIGHUP);
        eventually(|| sidecar.log().matches("proxy.toml: reloaded").count() > number);
        assert_eq!(budgets(), spent);
    }
    // Another policy has another budget.
    sidecar.write(&file.replace("capacity = 10", "capacity = 20"));
    sidecar.signal(Signal::SIGHUP);
    eventually(|| sidecar.log().matches("proxy.toml: reloaded").count() > 3);
    assert_ne!(budgets(), spent);
}

/// A server whose responses end when they are told to.
fn slow() -> (Server, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let server = Server::new(move |_, path| {
        if path == "/slow" {
            let _ = wait.lock().unwrap().recv();
        }
        200
    });
    (server, go)
}

#[test]
fn a_drain_under_load_fails_no_request() {
    let (server, go) = slow();
    let mut sidecar = Sidecar::start(&format!("{FREE}{}", upstream("app", &server, "")));
    let (port, admin) = (sidecar.port("app"), sidecar.port("admin"));
    let address = format!("127.0.0.1:{admin}");
    assert_eq!(redial(&["proxy", "--ready", &address]).status.code(), Some(0));
    let in_flight: Vec<_> =
        (0..8).map(|_| std::thread::spawn(move || get(port, "/slow"))).collect();
    let is_slow = |head: &&String| head.starts_with("GET /slow");
    eventually(|| server.requests().iter().filter(is_slow).count() == 8);
    let load = Load::start(port, 4);
    eventually(|| load.sent() > 20);
    sidecar.signal(Signal::SIGTERM);
    // Readiness fails while requests are still answered.
    eventually(|| get(admin, "/readyz") == 503);
    assert_eq!(redial(&["proxy", "--ready", &address]).status.code(), Some(1));
    // These clients do not care about readiness. They learn of the end when a connection is refused or closed before
    // the first byte of a response, and never from an error or half a response.
    eventually(|| TcpStream::connect(("127.0.0.1", port)).is_err());
    let failures = load.stop();
    let ends = ["refused", "reset", "Broken pipe", "no response"];
    assert!(failures.iter().all(|it| ends.iter().any(|end| it.contains(end))), "{failures:?}");
    assert!(sidecar.child.try_wait().unwrap().is_none());
    (0..8).for_each(|_| go.send(()).unwrap());
    in_flight.into_iter().for_each(|request| assert_eq!(request.join().unwrap(), 200));
    assert_eq!(sidecar.end(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let (server, go) = slow();
    let mut sidecar = Sidecar::start(&format!("{FREE}{}", upstream("app", &server, "")));
    let port = sidecar.port("app");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: app\r\n\r\n").unwrap();
    eventually(|| !server.requests().is_empty());
    sidecar.signal(Signal::SIGINT);
    sidecar.await_log("draining");
    assert!(sidecar.child.try_wait().unwrap().is_none());
    sidecar.signal(Signal::SIGINT);
    assert_eq!(sidecar.end(), Some(0));
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    assert_eq!(response, "");
    drop(go);
}

#[test]
fn an_endpoint_that_fails_its_check_gets_no_requests_until_it_passes() {
    let is_sick = Arc::<AtomicBool>::default();
    let sick = Arc::clone(&is_sick);
    let server =
        Server::new(
            move |_, path| {
                if path == "/healthz" && sick.load(Ordering::Relaxed) { 500 } else { 200 }
            },
        );
    let health = "health = { path = \"/healthz\", every = \"2s\", timeout = \"2s\" }\npolicy = \"once\"\n[policy.once]\nattempts = 1\n";
    let sidecar = Sidecar::start(&format!("{FREE}{}", upstream("app", &server, health)));
    let port = sidecar.port("app");
    assert_eq!(get(port, "/"), 200);
    is_sick.store(true, Ordering::Relaxed);
    sidecar.await_log("gets no requests until it passes its check: 500");
    let (status, response) = ask(port, "GET", "/", "");
    assert_eq!(status, 503);
    assert!(response.contains("1 failing the health check"), "{response}");
    is_sick.store(false, Ordering::Relaxed);
    sidecar.await_log("passes its check again");
    assert_eq!(get(port, "/"), 200);
}

#[test]
fn names_are_looked_up_again_and_a_failed_lookup_changes_nothing() {
    let server = Server::ok();
    let files = Scratch::new("proxy-names");
    let hosts = files.file("hosts", "127.0.0.1 app.test\n");
    let file = format!(
        "{FREE}[upstream.app]\nto = \"http://app.test:{}\"\nlisten = \"127.0.0.1:0\"\n",
        server.port
    );
    let (path, log) = (files.file("proxy.toml", file), files.path("log"));
    // A file in place of /etc/hosts, for this process only.
    let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" proxy \"$3\"";
    let mut command = program("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", &hosts, REDIAL, &path]).stdin(Stdio::null());
    command.stderr(std::fs::File::create(log).unwrap());
    let sidecar = Sidecar { child: command.spawn().unwrap(), files };
    let (port, admin) = (sidecar.port("app"), sidecar.port("admin"));
    let endpoints = || {
        let metrics = ask(admin, "GET", "/metrics", "").1;
        let healthy = metrics.lines().filter(|line| line.starts_with("redial_endpoint_healthy{"));
        healthy.map(|line| line.split('"').nth(3).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = format!("127.0.0.1:{}", server.port);
    let two = format!("127.0.0.2:{}", server.port);
    assert_eq!(endpoints(), std::slice::from_ref(&one));
    assert_eq!(get(port, "/"), 200);
    std::fs::write(&hosts, "127.0.0.1 app.test\n127.0.0.2 app.test\n").unwrap();
    eventually(|| endpoints() == [one.clone(), two.clone()]);
    // Nothing resolves any more. The next change shows that lookups went on.
    std::fs::write(&hosts, "").unwrap();
    assert_eq!(get(port, "/"), 200);
    std::fs::write(&hosts, "127.0.0.2 app.test\n").unwrap();
    eventually(|| {
        let now = endpoints();
        assert!(!now.is_empty());
        now == [two.clone()]
    });
}
