//! `redial proxy` as a process: curl through it to a server, and its end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn file(text: &str) -> String {
    let path = crate::unique("proxy.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn it_forwards_requests_and_drains_on_a_signal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (arrived, arrives) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        arrived.send(()).unwrap();
        released.recv().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
    });
    let path = file(&format!("[upstream.app]\nto = \"http://127.0.0.1:{port}\"\n"));
    let mut proxy = crate::program(env!("CARGO_BIN_EXE_redial"));
    let mut proxy = proxy.args(["proxy", &path]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("app: ").unwrap().to_owned();
    let curl =
        thread::spawn(move || Command::new("curl").args(["-sS", &address]).output().unwrap());
    arrives.recv().unwrap();
    let id = Pid::from_raw(i32::try_from(proxy.id()).unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    // The request is still in flight, and finishes.
    release.send(()).unwrap();
    assert_eq!(curl.join().unwrap().stdout, b"hello");
    assert_eq!(proxy.wait().unwrap().code(), Some(0));
    fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_started_is_an_error_with_its_place() {
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap();
    let path =
        file(&format!("[upstream.app]\nto = \"http://127.0.0.1:1\"\nlisten = \"{address}\"\n"));
    let output = crate::redial(&["proxy", &path]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    let start = format!(
        "redial: {path}: upstream.app.listen: cannot listen on {address}: Address already in use"
    );
    assert!(message.starts_with(&start), "{message}");
    fs::write(&path, "[policy.a]\nattempts = 2\n").unwrap();
    let output = crate::redial(&["proxy", &path]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no [upstream.NAME] table"), "{message}");
    fs::remove_file(path).unwrap();
}
