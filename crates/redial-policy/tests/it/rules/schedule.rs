use redial_core::Span;
use redial_policy::file::Setting;
use redial_policy::rules::review;
use redial_policy::{Format, Place};

use super::{check, clients, finding, found, golden, ours, routed, within};

#[test]
fn rules_find_missing_jitter() {
    let none = || ours("backoff = { jitter = 'none' }");
    check(none(), "error no-jitter");
    check(within(none(), clients(1)), "note no-jitter");
    check(within(none(), clients(500)), "error no-jitter");
    check(ours("backoff = { jitter = { around = 0.0 } }"), "error no-jitter");
    check(
        ours("backoff = { jitter = 'decorrelated', base = '1s', cap = '1s' }"),
        "error no-jitter",
    );
    let spread = Setting { synchronised: Some(false), ..Setting::default() };
    check(within(none(), spread), "warning no-jitter");
    golden(
        within(none(), clients(500)),
        "no-jitter",
        "every caller waits exactly 100ms before its first retry: 500 clients that fail together retry together",
        "write `backoff.jitter = \"full\"`",
    );

    let synchronised = Setting { synchronised: Some(true), ..Setting::default() };
    for jitter in ["'equal'", "{ around = 0.2 }", "{ added = '10ms' }"] {
        let partial = || ours(&format!("backoff = {{ jitter = {jitter} }}"));
        check(partial(), "");
        check(within(partial(), clients(99)), "");
        check(within(partial(), clients(100)), "warning partial-jitter");
        check(within(partial(), synchronised.clone()), "warning partial-jitter");
    }
    for jitter in ["'full'", "'decorrelated'", "{ around = 1.0 }"] {
        check(within(ours(&format!("backoff = {{ jitter = {jitter} }}")), clients(500)), "");
    }
    golden(
        within(ours("backoff = { jitter = 'equal' }"), clients(500)),
        "partial-jitter",
        "the first retry waits 50ms to 100ms: 500 clients that fail together all retry within 50ms",
        "write `backoff.jitter = \"full\"` or \"decorrelated\"",
    );
    let partial =
        "retry_on = ['connect']\nbackoff = { growth = 'constant', jitter = { around = 0.25 } }";
    for (format, help) in [
        (Format::Resilience4j, "set `randomizedWaitFactor` to 1.0"),
        (Format::DotNet, "set `Retry.BackoffType` to Exponential"),
        (Format::Grpc, "gRPC's service config has no field for it: configure it in the client"),
    ] {
        let found = within(found(format, partial), clients(500));
        assert_eq!(finding(found, "partial-jitter").help, help);
    }
}

#[test]
fn rules_find_problems_of_caps() {
    check(ours("attempts = 5"), "");
    check(ours("attempts = 6"), "warning too-many-attempts");
    check(ours("attempts = 1000\ndeadline = 'none'"), "error too-many-attempts");
    golden(
        found(Format::Envoy, "attempts = 11"),
        "too-many-attempts",
        "a call makes up to 11 attempts: the budget bounds the load, but the caller waits for all of them, and the last \
         ones rarely succeed",
        "set `num_retries` to 3, which is 4 attempts", // tidy-allow: the name in Envoy's API
    );
    let message = finding(ours("attempts = 11\nbudget = 'none'"), "too-many-attempts").message;
    assert!(message.ends_with("when all calls fail, that multiplies the load by 11"), "{message}");
    golden(
        routed(found(Format::Linkerd, "attempts = 1000000\ndeadline = '5s'"), &["GET"], false),
        "too-many-attempts",
        "no limit on attempts: 1000000 attempts are as many as time allows",
        "set `retry.linkerd.io/limit` to 3, which is 4 attempts, in annotations instead of the ServiceProfile, which has no \
         such field",
    );
    // Without a limit, attempts that do not fit are not reported too.
    check(ours("attempts = 1000"), "error too-many-attempts");
    check(ours("attempts = 999"), "warning delays-do-not-fit, warning too-many-attempts");

    let capped = |base: &str, cap: &str, deadline: &str| {
        ours(&format!("deadline = '{deadline}'\nbackoff = {{ base = '{base}', cap = '{cap}' }}"))
    };
    check(capped("30s", "60s", "1h"), "");
    check(capped("30s", "61s", "1h"), "warning delay-uncapped");
    check(capped("100ms", "2h", "none"), "note delay-uncapped");
    check(capped("1h", "366d", "none"), "error delay-uncapped");
    golden(
        capped("30s", "2m", "1h"),
        "delay-uncapped",
        "a long delay cap: a caller can wait 2m for one retry",
        "write `backoff.cap = \"30s\"`",
    );
}

#[test]
fn rules_find_waits_below_the_timer() {
    let ticks = |ms: u64| Setting { timer: Some(Span::from_millis(ms)), ..Setting::default() };
    let base = |base: &str| ours(&format!("backoff = {{ base = '{base}' }}"));
    check(base("1ms"), "");
    check(base("999us"), "warning base-below-timer");
    check(within(base("10ms"), ticks(15)), "warning base-below-timer");
    check(within(base("15ms"), ticks(15)), "");
    golden(
        within(base("10ms"), ticks(15)),
        "base-below-timer",
        "the first wait is at most 10ms, below the timer's resolution of 15ms: all draws become the same wait",
        "write `backoff.base = \"100ms\"`",
    );
}

#[test]
fn rules_find_ignored_hints() {
    check(ours("hint = 'ignore'"), "warning hint-ignored");
    check(ours("hint = 'ignore'\nretry_on = ['connect', 'timeout']"), "");
    check(routed(found(Format::Istio, "hint = 'ignore'"), &["GET"], false), "note hint-ignored");
    check(ours("hint = { honour = { cap = '10m' } }"), "");
    check(ours("deadline = 'none'\nhint = { honour = { cap = '10m' } }"), "warning hint-uncapped");
    // Where only a deadline bounds hints, one finding requests it.
    let pushback = "deadline = 'none'\nretry_on = [14]\nhint.honour.cap = '366d'";
    // Code usually sets the deadlines of gRPC.
    check(found(Format::Grpc, pushback), "note no-timeout");
    let long = found(Format::Grpc, &pushback.replace("none", "10m"));
    golden(
        long,
        "hint-uncapped",
        "a pushback (`grpc-retry-pushback-ms`) of any length is honoured, and the deadline is 10m: a server can block its \
         callers",
        "set `timeout` to 60s",
    );
    let help =
        finding(found(Format::Istio, "hint = 'ignore'\nretry_on = [503]"), "hint-ignored").help;
    assert!(help.starts_with("this format has no field for it: do not retry 503, or "), "{help}");
    golden(
        ours("hint = 'ignore'\nretry_on = [429]"),
        "hint-ignored",
        "429 will be retried after the policy's own wait, whatever its Retry-After: a server that asks for 45s may ban a \
         caller that retries within 100ms",
        "write `hint.honour.cap = \"60s\"`",
    );
}

#[test]
fn rules_find_problems_of_time_limits() {
    let slo = |slo| Setting { slo: Some(slo), ..Setting::default() };
    let quick =
        || ours("attempt_timeout = '150ms'".replace("attempt_timeout", "connect_timeout").as_str());
    // 4 × 500 ms + 100 + 200 + 400 ms.
    check(within(quick(), slo(Span::from_secs(30))), "");
    check(within(quick(), slo(Span::from_secs(9))), "note slower-than-slo");
    check(within(quick(), slo(Span::from_secs(8))), "error slower-than-slo");
    golden(
        within(quick(), slo(Span::from_secs(2))),
        "slower-than-slo",
        "a call of 4 attempts takes 2700ms in the worst case, more than the 666ms that it may take: a third of the SLO of \
         2s, so that two thirds are left for the rest of the request",
        "write `deadline = \"666ms\"`, or make fewer attempts",
    );
    golden(
        within(found(Format::Grpc, "deadline = 'none'\nretry_on = [14]"), slo(Span::from_secs(2))),
        "slower-than-slo",
        "a call of 4 attempts never ends in the worst case, more than the 666ms that it may take: a third of the SLO of 2s, \
         so that two thirds are left for the rest of the request",
        "set `timeout` to 0.666s, or make fewer attempts",
    );

    check(
        found(Format::Redial, "hedge = 'none'\nattempt_timeout = '10s'"),
        "warning attempt-timeout-not-below-deadline",
    );
    // Hedges repeat an attempt that hangs.
    check(found(Format::Redial, "attempt_timeout = '10s'"), "");
    check(found(Format::Redial, "attempt_timeout = '9999ms'"), "");
    check(found(Format::Redial, "deadline = 'none'"), "warning no-timeout");
    check(found(Format::Redial, "attempts = 1\ndeadline = 'none'"), "warning no-timeout");
    check(found(Format::Redial, "deadline = 'none'\nattempt_timeout = '1s'"), "");
}

/// All formats that have both timeouts, with the names of their fields in the advice.
#[test]
fn attempts_do_not_fit() {
    let times = |attempts: u32, attempt: &str, deadline: &str| {
        format!(
            "hedge = 'none'\nattempts = {attempts}\nattempt_timeout = '{attempt}'\ndeadline = '{deadline}'"
        )
    };
    let fits = |format, policy: &str| {
        let mut one = found(format, policy);
        one.places.put("deadline", Place::default());
        review(&[one]).iter().all(|one| one.rule.name != "attempts-do-not-fit")
    };
    for format in [
        Format::Redial,
        Format::Envoy,
        Format::Istio,
        Format::Linkerd,
        Format::GatewayApi,
        Format::Grpc,
        Format::DotNet,
    ] {
        assert!(fits(format, &times(3, "1s", "3s")), "{format:?}");
        assert!(!fits(format, &times(3, "2s", "3s")), "{format:?}");
        assert!(!fits(format, &times(4, "1s", "3s")), "{format:?}");
        assert!(fits(format, &times(3, "3s", "3s")), "a finding of another rule");
    }
    golden(
        found(Format::Istio, &times(3, "2s", "3s")),
        "attempts-do-not-fit",
        "3 attempts of 2s each do not fit into 3s: if attempts hang, at most 2 are made",
        "set `retries.perTryTimeout` to 950ms; the route sets no retries, so Istio makes two (`retries: {attempts: 0}` for none)",
    );
    check(found(Format::Redial, &times(3, "2s", "3s")), "note attempts-do-not-fit");
}

/// A timeout below a quarter of a second cuts off attempts of a healthy server.
#[test]
fn no_advice_is_a_short_timeout() {
    for (attempts, deadline) in
        [(2, 60), (2, 120), (4, 240), (5, 300), (5, 900), (3, 1000), (2, 10_000)]
    {
        for attempt in [deadline, deadline * 3 / 4] {
            let policy = format!(
                "hedge = 'none'\nattempts = {attempts}\nattempt_timeout = '{attempt}ms'\ndeadline = '{deadline}ms'\n\
                 backoff = {{ base = '1ms', cap = '1ms' }}"
            );
            for slo in [None, Some(Span::from_micros(3 * deadline * 500))] {
                let one =
                    within(found(Format::Redial, &policy), Setting { slo, ..Setting::default() });
                for finding in review(&[one]) {
                    let lines = finding.help.split('`').skip(1).step_by(2);
                    for line in
                        lines.filter(|line| line.contains("timeout") || line.contains("deadline"))
                    {
                        let (_, value) = line.split_once(" = ").unwrap();
                        let value = value.trim_matches('"');
                        let span: Span = value.parse().unwrap();
                        assert!(
                            span >= Span::from_millis(250),
                            "{}: {}\n{policy}",
                            finding.rule.name,
                            finding.help
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn rules_find_problems_of_delays() {
    let waits = |jitter: &str, deadline: &str| {
        ours(&format!(
            "deadline = '{deadline}'\nbackoff = {{ base = '1s', cap = '60s', jitter = '{jitter}' }}"
        ))
    };
    // Waits of 1, 2 and 4 s: 3.5 s on average with full jitter.
    check(waits("full", "3501ms"), "");
    check(waits("full", "3500ms"), "warning delays-do-not-fit");
    check(waits("equal", "5251ms"), "");
    golden(
        waits("full", "3s"),
        "delays-do-not-fit",
        "only 3 of 4 attempts can be made: the waits alone on average exceed the deadline of 3s",
        "write `attempts = 3`, or shorten the waits",
    );
    golden(
        waits("equal", "3s"),
        "delays-do-not-fit",
        "only 3 of 4 attempts can be made: the waits alone always exceed the deadline of 3s",
        "write `attempts = 3`, or shorten the waits",
    );
}
