//! SIGKILL of a producer at random points.
#![allow(clippy::disallowed_methods, reason = "a process dies at a random moment, and not before")]

use std::collections::BTreeSet;
use std::process::{Child, Output};
use std::thread::sleep;
use std::time::Duration;

use super::{Lab, Random, feed, promised};

/// Kills it, if it has not ended by itself.
fn kill(mut child: Child) -> Output {
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

#[test]
fn every_number_that_a_killed_producer_printed_is_in_the_store() {
    let lab = Lab::new("queue-kill-writer");
    let mut random = Random(7);
    let mut promises = Vec::new();
    for round in 0..100 {
        // On a slow machine a writer needs longer for its first number.
        let most = 200 << (round / 30);
        if round >= 30 && !promises.is_empty() {
            break;
        }
        let jobs: Vec<String> = (0..20_000).map(|job| format!("{round}-{job}")).collect();
        let writer = feed(lab.add(), jobs.join("\n"));
        sleep(Duration::from_millis(random.below(most)));
        let ids = promised(&kill(writer));
        promises.extend(ids.into_iter().zip(jobs));
    }
    let output = lab.queue("ls").args(["--json", "--most", "1000000"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let there: BTreeSet<(i64, String)> = crate::text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|job| (job["id"].as_i64().unwrap(), job["payload"].as_str().unwrap().to_owned()))
        .collect();
    let missing: Vec<_> = promises.iter().filter(|one| !there.contains(*one)).collect();
    assert!(missing.is_empty(), "{} of {}: {missing:?}", missing.len(), promises.len());
    assert!(!promises.is_empty(), "nothing was tested");
}
