//! Test programs: found in the messages of cargo, run side by side, counted.

use std::process::Command;
use std::sync::Mutex;

use xtask::jobs::{Job, side_by_side};
use xtask::tally::Tally;
use xtask::test::programs;

#[test]
fn programs_are_what_cargo_built_as_tests() {
    let message = |name: &str, test: bool, executable: &str| {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{{"name":"{name}"}},
            "profile":{{"test":{test}}},"executable":{executable}}}"#
        )
        .replace('\n', "")
    };
    let messages = [
        message("a", false, "null"),
        message("example", false, "\"/t/example\""),
        message("it", true, "\"/t/it\""),
        r#"{"reason":"build-finished","success":true}"#.to_owned(),
    ];
    let found = programs(&messages.join("\n"));
    let [it] = &found[..] else { panic!("{found:?}") };
    assert_eq!((it.target.as_str(), it.path.to_str()), ("it", Some("/t/it")));
    assert_eq!(it.manifest.to_str(), Some("/w/crates/a/Cargo.toml"));
}

#[test]
fn jobs_run_at_the_same_time_and_are_counted_apart() {
    // Each waits until the other one has started, so one after the other they would never end.
    let folder = std::env::temp_dir().join(format!("xtask-jobs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let job = |own: &str, other: &str, line: &str, code: u8| {
        let mut command = Command::new("sh");
        let script = format!(
            "touch {own}; while [ ! -e {other} ]; do sleep 0.01; done; echo '{line}'; exit {code}"
        );
        command.args(["-c", &script]).current_dir(&folder);
        Job { name: format!("xtask jobs {own}"), command }
    };
    let passed = job("a", "b", "test result: ok. 3 passed; 0 failed; 0 ignored", 0);
    let failed = job("b", "a", "test result: FAILED. 1 passed; 2 failed; 0 ignored", 101);
    let shown = Mutex::new(Vec::new());
    let show = |output: &[u8]| shown.lock().expect("no panic").push(output.to_vec());
    let ended = side_by_side(vec![passed, failed], show).expect("there is a shell");
    std::fs::remove_dir_all(&folder).expect("nothing is left in it");
    let counts: Vec<_> = ended.iter().map(|job| (job.tally, job.succeeded)).collect();
    let tally = |passed, failed| Tally { passed, failed, skipped: 0 };
    assert_eq!(counts, [(tally(3, 0), true), (tally(1, 2), false)]);
    let shown = shown.into_inner().expect("no panic");
    assert!(
        shown.iter().all(|output| output
            .windows(12)
            .filter(|part| *part == b"test result:")
            .count()
            <= 1)
    );
}
