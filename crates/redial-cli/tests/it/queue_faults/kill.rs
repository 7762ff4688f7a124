//! SIGKILL at random points of the whole life of a job.
#![allow(clippy::disallowed_methods, reason = "a process dies at a random moment, and not before")]

use std::collections::BTreeSet;
use std::process::{Child, Output};
use std::thread::sleep;
use std::time::Duration;

use super::{Lab, Random, feed, promised};

/// How many jobs a writer has to enqueue.
const JOBS: u64 = 10;

/// Ends it without a warning, if it has not ended by itself.
fn kill(mut child: Child) -> Output {
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

#[test]
fn no_job_is_lost_when_workers_and_writers_are_killed() {
    nothing_is_lost(&Lab::new("queue-kill"), 200, 120);
}

/// A process is there for longer: it has to connect.
#[test]
fn no_job_is_lost_on_postgres_either() {
    nothing_is_lost(&Lab::on_postgres("queue-kill-postgres"), 40, 360);
}

/// Each process of a round lives for up to so many milliseconds.
fn nothing_is_lost(lab: &Lab, rounds: u64, most: u64) {
    let mut random = Random(20_261_115);
    let (mut offered, mut acknowledged) = (BTreeSet::new(), BTreeSet::new());
    let mut most = most;
    for round in 0.. {
        let is_last = round + 1 >= rounds;
        if round >= rounds {
            // On a slow machine processes need longer until they do something that can be lost.
            if is_tested(lab, &acknowledged) || round == 2 * rounds {
                break;
            }
            most += most / 10;
        }
        let jobs: Vec<String> = (0..JOBS).map(|job| format!("{round}-{job}")).collect();
        offered.extend(jobs.iter().cloned());
        let worker = lab.work(&["--workers", "4"]).spawn().unwrap();
        let writer = feed(lab.add(), jobs.join("\n"));
        let written = match random.below(2) {
            // It dies before the worker does, or at the same time; what it has begun is over before the last round is.
            0 if !is_last => {
                sleep(Duration::from_millis(random.below(most / 3)));
                kill(writer)
            }
            _ => writer.wait_with_output().unwrap(),
        };
        sleep(Duration::from_millis(random.below(most)));
        kill(worker);
        // A batch is all or none, so as many as were printed are in, from the first.
        acknowledged.extend(jobs.into_iter().take(promised(&written).len()));
    }
    lab.finish();

    let (got, stats) = (lab.sink.got(), lab.stats());
    let lost: Vec<_> = acknowledged.iter().filter(|job| !got.contains_key(*job)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let unexpected: Vec<_> = got.keys().filter(|job| !offered.contains(*job)).collect();
    assert!(unexpected.is_empty(), "unexpected: {unexpected:?}");
    assert!(got.values().all(|one| one.keys.len() == 1), "a key stays the same: {got:?}");
    let keys: BTreeSet<_> = got.values().flat_map(|one| &one.keys).collect();
    assert_eq!(keys.len(), got.len(), "and each job has its own");

    let count = |name: &str| stats[name].as_u64().unwrap();
    let twice: u64 = got.values().map(|one| one.times - 1).sum();
    assert!(twice <= count("lost"), "{twice} arrived again, {} leases ran out", count("lost"));
    assert_eq!((count("enqueued"), count("done")), (got.len() as u64, got.len() as u64), "{stats}");
    assert_eq!(count("dead") + count("died") + count("dropped"), 0, "{stats}");
    assert!(is_tested(lab, &acknowledged), "nothing was tested: {stats}");
}

fn is_tested(lab: &Lab, acknowledged: &BTreeSet<String>) -> bool {
    lab.stats()["lost"].as_u64().unwrap() > 0 && acknowledged.len() > 100
}

#[test]
fn every_number_that_a_killed_writer_has_printed_is_in_the_store() {
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
