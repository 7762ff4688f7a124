//! A full disk, emulated by the limit of file sizes of a process.

use std::process::{Command, Output};

use super::{Lab, feed, promised};
use crate::text;

/// The same command with files of at most so many KiB. The signal of the limit is ignored, so that the write
/// fails as on a full disk.
fn limited(command: &Command, kib: u32) -> Command {
    let mut sh = crate::program("bash");
    sh.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"")).arg("bash");
    sh.arg(command.get_program()).args(command.get_args());
    sh.env("NO_PROXY", "127.0.0.1").stdin(std::process::Stdio::null());
    sh.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    sh
}

#[track_caller]
fn reports_that_it_stopped(output: &Output) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the store has stopped"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

fn jobs(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|job| format!("{prefix}-{job}-{}", "x".repeat(150))).collect()
}

#[test]
fn a_producer_on_a_full_disk_reports_it_and_keeps_its_promises() {
    let lab = Lab::new("queue-disk-writer");
    let jobs = jobs("job", 20_000);
    let output = feed(limited(&lab.add(), 2048), jobs.join("\n")).wait_with_output().unwrap();
    reports_that_it_stopped(&output);
    let promised = promised(&output).len();
    assert!((1..jobs.len()).contains(&promised), "{promised}");

    let room = lab.stats();
    let enqueued = room["enqueued"].as_u64().unwrap() as usize;
    assert!(enqueued >= promised && enqueued < jobs.len(), "{room}");
    lab.finish();
    let got = lab.sink.got();
    assert!(jobs.iter().take(promised).all(|job| got.contains_key(job)));
    assert_eq!(got.len(), enqueued);
}

#[test]
fn a_worker_on_a_full_disk_reports_it_and_the_next_one_continues() {
    let lab = Lab::new("queue-disk-worker");
    let jobs = jobs("job", 3_000);
    let written = feed(lab.add(), jobs.join("\n")).wait_with_output().unwrap();
    assert_eq!(promised(&written).len(), jobs.len(), "{written:?}");

    let output = limited(&lab.work(&["--until", "empty"]), 64).output().unwrap();
    reports_that_it_stopped(&output);
    lab.finish();
    let (got, stats) = (lab.sink.got(), lab.stats());
    assert!(jobs.iter().all(|job| got.contains_key(job)) && got.len() == jobs.len());
    let twice: u64 = got.values().map(|one| one.requests.len() as u64 - 1).sum();
    assert!(twice <= stats["lost"].as_u64().unwrap(), "{twice} arrived again: {stats}");
    assert_eq!(stats["done"], jobs.len(), "{stats}");
}
