//! The count at the end of a run, from the output of many programs.

use xtask::jobs::Ended;
use xtask::tally::Tally;
use xtask::test::Report;

fn check(lines: &[&str]) -> String {
    let mut tally = Tally::default();
    for line in lines {
        tally.read(line);
    }
    tally.to_string()
}

#[test]
fn counts_add_up_over_binaries() {
    let rest = "0 measured; 3 filtered out; finished in 0.01s\n";
    let ok = &format!("test result: ok. 12 passed; 0 failed; 0 ignored; {rest}");
    let bad = &format!("test result: FAILED. 1 passed; 2 failed; 0 ignored; {rest}");
    let off = &format!("test result: ok. 0 passed; 0 failed; 4 ignored; {rest}");
    assert_eq!(check(&[]), "0 passed, 0 failed");
    assert_eq!(check(&[ok]), "12 passed, 0 failed");
    assert_eq!(check(&[ok, bad]), "13 passed, 2 failed");
    assert_eq!(check(&[ok, bad, off]), "13 passed, 2 failed, 4 skipped");
}

#[test]
fn other_lines_do_not_count() {
    assert_eq!(check(&["running 3 tests\n", "test it ... ok\n", "\n"]), "0 passed, 0 failed");
    assert_eq!(
        check(&["    test result: ok. 9 passed; 0 failed\n", "test result: \n"]),
        "0 passed, 0 failed"
    );
}

#[test]
fn a_job_that_does_not_build_counts_as_a_failure() {
    let ended = |name: &str, tally, succeeded| Ended { name: name.to_owned(), tally, succeeded };
    let mut report = Report::default();
    report.add(ended("a", Tally { passed: 5, ..Tally::default() }, true));
    assert_eq!((report.exit_code(), report.to_string()), (0, "5 passed, 0 failed\n".to_owned()));

    report.add(ended("b", Tally::default(), false));
    report.add(ended("c", Tally { passed: 1, failed: 2, skipped: 1 }, false));
    let shown = "failed: b, c (see above)\n6 passed, 3 failed, 1 skipped\n";
    assert_eq!((report.exit_code(), report.to_string()), (1, shown.to_owned()));
}
