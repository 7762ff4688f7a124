//! Statuses, codes, hints and propagated headers.

use std::num::NonZeroU16;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use proptest::prelude::*;
use redial::Span;
use redial::decide::{Class, Failure, Outcome, Reach, Safety};
use redial::http::{
    attempt, grpc_timeout, grpc_timeout_value, hints, names, outcome, safety, timeout,
};
use redial::schedule::Hint;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn read(status: u16, pairs: &[(&'static str, &str)]) -> Outcome {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().unwrap();
    *response.headers_mut() = headers(pairs);
    outcome(&response)
}

fn failed(status: u16, pairs: &[(&'static str, &str)]) -> Failure {
    match read(status, pairs) {
        Outcome::Failure(failure) => failure,
        other => panic!("{status} is {other:?}"),
    }
}

#[test]
fn every_status_has_its_class_and_reach() {
    for status in 100..600 {
        let expected = match status {
            ..400 => {
                assert_eq!(read(status, &[]), Outcome::Success, "{status}");
                continue;
            }
            408 => (Class::Timeout, Reach::Unknown),
            425 => (Class::Refused, Reach::Refused),
            429 => (Class::Throttled, Reach::Refused),
            503 => (Class::Overloaded, Reach::Unknown),
            500 | 502 | 504 => (Class::ServerError, Reach::Unknown),
            _ => (Class::Permanent, Reach::Unknown),
        };
        let failure = failed(status, &[]);
        assert_eq!((failure.class, failure.reach), expected, "{status}");
        assert_eq!(failure.code, NonZeroU16::new(status));
    }
}

#[test]
fn a_booked_slot_means_that_nothing_was_processed() {
    let slot =
        failed(503, &[("redial-slot", "1"), ("retry-after-ms", "250"), ("retry-after", "1")]);
    assert_eq!(slot.reach, Reach::Refused);
    assert_eq!(slot.hint, Some(Hint::Slot(Duration::from_millis(250))), "exact, so without jitter");
}

#[test]
fn every_grpc_code_has_its_class_and_reach() {
    const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");
    assert_eq!(read(200, &[GRPC]), Outcome::Success, "the status is still to come");
    assert_eq!(read(200, &[GRPC, ("grpc-status", "0")]), Outcome::Success);
    assert_eq!(read(200, &[("grpc-status", "14")]), Outcome::Success, "this is not gRPC");
    for code in 1..=17 {
        let expected = match code {
            1 => (Class::Cancelled, Reach::Unknown),
            2 | 13 => (Class::ServerError, Reach::Unknown),
            4 => (Class::Timeout, Reach::Unknown),
            14 => (Class::Overloaded, Reach::Refused),
            _ => (Class::Permanent, Reach::Unknown),
        };
        let failure = failed(200, &[GRPC, ("grpc-status", &code.to_string())]);
        assert_eq!((failure.class, failure.reach), expected, "{code}");
        assert_eq!(failure.code, NonZeroU16::new(code));
    }
    let exhausted = [GRPC, ("grpc-status", "8"), ("grpc-retry-pushback-ms", "40")];
    assert_eq!(failed(200, &exhausted).class, Class::Throttled, "it has a retry hint");
    for hint in [("retry-after", "1"), ("retry-after-ms", "20")] {
        assert_eq!(failed(200, &[GRPC, ("grpc-status", "8"), hint]).class, Class::Throttled);
    }
    let junk = [GRPC, ("grpc-status", "8"), ("retry-after", "soon")];
    assert_eq!(failed(200, &junk).class, Class::Permanent, "the hint is unreadable");
    let unknown = failed(200, &[GRPC, ("grpc-status", "fourteen")]);
    assert_eq!(unknown.code, NonZeroU16::new(2), "junk is UNKNOWN");
    assert_eq!(failed(503, &[GRPC]).class, Class::Overloaded, "a proxy in between");
}

/// What `hints` makes of these headers, 1994-11-06 08:49:30 by the local clock.
fn hint(pairs: &[(&'static str, &str)]) -> redial::http::Hints {
    hints(&headers(pairs), SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770))
}

#[test]
fn retry_after_is_seconds_or_a_date_in_three_forms() {
    let after = |value: &str| hint(&[("retry-after", value)]).hint;
    let least = |seconds: u64| Some(Hint::AtLeast(Duration::from_secs(seconds)));
    assert_eq!(after("120"), least(120));
    assert_eq!(after("0"), least(0));
    assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), least(7));
    assert_eq!(after("Sunday, 06-Nov-94 08:49:37 GMT"), least(7));
    assert_eq!(after("Sun Nov  6 08:49:37 1994"), least(7));
    assert_eq!(after("Sun, 06 Nov 1994 08:49:00 GMT"), least(0), "a date in the past");
    assert!(
        matches!(after("Fri, 31 Dec 9999 23:59:59 GMT"), Some(Hint::AtLeast(far)) if far > Duration::from_nanos(1 << 60))
    );
    assert_eq!(
        after("99999999999999999999999"),
        Some(Hint::AtLeast(Span::MAX.into())),
        "as long as it gets"
    );

    for (value, seconds) in [("0.0", 0), ("1.5", 2), ("1.000000001", 2), ("7.000000000", 7)] {
        let read = hint(&[("retry-after", value)]);
        assert_eq!((read.hint, read.nonstandard), (least(seconds), Some("retry-after")), "{value}");
    }
    for value in [
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Wed, 06 Nov 1994 08:49:37 GMT",
        "\t Wed, 6 Nov 1994 08:49:37 UTC \t",
        "Friday, 06-Nov-94 08:49:37 GMT",
        "Sunday, 6-Nov-94 08:49:37 UTC",
        "Mon Nov  6 08:49:37 1994",
    ] {
        let read = hint(&[("retry-after", value)]);
        assert_eq!((read.hint, read.nonstandard), (least(7), Some("retry-after")), "{value:?}");
    }
    for value in [" 7\t", "\tSun, 06 Nov 1994 08:49:37 GMT "] {
        let read = hint(&[("retry-after", value)]);
        assert_eq!((read.hint, read.nonstandard), (least(7), None), "{value:?}");
    }

    let dated = hint(&[
        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("date", "Sun, 06 Nov 1994 08:49:32 GMT"),
    ]);
    assert_eq!(dated.hint, least(5), "the server's clock counts, not ours");
}

#[test]
fn junk_is_ignored_and_reported() {
    let junk = [
        "-1",
        "+1",
        "1.",
        ".5",
        "1.5.0",
        "1.0000000001",
        "1,5",
        "1e3",
        "",
        "soon",
        "0x10",
        "5 s",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 006 Nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1995 08:49:37 GMT",
        "Sol, 06 Nov 1994 08:49:37 GMT",
    ];
    for value in junk {
        let read = hint(&[("retry-after", value)]);
        assert_eq!(read.hint, None, "{value:?}");
        assert_eq!(read.unreadable, Some("retry-after"), "{value:?}");
    }
    for name in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "ratelimit"] {
        let read = hint(&[(name, "1.5,")]);
        assert_eq!((read.hint, read.unreadable), (None, Some(name)));
    }
    let rescued = hint(&[("retry-after-ms", "junk"), ("retry-after", "3")]);
    assert_eq!(
        rescued.hint,
        Some(Hint::AtLeast(Duration::from_secs(3))),
        "the readable one counts"
    );
    assert_eq!(rescued.unreadable, Some("retry-after-ms"));
}

#[test]
fn milliseconds_take_precedence_over_seconds() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"] {
        let read = hint(&[("retry-after", "2"), (name, "1250")]);
        assert_eq!(read.hint, Some(Hint::AtLeast(Duration::from_millis(1250))), "{name}");
    }
}

#[test]
fn pushback_is_exact_or_never() {
    let pushback = |value: &str| hint(&[("grpc-retry-pushback-ms", value)]);
    assert_eq!(pushback("0").hint, Some(Hint::Pushback(Duration::ZERO)));
    assert_eq!(
        pushback("2147483647").hint,
        Some(Hint::Pushback(Duration::from_millis(2_147_483_647)))
    );
    for never in ["-1", "2147483648", "1.5", "", "soon"] {
        assert!(pushback(never).never, "{never:?}");
        assert_eq!(pushback(never).hint, None);
    }
    let stopped = [("content-type", "application/grpc"), ("grpc-status", "14")];
    let stopped = failed(200, &[stopped[0], stopped[1], ("grpc-retry-pushback-ms", "-1")]);
    assert!(stopped.stop);
}

#[test]
fn a_used_up_quota_can_only_make_the_wait_longer() {
    let quota = |value: &str| hint(&[("ratelimit", value)]);
    assert_eq!(quota("\"default\";r=0;t=30").hint, Some(Hint::AtLeast(Duration::from_secs(30))));
    assert_eq!(quota("\"default\";r=50;t=30").hint, None, "there is some left");
    assert_eq!(quota("\"default\";r=50;t=30").unreadable, None);
    assert_eq!(
        quota("\"a\";r=0;t=3, \"b\";r=0;t=60").hint,
        Some(Hint::AtLeast(Duration::from_secs(60)))
    );
    assert_eq!(quota("\"a\";r=0").hint, None);
    assert_eq!(quota("limit=10, remaining=0").unreadable, Some("ratelimit"));
    let lines = |lines: &[&str]| {
        let mut all = HeaderMap::new();
        for line in lines {
            all.append("ratelimit", HeaderValue::from_str(line).unwrap());
        }
        hints(&all, SystemTime::UNIX_EPOCH)
    };
    let several = lines(&["\"a\";r=0;t=3", "\"b\";r=5;t=90", "\"c\";r=0;t=60"]);
    assert_eq!(several.hint, Some(Hint::AtLeast(Duration::from_secs(60))), "one list");
    let broken = lines(&["\"a\";r=0;t=3", "b c"]);
    assert_eq!((broken.hint, broken.unreadable), (None, Some("ratelimit")), "as a whole");
    let many = ["\"a\";r=0;t=3"; 79];
    assert_eq!(lines(&many[..78]).hint, Some(Hint::AtLeast(Duration::from_secs(3))));
    assert_eq!(lines(&many).unreadable, Some("ratelimit"), "more than 1024 bytes");
    let both = |after| hint(&[("retry-after", after), ("ratelimit", "\"a\";r=0;t=30")]).hint;
    assert_eq!(both("5"), Some(Hint::AtLeast(Duration::from_secs(30))));
    assert_eq!(both("50"), Some(Hint::AtLeast(Duration::from_secs(50))));
    let legacy = |left| hint(&[("ratelimit-remaining", left), ("ratelimit-reset", "9")]).hint;
    assert_eq!(legacy("0"), Some(Hint::AtLeast(Duration::from_secs(9))));
    assert_eq!(legacy("1"), None);
}

#[test]
fn huge_headers_are_read_in_bounded_time_and_space() {
    let mut many: HeaderMap = (0..10_000)
        .map(|n| (HeaderName::try_from(format!("x-{n}")).unwrap(), HeaderValue::from_static("1")))
        .collect();
    many.insert("ratelimit", HeaderValue::try_from("\"a\";r=0;t=1,".repeat(90_000)).unwrap());
    many.insert("retry-after", HeaderValue::try_from("9".repeat(1 << 20)).unwrap());
    let read = hints(&many, SystemTime::UNIX_EPOCH);
    assert_eq!(read.hint, Some(Hint::AtLeast(Span::MAX.into())));
    assert_eq!(read.unreadable, Some("ratelimit"), "longer than is parsed");
}

#[test]
fn the_stop_signal_ends_the_call() {
    assert!(failed(503, &[("redial-stop", "budget")]).stop);
    assert!(!failed(503, &[]).stop);
}

#[test]
fn methods_and_headers_determine_safety() {
    let of = |method: &str, pairs: &[(&'static str, &str)]| {
        safety(&Method::from_bytes(method.as_bytes()).unwrap(), &headers(pairs))
    };
    for asking in ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"] {
        assert_eq!(of(asking, &[]), Safety::ReadOnly, "{asking}");
    }
    for idempotent in ["PUT", "DELETE"] {
        assert_eq!(of(idempotent, &[]), Safety::Idempotent, "{idempotent}");
    }
    for dangerous in ["POST", "PATCH", "CONNECT", "LOCK"] {
        assert_eq!(of(dangerous, &[]), Safety::Unsafe, "{dangerous}");
        assert_eq!(of(dangerous, &[("idempotency-key", "\"k\"")]), Safety::Keyed);
        assert_eq!(of(dangerous, &[("if-match", "\"v1\"")]), Safety::Conditional);
        assert_eq!(of(dangerous, &[("if-match", "*")]), Safety::Unsafe, "it still matches");
        let since = ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(of(dangerous, &[since]), Safety::Conditional);
        assert_eq!(of(dangerous, &[("if-none-match", "*")]), Safety::Conditional);
        assert_eq!(of(dangerous, &[("if-none-match", "\"v1\"")]), Safety::Unsafe, "a cache's");
    }
}

#[test]
fn the_attempt_is_read_from_any_of_three_headers() {
    assert_eq!(attempt(&headers(&[])), 1);
    assert_eq!(attempt(&headers(&[("redial-attempt", "3")])), 3);
    assert_eq!(attempt(&headers(&[("x-envoy-attempt-count", "2")])), 2);
    assert_eq!(attempt(&headers(&[("grpc-previous-rpc-attempts", "1")])), 2);
    let several = [("redial-attempt", "2"), ("grpc-previous-rpc-attempts", "4")];
    assert_eq!(attempt(&headers(&several)), 5);
    for junk in ["-1", "0", "", "many", "1.5"] {
        assert_eq!(attempt(&headers(&[("redial-attempt", junk)])), 1, "{junk:?}");
    }
}

#[test]
fn a_timeout_is_read_from_two_headers() {
    let left = |pairs: &[(&'static str, &str)]| timeout(&headers(pairs), &names::TIMEOUT_MS);
    assert_eq!(left(&[]), None);
    assert_eq!(left(&[("redial-timeout-ms", "250")]), Some(Duration::from_millis(250)));
    assert_eq!(left(&[("grpc-timeout", "3S")]), Some(Duration::from_secs(3)));
    assert_eq!(
        left(&[("redial-timeout-ms", "250"), ("grpc-timeout", "20m")]),
        Some(Duration::from_millis(20))
    );
    for junk in ["-1", "", "1.5", "soon"] {
        assert_eq!(left(&[("redial-timeout-ms", junk)]), None, "{junk:?}");
    }
    for junk in ["", "S", "5", "5s", "-5S", "123456789m", "1.5S"] {
        assert_eq!(left(&[("grpc-timeout", junk)]), None, "{junk:?}");
    }
}

proptest! {
    #[test]
    fn a_grpc_timeout_is_never_longer_than_what_was_left(nanos in any::<u64>()) {
        let left = Duration::from_nanos(nanos);
        let read = grpc_timeout(&grpc_timeout_value(left)).unwrap();
        prop_assert!(read <= left);
        prop_assert!(read.as_nanos() as f64 >= nanos as f64 * 0.999_999 - 1.0, "{left:?} became {read:?}");
    }

    #[test]
    fn no_header_makes_it_panic(value in "\\PC{0,40}", name in 0_usize..12) {
        const NAMES: [&str; 12] = [
            "retry-after", "retry-after-ms", "x-amz-retry-after", "x-ms-retry-after-ms", "ratelimit",
            "ratelimit-reset", "grpc-retry-pushback-ms", "grpc-timeout", "grpc-status", "redial-attempt",
            "redial-timeout-ms", "date",
        ];
        if let Ok(value) = HeaderValue::try_from(value) {
            let mut map = headers(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
            map.insert(NAMES[name], value);
            let _ = (hints(&map, SystemTime::UNIX_EPOCH), attempt(&map), timeout(&map, &names::TIMEOUT_MS));
        }
    }
}
