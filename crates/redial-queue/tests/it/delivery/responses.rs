//! The outcome of a job for each response.

use std::num::NonZeroU16;
use std::time::Duration;

use redial_core::decide::{Class, Reach};
use redial_core::schedule::Hint;
use redial_queue::delivery::Delivery;
use redial_queue::durable::Handled;

use super::sink::{Answer, Sink, status};
use super::{class, deliver, deliverer, failed, post};

async fn response(answer: Answer) -> Handled {
    let sink = Sink::start(&[answer]).await;
    deliver(&deliverer(), post(&sink.url("/"))).await
}

#[tokio::test]
async fn a_success_is_any_2xx() {
    for code in [200, 201, 202, 204, 299] {
        assert_eq!(response(status(code)).await, Handled::Done, "{code}");
    }
}

#[tokio::test]
async fn a_status_has_the_same_class_as_in_the_http_client() {
    let classes = [
        (400, Class::Permanent),
        (401, Class::Permanent),
        (404, Class::Permanent),
        (409, Class::Permanent),
        (410, Class::Permanent),
        (422, Class::Permanent),
        (408, Class::Timeout),
        (425, Class::Refused),
        (429, Class::Throttled),
        (500, Class::ServerError),
        (502, Class::ServerError),
        (503, Class::Overloaded),
        (504, Class::ServerError),
    ];
    for (code, expected) in classes {
        let (failure, cause) = failed(response(status(code).body("why\n\tnot")).await);
        assert_eq!((failure.class, failure.code), (expected, NonZeroU16::new(code)));
        assert!(cause.starts_with(&code.to_string()) && cause.ends_with(": why not"), "{cause}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for code in [301, 302, 303, 307, 308] {
        let target = Sink::start(&[status(200)]).await;
        let to: &'static str = target.url("/new").leak();
        let (failure, cause) = failed(response(status(code).header("location", to)).await);
        assert_eq!((failure.class, failure.code), (Class::Permanent, NonZeroU16::new(code)));
        assert!(cause.contains(to), "{cause}");
        assert!(target.seen().is_empty());
    }
    assert_eq!(class(response(status(304)).await), Class::Permanent);
}

#[tokio::test]
async fn hints_are_passed_on() {
    let in_2_s = Some(Hint::AtLeast(Duration::from_secs(2)));
    for code in [429, 503] {
        let (failure, _) = failed(response(status(code).header("retry-after", "2")).await);
        assert_eq!(failure.hint, in_2_s, "{code}");
    }
    let (failure, _) = failed(response(status(503).header("redial-stop", "budget")).await);
    assert!(failure.stop);
}

#[tokio::test]
async fn a_delivery_in_flight_is_retried() {
    let conflict = || status(409).header("retry-after", "1");
    let (failure, _) = failed(response(conflict()).await);
    assert_eq!((failure.class, failure.reach), (Class::Refused, Reach::Refused));
    assert_eq!(failure.code, NonZeroU16::new(409));
    assert_eq!(failure.hint, Some(Hint::AtLeast(Duration::from_secs(1))));

    let sink = Sink::start(&[conflict()]).await;
    let read = Delivery::new("GET", &sink.url("/")).unwrap().into_job();
    assert_eq!(class(deliver(&deliverer(), read).await), Class::Permanent, "it has no key");
}

#[tokio::test]
async fn a_cause_is_a_short_line_without_markup() {
    let (_, cause) = failed(response(status(500).body("é\u{7}".repeat(50_000))).await);
    assert!(cause.chars().count() < 250 && !cause.contains('\u{7}'), "{cause}");
    let (_, cause) = failed(response(status(500).body("<!doctype html><p>no")).await);
    assert_eq!(cause, "500 Internal Server Error");
}

#[tokio::test]
async fn an_endless_body_does_not_change_the_outcome() {
    for (code, expected) in [(200, None), (500, Some(Class::ServerError))] {
        let handled = response(status(code).body("x".repeat(3 << 20))).await;
        match expected {
            None => assert_eq!(handled, Handled::Done),
            Some(expected) => assert_eq!(class(handled), expected),
        }
    }
}
