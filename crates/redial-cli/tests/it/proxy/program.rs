//! `redial proxy … -- PROGRAM`.

use std::net::TcpListener;
use std::process::Output;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{FREE, REDIAL, Server, upstream};
use crate::{Scratch, eventually, exit_code, program, redial, runs, text};

/// Runs a program beside a sidecar with one upstream, `my-api`.
fn beside(server: &Server, command: &[&str]) -> Output {
    let upstream = format!("my-api={}", server.url());
    let args = ["proxy", "--upstream", &upstream, "--"];
    program(REDIAL).args(args).args(command).output().unwrap()
}

#[test]
fn a_python_program_survives_a_blip() {
    // Every second request fails.
    let server = Server::new(|number, _| if number % 2 == 0 { 503 } else { 200 });
    let app = "\
import os, urllib.request
for _ in range(5):
    print(urllib.request.urlopen(os.environ['MY_API_URL'] + '/charges').status)
";
    let output = beside(&server, &["python3", "-c", app]);
    assert_eq!(text(&output.stdout), "200\n".repeat(5), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(server.requests().len(), 10);
    // The program's output is not mixed with the log, which has a line for each request.
    let log = text(&output.stderr);
    assert_eq!(log.matches("my-api GET /charges 200").count(), 5, "{log}");
    assert_eq!(log.matches("attempts=2").count(), 5, "{log}");
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    let server = Server::ok();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        assert_eq!(beside(&server, &["sh", "-c", script]).status.code(), Some(code), "{script}");
    }
    let missing = beside(&server, &["no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("cannot start no-such-program"));
}

#[test]
fn signals_go_to_the_program_which_can_still_send_requests() {
    let server = Server::ok();
    let files = Scratch::new("proxy-signals");
    let script = "\
import os, signal, sys, urllib.request
def end(number, frame):
    print(urllib.request.urlopen(os.environ['MY_API_URL']).status, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], 'w').close()
while True: signal.pause()
";
    let (upstream, ready) = (format!("my-api={}", server.url()), files.path("ready"));
    let mut command = program(REDIAL);
    command.args(["proxy", "--upstream", &upstream, "--", "python3", "-c", script, &ready]);
    command.stdout(std::fs::File::create(files.path("out")).unwrap());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    eventually(|| std::path::Path::new(&ready).exists());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(exit_code(&mut child), Some(3));
    assert_eq!(std::fs::read_to_string(files.path("out")).unwrap(), "200\n");
}

#[test]
fn a_sidecar_that_is_killed_takes_its_program_with_it() {
    let server = Server::ok();
    let files = Scratch::new("proxy-killed");
    let (upstream, pid) = (format!("api={}", server.url()), files.path("pid"));
    let script = "echo $$ > $0.new; mv $0.new $0; exec sleep 600";
    let mut command = program(REDIAL);
    command.args(["proxy", "--upstream", &upstream, "--", "sh", "-c", script, &pid]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    eventually(|| std::path::Path::new(&pid).exists());
    let pid = std::fs::read_to_string(pid).unwrap();
    let pid = pid.trim();
    assert!(runs(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(|| !runs(pid));
}

/// What is wrong, and what the error has to name.
fn mistakes(files: &Scratch, server: &Server, used: u16) -> Vec<(String, &'static str)> {
    let to = server.url();
    let not_pem = files.file("not.pem", "nothing");
    vec![
        (
            format!("[upstream.app]\nto = \"{to}\"\nlisten = \"127.0.0.1:{used}\"\n"),
            "upstream.app.listen",
        ),
        (
            format!("[proxy]\nadmin = \"127.0.0.1:{used}\"\n[upstream.app]\nto = \"{to}\"\n"),
            "proxy.admin",
        ),
        (
            "[upstream.app]\nto = \"http://127.0.0.1:7999\"\nlisten = \"127.0.0.1:7999\"\n"
                .to_owned(),
            "would loop",
        ),
        (format!("[upstream.app]\nto = \"{to}\"\npolicy = \"none\"\n"), "upstream.app.policy"),
        (
            format!(
                "[upstream.app]\nto = \"{to}\"\n[[route]]\nupstream = \"other\"\npolicy = \"p\"\n[policy.p]\n"
            ),
            "other",
        ),
        (
            format!(
                "[upstream.app]\nto = \"{to}\"\nlisten_tls = {{ cert = \"{not_pem}\", key = \"{not_pem}\" }}\n"
            ),
            "upstream.app.listen_tls.cert",
        ),
        ("[policy.p]\n".to_owned(), "no [upstream.NAME] table"),
        ("[upstream\n".to_owned(), "proxy.toml:1"),
    ]
}

#[test]
fn what_cannot_start_is_an_error_with_its_place_and_starts_nothing() {
    let server = Server::ok();
    let files = Scratch::new("proxy-mistakes");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = listener.local_addr().unwrap().port();
    let marker = files.path("started");
    for (file, place) in mistakes(&files, &server, used) {
        let path = files.file("proxy.toml", &file);
        let output = redial(&["proxy", &path, "--", "touch", &marker]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}\n{error}");
        assert!(error.contains(place), "{place}: {error}");
        assert!(!std::path::Path::new(&marker).exists(), "{file}");
    }
}

#[test]
fn a_check_reads_certificates_and_binds_nothing() {
    let server = Server::ok();
    let files = Scratch::new("proxy-check");
    let good = format!("[upstream.app]\nto = \"{0}\"\nlisten = \"127.0.0.1:9\"\n", server.url());
    let output = redial(&["proxy", "--check", &files.file("good.toml", good)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let tls = "tls = { ca = \"missing.pem\" }";
    let bad = format!("[upstream.app]\nto = \"https://127.0.0.1\"\n{tls}\n");
    let output = redial(&["proxy", "--check", &files.file("bad.toml", bad)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("upstream.app.tls.ca"), "{}", text(&output.stderr));
    // Not an upstream of the tests: nothing is asked or bound.
    let in_use = format!("{FREE}{}", upstream("app", &server, ""));
    let in_use = in_use.replace("127.0.0.1:0", &format!("127.0.0.1:{}", server.port));
    let in_use =
        in_use.replacen(&format!("to = \"{}\"", server.url()), "to = \"http://10.0.0.1\"", 1);
    let in_use =
        in_use.replacen(&format!("admin = \"127.0.0.1:{}\"", server.port), "admin = \"none\"", 1);
    let output = redial(&["proxy", "--check", &files.file("in_use.toml", in_use)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_check_creates_no_store() {
    let files = Scratch::new("proxy-check-store");
    let check = |store: &str| {
        let text = format!(
            "[upstream.app]\nto = \"http://127.0.0.1:9\"\nidempotency = {{ store = \"sqlite:{store}\" }}\n"
        );
        let output = redial(&["proxy", "--check", &files.file("proxy.toml", text)]);
        (output.status.code(), self::text(&output.stderr).to_owned())
    };
    let store = files.path("keys.db");
    let (code, error) = check(&store);
    assert_eq!(code, Some(0), "{error}");
    assert!(!std::path::Path::new(&store).exists());
    for wrong in [files.path("nowhere/keys.db"), files.file("text.db", "not a database at all")] {
        let (code, error) = check(&wrong);
        assert_eq!(code, Some(2));
        assert!(error.contains("upstream.app.idempotency.store: cannot open"), "{error}");
    }
}

#[test]
fn an_upstream_of_the_command_line_can_have_another_policy() {
    let server = Server::new(|_, _| 503);
    let files = Scratch::new("proxy-policy");
    let twice = "attempts = 2\nbackoff = { base = '1ms', cap = '1ms' }\npark = 'none'\n";
    let twice = files.file("twice.toml", twice);
    let upstream = format!("my-api={}", server.url());
    let app = "\
import os, urllib.request
try: urllib.request.urlopen(os.environ['MY_API_URL'])
except Exception as error: print(error.code)
";
    let run = |flags: &[&str]| {
        let mut command = program(REDIAL);
        command.args(["proxy", "--upstream", &upstream]).args(flags);
        command.args(["--", "python3", "-c", app]).output().unwrap()
    };
    let output = run(&["--policy", &twice, "--attempt-timeout", "5s"]);
    assert_eq!(text(&output.stdout), "503\n", "{}", text(&output.stderr));
    assert_eq!(server.requests().len(), 2);
    let output = run(&["--attempt-timeout", "1h"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("--attempt-timeout: attempt_timeout is 1h, but must be "), "{error}");
    let output = redial(&["proxy", "--policy", "web", "--", "true"]);
    assert!(text(&output.stderr).contains("--upstream <NAME=URL>"), "{}", text(&output.stderr));
}
