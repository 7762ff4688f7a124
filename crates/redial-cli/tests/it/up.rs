//! `redial up` as a process: what it serves, what it refuses, and how it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{Scratch, eventually, exit_code, program};

const REDIAL: &str = env!("CARGO_BIN_EXE_redial");

/// A process that serves its page.
struct Up {
    child: Child,
    address: String,
    token: String,
    /// Open until the process has ended: a closed stdout ends it.
    output: (BufReader<ChildStdout>, ChildStderr),
}

impl Up {
    fn start(args: &[&str]) -> Self {
        Self::start_at(&["--listen", "127.0.0.1:0"], args)
    }

    fn start_at(listen: &[&str], args: &[&str]) -> Self {
        let mut child = program(REDIAL)
            .arg("up")
            .args(listen)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        // The address is the last line of the start.
        let found =
            stdout.by_ref().lines().map_while(Result::ok).find(|it| it.contains("/?token="));
        let Some(line) = found else {
            let mut errors = String::new();
            let _ = stderr.read_to_string(&mut errors);
            panic!("{errors}");
        };
        let (address, token) = line.trim().split_once("/?token=").unwrap();
        let address = address.split_once("http://").unwrap().1.to_owned();
        Self { child, address, token: token.to_owned(), output: (stdout, stderr) }
    }

    /// The status and the body of a response.
    fn get(&self, path: &str) -> (u16, String) {
        get(&self.address, &self.token, path)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).1).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, token: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The exit code and the message of a process that does not start.
fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = program(REDIAL).arg("up").args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_browser_is_opened() {
    let scratch = Scratch::new("up-open");
    let opened = scratch.path("opened");
    let browser = scratch.file("browser", format!("#!/bin/sh\necho \"$1\" > {opened}\n"));
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = program(REDIAL);
    command.args(["up", "--page-only", "--for", "1s", "--listen", "127.0.0.1:0", "--open"]);
    command.args(["--data", &scratch.path("data")]);
    let output = command.env("BROWSER", &browser).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    eventually(|| fs::read_to_string(&opened).is_ok_and(|url| url.ends_with('\n')));
    let url = fs::read_to_string(&opened).unwrap();
    assert!(url.contains("/?token=") && printed.contains(&url), "{url}\n{printed}");
    let missing = command.env("BROWSER", scratch.path("none")).output().unwrap();
    let errors = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.success() && errors.contains("cannot open a browser"), "{errors}");
}

#[test]
fn the_demo_serves_everything_and_drains() {
    let scratch = Scratch::new("up-demo");
    let data = scratch.path("data");
    let mut up = Up::start(&["--data", &data]);
    let hello = up.json("/api/hello");
    assert_eq!(hello["mode"], "demo", "{hello}");
    assert_eq!(hello["lines"]["warn"], 1.5, "{hello}");
    assert!(up.get("/").1.contains("<!doctype html>"));
    assert_eq!(up.get("/readyz").0, 200);
    // One registry has the metrics of the naive loop, the sidecar and the queue.
    eventually(|| {
        let page = up.get("/metrics").1;
        [
            r#"redial_calls_total{upstream="naive",origin="fresh"}"#,
            r#"redial_calls_total{upstream="demo",origin="fresh"}"#,
            r#"redial_endpoint_requests_total{upstream="demo""#,
            r#"redial_queue_depth{queue="demo",state="waiting"}"#,
        ]
        .iter()
        .all(|line| page.contains(line))
    });
    let breakers = up.json("/breakers");
    assert!(breakers.is_array(), "{breakers}");
    assert_eq!(up.json("/config")["policy"]["demo"]["attempt_timeout"], "150ms");
    up.signal(Signal::SIGTERM);
    assert_eq!(exit_code(&mut up.child), Some(0));
}

/// The address is pasted as it is printed, and the token must not appear in what may be logged.
#[test]
fn doctor_reads_the_metrics_at_the_printed_address() {
    let scratch = Scratch::new("up-doctor");
    let up = Up::start(&["--data", &scratch.path("data")]);
    let line = |name| format!(r#"redial_calls_total{{upstream="{name}",origin="fresh"}}"#);
    eventually(|| {
        let page = up.get("/metrics").1;
        ["naive", "demo", "queue demo"].iter().all(|name| page.contains(&line(name)))
    });
    let (address, token) = (&up.address, &up.token);
    let ask = |url: &str| {
        let output = program(REDIAL).args(["doctor", url, "--for", "100ms"]).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), said.concat())
    };
    for path in ["/", "/metrics", "/metrics?from=here"] {
        let mark = if path.contains('?') { '&' } else { '?' };
        let (code, said) = ask(&format!("http://{address}{path}{mark}token={token}"));
        // Whether the demo is calm is up to the machine.
        assert!(matches!(code, Some(0 | 1)), "{path}: {said}");
        assert!(said.contains("upstream naive"), "{path}: {said}");
        // The sidecar's upstream has the name of a queue, and is not its workers.
        assert!(
            said.contains("upstream demo") && !said.contains("of demo report"),
            "{path}: {said}"
        );
        let shown = format!("http://{address}/metrics?");
        assert!(said.contains(&shown) && said.contains("token=***"), "{path}: {said}");
        assert!(!said.contains(token), "{path}: {said}");
    }
    let (code, said) = ask(&format!("http://{address}/metrics"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the address that it prints, with its token"), "{said}");
    let (code, said) = ask(&format!("http://{address}/?token=0{token}"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("401") && !said.contains(token), "{said}");
}

#[test]
fn a_second_instance_is_refused_and_the_token_survives_the_first() {
    let scratch = Scratch::new("up-twice");
    let data = scratch.path("data");
    let mut first = Up::start(&["--data", &data]);
    let (code, why) = refused(&["--data", &data, "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("another `redial up` uses this folder"), "{why}");
    assert!(why.contains(&first.child.id().to_string()), "{why}");
    assert_eq!(first.get("/healthz").0, 200);
    first.signal(Signal::SIGINT);
    assert_eq!(exit_code(&mut first.child), Some(0));
    let second = Up::start(&["--data", &data]);
    assert_eq!(second.token, first.token);
}

#[test]
fn a_port_in_use_a_folder_that_is_none_and_an_open_address_are_refused() {
    let scratch = Scratch::new("up-refused");
    let data = scratch.path("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, why) = refused(&["--data", &data, "--listen", &address]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains(&format!("{address} is in use")), "{why}");
    let (code, why) = refused(&["--data", "/dev/null/data", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("/dev/null/data: cannot use this data folder"), "{why}");
    let (code, why) = refused(&["--data", &data, "--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("--allow-host"), "{why}");
    let (code, why) = refused(&["--data", &data, "--allow-host", "http://box"]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("NAME:PORT"), "{why}");
    // A port of the sidecar, with a file.
    let file = scratch.path("proxy.toml");
    let text = format!("[upstream.api]\nlisten = \"{address}\"\nto = \"http://127.0.0.1:9\"\n");
    std::fs::write(&file, text).unwrap();
    let (code, why) = refused(&["--data", &data, "--listen", "127.0.0.1:0", &file]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("upstream.api.listen"), "{why}");
    // Nothing of it holds the folder.
    let up = Up::start(&["--data", &data]);
    assert_eq!(up.get("/healthz").0, 200);
}

#[test]
fn without_listen_a_default_port_in_use_is_replaced_by_a_free_one() {
    let scratch = Scratch::new("up-default");
    // If this fails, another process has the port, and may release it.
    let held = TcpListener::bind("127.0.0.1:7575");
    let mut up = Up::start_at(&[], &["--data", &scratch.path("data"), "--page-only"]);
    assert_eq!(up.json("/api/hello")["mode"], "page-only");
    up.signal(Signal::SIGTERM);
    assert_eq!(exit_code(&mut up.child), Some(0));
    let mut said = String::new();
    up.output.1.read_to_string(&mut said).unwrap();
    let is_default = up.address.ends_with(":7575");
    assert_eq!(said.contains("port 7575 is in use"), !is_default, "{}: {said}", up.address);
    assert!(held.is_err() || !is_default);
}

#[test]
fn a_file_has_its_own_upstreams_and_no_demo() {
    let scratch = Scratch::new("up-file");
    let (data, file) = (scratch.path("data"), scratch.path("proxy.toml"));
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = upstream.local_addr().unwrap();
    let listen = crate::ports::free_address();
    let text = format!(
        "[proxy]\nlog = \"none\"\n[upstream.api]\nlisten = \"{listen}\"\nto = \"http://{to}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    std::thread::spawn(move || {
        for stream in upstream.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    let up = Up::start(&["--data", &data, &file]);
    assert_eq!(up.json("/api/hello")["mode"], "proxy");
    assert_eq!(up.json("/api/hello")["demo"], Value::Null);
    assert_eq!(get(&listen.to_string(), "", "/orders"), (200, "hi".to_owned()));
    let line = r#"redial_calls_total{upstream="api",origin="fresh"} 1"#;
    eventually(|| up.get("/metrics").1.contains(line));
    assert!(!up.get("/metrics").1.contains(r#"upstream="naive""#));
}

#[test]
fn only_the_page_needs_no_folder_lock_and_ends_by_itself() {
    let scratch = Scratch::new("up-page");
    let data = scratch.path("data");
    let mut one = Up::start(&["--data", &data, "--page-only", "--for", "30s"]);
    let two = Up::start(&["--data", &data, "--page-only"]);
    assert_eq!(two.json("/api/hello")["mode"], "page-only");
    assert_eq!(two.get("/metrics").0, 404);
    assert_eq!(two.get("/api/live").0, 404);
    one.signal(Signal::SIGTERM);
    assert_eq!(exit_code(&mut one.child), Some(0));
    let mut short = Up::start(&["--data", &data, "--page-only", "--for", "10ms"]);
    assert_eq!(exit_code(&mut short.child), Some(0));
}
