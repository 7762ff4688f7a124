//! A worker whose stderr is not read.

use std::io::Read as _;
use std::process::{Child, Stdio};

use super::deliver::Receiver;
use super::work::signal;
use super::{Lab, eventually, good};
use crate::{exit_code, full_pipe, runs};

/// Fails once, with more output than a pipe holds.
const LOUD: &str = "echo $REDIAL_JOB_ID >> attempts; head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2; \
                    test $REDIAL_ATTEMPT = 2";

fn start(lab: &Lab, args: &[&str], stderr: impl Into<Stdio>) -> Child {
    let mut command = lab.command(&["queue", "work", "--policy", "quick.toml"]);
    command.args(args).stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
}

#[test]
fn jobs_are_done_once_and_no_lease_is_lost() {
    let lab = Lab::new();
    let lines: String = (0..30).map(|n| format!("{n}\n")).collect();
    good(&lab.feed(&["queue", "add", "--lines"], lines.as_bytes()));
    let (_unread, full) = full_pipe();
    let mut worker = start(&lab, &["--exec", LOUD, "--until", "empty"], full);
    assert_eq!(exit_code(&mut worker), Some(0));
    assert_eq!(lab.wrote("attempts").len(), 60);
    let stats = lab.stats();
    let counts = ["done", "retried", "lost", "stale"].map(|name| stats[name].as_u64().unwrap());
    assert_eq!(counts, [30, 30, 0, 0], "{stats}");
}

#[test]
fn a_lease_is_renewed() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"1\n2\n3\n4\n"));
    let (_unread, full) = full_pipe();
    let script = format!("{LOUD} && while ! test -e go; do sleep 0.02; done");
    let mut worker = start(&lab, &["--exec", &script, "--lease", "12s", "--until", "empty"], full);
    eventually(|| lab.wrote("attempts").len() == 8);
    let first = lab.jobs()[0]["due"].as_str().unwrap().to_owned();
    // The lease of a running job ends later with each heartbeat.
    eventually(|| lab.jobs()[0]["due"].as_str().unwrap() > first.as_str());
    lab.scratch.file("go", "");
    assert_eq!(exit_code(&mut worker), Some(0));
    let stats = lab.stats();
    assert_eq!((&stats["done"], &stats["lost"]), (&4.into(), &0.into()), "{stats}");
}

#[test]
fn one_signal_drains_and_two_stop_at_once() {
    for (second, code) in [(false, 0), (true, 143)] {
        let lab = Lab::new();
        good(&lab.feed(&["queue", "add", "--lines"], b"a\nb\n"));
        let script =
            format!("{LOUD} || exit 75; echo $$ > pid; while ! test -e go; do sleep 0.02; done");
        let (_unread, full) = full_pipe();
        let mut worker = start(&lab, &["--exec", &script, "--workers", "1"], full);
        eventually(|| lab.wrote("pid").len() == 1);
        signal(worker.id(), "TERM");
        if second {
            // Two pending signals would be one.
            eventually(|| {
                signal(worker.id(), "TERM");
                worker.try_wait().unwrap().is_some()
            });
            let pid = lab.wrote("pid").remove(0);
            eventually(|| !runs(&pid));
        } else {
            lab.scratch.file("go", "");
        }
        assert_eq!(exit_code(&mut worker), Some(code));
    }
}

#[test]
fn deliveries_are_sent() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    lab.ok(&["queue", "send", "-d", "x", &receiver.url()]);
    let (_unread, full) = full_pipe();
    let mut worker = start(&lab, &["--until", "empty"], full);
    for status in ["503 Service Unavailable", "503 Service Unavailable", "200 OK"] {
        receiver.receive().answer(status);
    }
    assert_eq!(exit_code(&mut worker), Some(0));
    assert_eq!(lab.stats()["done"], 1);
}

#[test]
fn a_worker_that_cannot_start_ends() {
    let lab = Lab::new();
    let (_unread, full) = full_pipe();
    let mut worker = lab.command(&["queue", "work", "--store", "/no/such/place/jobs.db"]);
    assert_eq!(exit_code(&mut worker.stderr(full).spawn().unwrap()), Some(2));
}

#[test]
fn dropped_lines_are_counted_and_reported_when_there_is_room() {
    let lab = Lab::new();
    let lines: String = (0..12).map(|n| format!("{n}\n")).collect();
    good(&lab.feed(&["queue", "add", "--lines"], lines.as_bytes()));
    lab.ok(&["queue", "add", "--payload", "last", "--priority", "0", "--after", "1ms"]);
    let (mut unread, full) = full_pipe();
    let script = format!(
        "{LOUD} || exit 75; test $REDIAL_JOB_ID != 13 || while ! test -e go; do sleep 0.02; done"
    );
    let mut worker = start(&lab, &["--exec", &script, "--workers", "2", "--until", "empty"], full);
    eventually(|| lab.stats()["done"] == 12);
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        unread.read_to_end(&mut all).unwrap();
        String::from_utf8(all).unwrap()
    });
    lab.scratch.file("go", "");
    assert_eq!(exit_code(&mut worker), Some(0));
    let all = reading.join().unwrap();
    let count = |line: &str, before: &str, after: &str| -> Option<u64> {
        line.split_once(before)?.1.split_once(after)?.0.parse().ok()
    };
    let reported: u64 =
        all.lines().filter_map(|l| count(l, "redial: ", " lines were dropped because")).sum();
    let last = all.lines().last().unwrap();
    assert!(last.starts_with("redial: done 13, retried 13"), "{last}");
    let total = count(&format!("{last},"), "log lines dropped ", ",");
    assert!(reported > 0 && total == Some(reported), "{reported}: {last}");
}

#[test]
fn every_line_of_a_command_that_has_ended_arrives_or_is_counted() {
    let lab = Lab::new();
    let jobs: String = (0..40).map(|n| format!("{n}\n")).collect();
    good(&lab.feed(&["queue", "add", "--lines"], jobs.as_bytes()));
    let (mut unread, full) = full_pipe();
    // Less than a pipe holds: the command ends although nothing is read.
    let script = "i=0; while [ $i -lt 400 ]; do echo \"line $i of some length, for one job of forty\"; i=$((i+1)); done >&2";
    let mut worker = start(&lab, &["--exec", script, "--workers", "4", "--until", "empty"], full);
    eventually(|| lab.stats()["done"].as_u64().unwrap() >= 36);
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        unread.read_to_end(&mut all).unwrap();
        String::from_utf8(all).unwrap()
    });
    assert_eq!(exit_code(&mut worker), Some(0));
    let all = reading.join().unwrap();
    let arrived = all.matches("for one job of forty").count();
    let last = all.lines().last().unwrap();
    let dropped = last.split_once("log lines dropped ").map_or(0, |(_, n)| n.parse().unwrap());
    assert!(dropped > 0, "nothing was tested: {last}");
    // A dropped piece may begin and end within a line.
    let counted = arrived + dropped;
    assert!((15_600..=16_400).contains(&counted), "{arrived} arrived, {dropped} dropped");
}
