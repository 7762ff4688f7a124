//! Which secrets sign which webhooks.

use std::process::Stdio;

use super::deliver::Receiver;
use super::{Lab, fails};
use crate::text;

const A: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const B: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[test]
fn each_receiver_gets_signatures_by_its_own_secrets() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    let url = receiver.url();
    let file = format!("{url}/a {A}\n{url}/both {A} {B}\n{url}/plain unsigned\n");
    lab.scratch.file("secrets", file);
    for path in ["a", "both", "plain"] {
        lab.ok(&["queue", "send", "-d", "x", &format!("{url}/{path}")]);
    }
    let args = ["queue", "work", "--secret-file", "secrets", "--until", "empty", "--workers", "1"];
    let worker = lab.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    for signatures in [1, 2, 0] {
        let request = receiver.receive();
        let found = request.header("webhook-signature").unwrap_or_default();
        assert_eq!(found.matches("v1,").count(), signatures, "{found}");
        request.answer("204 No Content");
    }
    let output = worker.wait_with_output().unwrap();
    assert!(!text(&output.stderr).contains("one secret signs"), "{output:?}");
    assert!(!text(&output.stderr).contains("whsec_"), "{output:?}");
}

#[test]
fn a_receiver_without_a_secret_waits_uncharged() {
    let lab = Lab::new();
    lab.scratch.file("secrets", format!("https://hooks.example/a {A}"));
    lab.ok(&["queue", "send", "-d", "x", "http://127.0.0.1:1/hook"]);
    let output = lab.run(&["queue", "work", "--secret-file", "secrets", "--until", "nothing-due"]);
    assert!(text(&output.stderr).contains("no secret for http://127.0.0.1:1/hook"), "{output:?}");
    assert_eq!(lab.jobs()[0]["attempts"], 0);
}

#[test]
fn one_secret_for_all_receivers_is_a_warning() {
    let lab = Lab::new();
    lab.scratch.file("secret", A);
    let output = lab.run(&["queue", "work", "--secret-file", "secret", "--until", "empty"]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("one secret signs for all receivers"), "{output:?}");
}

#[test]
fn invalid_and_endless_secret_files_are_refused() {
    let lab = Lab::new();
    lab.scratch.file("bad", format!("https://hooks.example/a {A}\nhttps://hooks.example/b"));
    for (path, says) in [
        ("bad", "line 2: missing secret"),
        ("nowhere", "No such file"),
        ("/dev/null", "no secret found"),
        ("/dev/zero", "larger than 1 MB"),
    ] {
        let output = lab.run(&["queue", "work", "--secret-file", path]);
        fails(&output, 2, path);
        fails(&output, 2, says);
        assert!(!text(&output.stderr).contains("whsec_MfK"), "{output:?}");
    }
}

#[test]
fn an_invalid_delivery_is_refused_when_it_is_added_or_edited() {
    let lab = Lab::new();
    let hook = "http://127.0.0.1:1/hook";
    for (args, says) in [
        (&["queue", "send", "--idempotency-key", "ü", hook][..], "printable ASCII"),
        (&["queue", "send", "--idempotency-key", "", hook], "printable ASCII"),
        (&["queue", "send", "--idempotency-key", " a", hook], "without spaces at either end"),
        (&["queue", "send", "-H", "Idempotency-Key: a", hook], "--idempotency-key"),
        (
            &[
                "queue",
                "add",
                "--payload",
                "x",
                "--header",
                ":method: POST",
                "--header",
                ":url: nowhere",
            ],
            "the URL",
        ),
        (&["queue", "add", "--payload", "x", "--header", ":url: http://127.0.0.1:1/"], ":method"),
        (
            &[
                "queue",
                "add",
                "--payload",
                "x",
                "--header",
                ":method: POST",
                "--header",
                ":url: http://h/",
                "--idempotency-key",
                "ü",
            ],
            "printable ASCII",
        ),
    ] {
        fails(&lab.run(args), 2, says);
    }
    assert!(!std::fs::exists(&lab.store).unwrap(), "nothing was put in");

    let policy = super::QUICK.replace("attempts = 3", "attempts = 1");
    lab.scratch.file("once.toml", policy);
    lab.ok(&["queue", "send", "-d", "x", hook]);
    lab.ok(&["queue", "work", "--policy", "once.toml", "--until", "empty", "--log", "none"]);
    for (header, says) in [
        (":url: nowhere", "the URL"),
        (":url: ftp://host/", "use http or https"),
        (":url:", ":url"),
        (":method: CONNECT", "tunnel"),
        ("host: elsewhere", "is part of the URL"),
    ] {
        fails(&lab.run(&["dlq", "edit", "1", "--header", header]), 2, says);
    }
    lab.ok(&["dlq", "edit", "1", "--header", ":url: http://127.0.0.1:1/other"]);
    assert!(lab.ok(&["dlq", "ls"]).contains("http://127.0.0.1:1/other"));
}
