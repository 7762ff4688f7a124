//! Invalid deliveries.

use redial_queue::delivery::Delivery;
use redial_queue::durable::{Handled, NewJob};

use super::{deliver, deliverer, post};

#[track_caller]
fn refused(delivery: Result<Delivery, redial_queue::delivery::InvalidDelivery>, part: &str) {
    let error = delivery.unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_url_is_absolute_and_http() {
    for (url, part) in [
        ("", "is invalid"),
        ("/path", "is invalid"),
        ("hooks.example/path", "is invalid"),
        ("http://", "is invalid"),
        ("http://a b/", "is invalid"),
        ("http://host:99999/", "is invalid"),
        ("http://host:0/", "has no host or port"),
        ("http://host/a\nb", "control character"),
        ("ftp://hooks.example/", "\"ftp\""),
        ("file:///etc/passwd", "\"file\""),
        ("mailto:a@example", "\"mailto\""),
    ] {
        refused(Delivery::post(url), part);
    }
}

#[test]
fn a_password_is_refused_and_not_repeated() {
    for url in ["https://user:hunter2@hooks.example/", "https://hunter2@hooks.example/"] {
        let error = Delivery::post(url).unwrap_err().to_string();
        assert!(error.contains("authorization") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_method_is_a_token() {
    for method in ["", "GET /", "PO ST", "GET\r\n", "ÜBER"] {
        refused(Delivery::new(method, "http://hooks.example/"), "the method");
    }
    refused(Delivery::new("CONNECT", "http://hooks.example/"), "tunnel");
    assert!(Delivery::new("PURGE", "http://hooks.example/").is_ok());
}

#[test]
fn invalid_and_reserved_headers_are_refused() {
    let delivery = || Delivery::post("http://hooks.example/").unwrap();
    for name in ["", "a b", ":method", "x:", "ü"] {
        refused(delivery().header(name, "v"), "has an invalid name");
    }
    for value in ["a\r\nx-injected: 1", "a\nb", "\0"] {
        refused(delivery().header("x-a", value), "control character");
    }
    for name in
        ["Host", "content-length", "Transfer-Encoding", "connection", "TE", "redial-attempt"]
    {
        refused(delivery().header(name, "1"), "leave it out");
    }
}

#[test]
fn a_delivery_survives_the_conversion_into_a_job() {
    let delivery = Delivery::new("PUT", "https://hooks.example:444/a?b#gone")
        .and_then(|delivery| delivery.header("x-a", "1"))
        .and_then(|delivery| delivery.header("x-a", "ü"))
        .unwrap();
    let job = delivery.clone().body("news").into_job();
    assert_eq!(job.payload, b"news");
    let again = Delivery::of(&super::claimed(job, 1)).unwrap();
    assert_eq!(again, delivery);
    assert_eq!(again.url(), "https://hooks.example:444/a?b");
}

#[tokio::test]
async fn a_job_that_is_not_a_delivery_is_left_alone() {
    let handled = deliver(&deliverer(), NewJob::new("x").header("subject", "hello")).await;
    let Handled::NotTried(why) = handled else { panic!("{handled:?}") };
    assert!(why.contains("not a delivery"), "{why}");
}

#[test]
fn a_key_is_printable_ascii() {
    for key in ["", "ü", "a\nb", "\0", "a\tb", " ", " a", "a "] {
        let error = Delivery::check_key(key).unwrap_err().to_string();
        assert!(error.contains("printable ASCII"), "{error}");
    }
    for key in ["a", "order 7.placed", "~!\"\\"] {
        assert!(Delivery::check_key(key).is_ok(), "{key}");
    }
}

#[tokio::test]
async fn a_broken_delivery_is_unreadable() {
    let job = NewJob::new("x");
    let odd = || post("http://hooks.example/");
    for (job, part) in [
        (job.clone().header(":method", "POST"), "no :url"),
        (job.clone().header(":method", "POST").header(":url", "nowhere"), "the URL"),
        (odd().header(":url", "http://elsewhere.example/"), ":url twice"),
        (odd().header("bad name", "1"), "\"bad name\""),
        (odd().header("host", "elsewhere.example"), "is part of the URL"),
    ] {
        let handled = deliver(&deliverer(), job).await;
        let Handled::Unreadable(why) = handled else { panic!("{handled:?}") };
        assert!(why.contains(part), "{why}");
    }
}
