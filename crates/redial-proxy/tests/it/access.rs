//! The access log.

use std::sync::{Arc, mpsc};

use redial_policy::file::AccessLog;
use redial_proxy::{Line, Options, Proxy};

use crate::kit::{OK, PATIENCE, Running, Upstream, file, port};

/// The line of the log for one request.
fn line(form: AccessLog, request: &str) -> String {
    let upstream = Upstream::always(OK);
    let mut file = file(&format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port));
    file.proxy.log = form;
    let (sender, lines) = mpsc::channel();
    let log = move |line| {
        if let Line::Access(line) = line {
            sender.send(line).unwrap();
        }
    };
    let options = Options { log: Some(Arc::new(log)), ..Options::default() };
    let proxy = Proxy::start_with(&file, options).unwrap_or_else(|error| panic!("{error}"));
    let proxy = Running { port: port(&proxy, "app"), proxy };
    assert_eq!(proxy.ask(request).status(), 200);
    lines.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_path_cannot_control_the_terminal_that_shows_the_log() {
    let request = "GET /a%20b/\u{9b}31m\u{202e}c HTTP/1.1\r\nhost: app\r\n\r\n";
    for form in [AccessLog::Text, AccessLog::Json] {
        let line = line(form, request);
        assert!(line.contains("/a%20b/%C2%9B31m%E2%80%AEc"), "{line:?}");
        assert!(line.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    }
}
