//! Deliveries over loopback arrive, even if workers are killed in between.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::Lab;
use crate::{eventually, text};

/// A receiver whose responses the test chooses.
pub(super) struct Receiver(TcpListener);

pub(super) struct Received {
    head: Vec<String>,
    body: String,
    stream: TcpStream,
}

impl Receiver {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Ends a test that waits for a request that never arrives.
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.0.local_addr().unwrap())
    }

    /// Waits for a request.
    pub(super) fn receive(&self) -> Received {
        let mut stream = None;
        eventually(|| {
            stream = self.0.accept().ok();
            stream.is_some()
        });
        let (stream, _) = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_lowercase()),
            }
        }
        let mut body = String::new();
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().unwrap());
        from.take(length).read_to_string(&mut body).unwrap();
        Received { head, body, stream }
    }
}

impl Received {
    pub(super) fn answer(mut self, status: &str) {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        self.stream.write_all(head.as_bytes()).unwrap();
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

#[test]
fn a_delivery_arrives_with_its_attempt_number_although_workers_are_killed() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    let policy = super::QUICK.replace("attempts = 3", "attempts = 9");
    let policy = lab.scratch.file("more.toml", policy);
    let send = ["queue", "send", "-H", "Content-Type: text/plain", "-d", "paid", &receiver.url()];
    assert_eq!(lab.ok(&send), "1\n");
    let work = ["queue", "work", "--policy", &policy, "--lease", "2s", "--until", "empty"];

    let mut first = lab.command(&work).spawn().unwrap();
    let request = receiver.receive();
    assert_eq!(request.head[0], "post /hook http/1.1");
    assert_eq!(
        (request.body.as_str(), request.header("content-type")),
        ("paid", Some("text/plain"))
    );
    assert_eq!(request.header("redial-attempt"), None, "the first one");
    let key = request.header("idempotency-key").unwrap().to_owned();
    request.answer("503 Service Unavailable");
    let second = receiver.receive();
    assert_eq!(second.header("redial-attempt"), Some("2"));
    first.kill().unwrap();
    first.wait().unwrap();

    let mut next = lab.command(&work).spawn().unwrap();
    let third = receiver.receive();
    assert_eq!(third.header("redial-attempt"), Some("3"), "{:?}", third.head);
    assert_eq!(third.header("idempotency-key"), Some(&*key));
    assert_eq!(third.body, "paid");
    third.answer("204 No Content");
    assert!(next.wait().unwrap().success());
    let stats = lab.stats();
    assert_eq!(
        (&stats["done"], &stats["lost"], &stats["retried"]),
        (&1.into(), &1.into(), &1.into())
    );
}

#[test]
fn a_delivery_is_listed_by_its_url() {
    let lab = Lab::new();
    lab.ok(&[
        "queue",
        "send",
        "-X",
        "put",
        "-H",
        "Authorization: Bearer s3cret",
        "http://127.0.0.1:1/x",
    ]);
    lab.ok(&["queue", "send", "http://127.0.0.1:1/y"]);
    let listed = lab.ok(&["queue", "ls"]);
    assert!(listed.contains("GET http://127.0.0.1:1/y"), "{listed}");
    let shown = lab.ok(&["queue", "show", "1"]);
    assert!(shown.contains(":url: http://127.0.0.1:1/x") && !shown.contains("s3cret"), "{shown}");
    assert!(lab.ok(&["queue", "show", "1", "--json"]).contains("s3cret"));
}

#[test]
fn only_public_refuses_private_addresses() {
    let lab = Lab::new();
    lab.ok(&["queue", "send", "http://127.0.0.1:9/x"]);
    lab.work(&["--only-public", "--until", "empty"]);
    let job = lab.jobs().remove(0);
    assert_eq!((&job["state"], &job["reason"]), (&"dead".into(), &"permanent".into()));
    assert!(job["history"][0]["outcome"].as_str().unwrap().contains("public"), "{job}");
}

#[test]
fn deliveries_are_signed() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    lab.ok(&["queue", "send", "-d", "x", &receiver.url()]);
    let wrong = lab.scratch.file("wrong", "s3cret");
    let refused = lab.run(&["queue", "work", "--secret-file", &wrong]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!text(&refused.stderr).contains("s3cret"));
    let secret = lab.scratch.file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let mut work = lab.command(&["queue", "work", "--secret-file", &secret, "--until", "empty"]);
    let mut worker = work.spawn().unwrap();
    let request = receiver.receive();
    assert!(request.header("webhook-signature").unwrap().starts_with("v1,"));
    request.answer("200 OK");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn the_page_on_webhooks_and_a_shell() {
    let page = include_str!("../../../../../docs/webhooks.md");
    let script = page.split("\n```sh\n").nth(1).unwrap().split("\n```").next().unwrap();
    let (lab, receiver) = (Lab::new(), Receiver::new());
    let url = receiver.url().replace("/hook", "");
    let answering = std::thread::spawn(move || {
        let received = receiver.receive();
        let head = received.head.clone();
        let body = received.body.clone();
        received.answer("204 No Content");
        (head, body)
    });
    let output = lab.shell(script).env("RECEIVER", url).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("enqueued 1, done 1"), "{output:?}");
    let (head, body) = answering.join().unwrap();
    assert_eq!((head[0].as_str(), body.as_str()), ("post /orders http/1.1", "{\"order\":7}"));
    assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
}
