use super::{check, found, golden};
use redial_policy::Format;

/// An attempt without a timeout may take the whole deadline, as one with a timeout of the deadline may.
#[test]
fn an_attempt_that_hangs_is_never_retried() {
    let hangs = |lines: &str| found(Format::Redial, &format!("hedge = 'none'\n{lines}"));
    for timeout in ["none", "10s"] {
        let text = format!("attempt_timeout = '{timeout}'\ndeadline = '10s'");
        check(hangs(&text), "warning attempt-timeout-not-below-deadline");
    }
    golden(
        hangs("attempt_timeout = 'none'\ndeadline = '10s'"),
        "attempt-timeout-not-below-deadline",
        "an attempt has no timeout of its own, so it may take the whole deadline of 10s: an attempt that hangs is never \
         retried",
        "write `attempt_timeout = \"2412ms\"`",
    );
    check(hangs("deadline = '10s'\nretry_on = ['connect', 'refused']"), "");
    check(found(Format::Redial, "deadline = '10s'"), "");
}
