use super::{check, finding, found, golden, within};
use redial_core::Span;
use redial_policy::Format;
use redial_policy::file::Setting;

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

/// A timeout that a server is used to is not advised away: fewer attempts come first.
#[test]
fn advice_stays_near_the_present_values() {
    let help = |format, policy: &str| finding(found(format, policy), "attempts-do-not-fit").help;
    let dotnet = "hedge = 'none'\nattempts = 6\nattempt_timeout = '10s'\ndeadline = '30s'\nbackoff.base = '2s'";
    assert_eq!(
        help(Format::DotNet, dotnet),
        "set `Retry.MaxRetryAttempts` to 1, which is 2 attempts"
    );
    let ours = "hedge = 'none'\nattempts = 5\nattempt_timeout = '4s'\ndeadline = '10s'";
    assert_eq!(help(Format::Redial, ours), "write `attempts = 2`");
    // Two attempts of this length do not fit, but two shorter ones do.
    let ours = "hedge = 'none'\nattempts = 3\nattempt_timeout = '6s'\ndeadline = '10s'";
    assert_eq!(help(Format::Redial, ours), "write `attempt_timeout = \"3283ms\"`");
    let slo = Setting { slo: Some(Span::from_secs(2)), ..Setting::default() };
    let long = within(found(Format::DotNet, "attempt_timeout = '10s'\ndeadline = '30s'"), slo);
    let help = finding(long, "slower-than-slo").help;
    assert!(
        help.starts_with("remove the retry strategy (`MaxRetryAttempts` is at least 1): "),
        "{help}"
    );
}
