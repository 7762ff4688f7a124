//! Signatures, and the secrets they are made with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redial::Policy;
use redial_queue::delivery::{Deliverer, Secret, Secrets};
use redial_queue::durable::Handled;

use super::sending::arrived;
use super::sink::{Sink, status};
use super::{deliver, post};

#[tokio::test]
async fn a_signature_is_over_the_key_the_time_and_the_body() {
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signing = signing(Secrets::new().others([secret.clone()]).unwrap());
    let seen = arrived(&signing, |url| post(url).idempotency_key("msg_7"), 2).await;
    assert_eq!(seen.header("webhook-id"), "msg_7");
    let timestamp: u64 = seen.header("webhook-timestamp").parse().unwrap();
    assert!(timestamp > 1_700_000_000);
    assert_eq!(seen.header("webhook-signature"), secret.signature("msg_7", timestamp, b"news"));
}

fn signing(secrets: Secrets) -> Deliverer {
    Deliverer::builder(&Policy::standard()).sign(secrets).build().unwrap()
}

/// A secret for each number.
fn secret(number: u8) -> Secret {
    Secret::new(&format!("whsec_{}", STANDARD.encode([number; 32]))).unwrap()
}

#[tokio::test]
async fn a_receiver_has_secrets_of_its_own_and_signatures_by_all_of_them() {
    let sink = Sink::start(&[status(200)]).await;
    let secrets = Secrets::new()
        .receiver(&sink.url("/orders"), [secret(1), secret(2)])
        .and_then(|secrets| secrets.receiver(&sink.url("/orders/eu"), [secret(3)]))
        .and_then(|secrets| secrets.receiver(&sink.url("/plain/"), []))
        .unwrap();
    let deliverer = signing(secrets);
    for (path, signers) in [
        ("/orders", &[1, 2][..]),
        ("/orders/us?x=1", &[1, 2]),
        ("/orders/eu", &[3]),
        ("/orders/eu/paris", &[3]),
        ("/plain/x", &[]),
        ("/plain", &[]),
    ] {
        let job = post(&sink.url(path)).idempotency_key("k");
        assert_eq!(deliver(&deliverer, job).await, Handled::Done, "{path}");
        let seen = sink.seen().pop().unwrap();
        let time = seen.headers.get("webhook-timestamp").map(|time| time.to_str().unwrap());
        let expected = time.map(|time| {
            let time = time.parse().unwrap();
            let signed = signers.iter().map(|number| secret(*number).signature("k", time, b"news"));
            signed.collect::<Vec<_>>().join(" ")
        });
        let signature = seen.headers.get("webhook-signature");
        assert_eq!(signature.map(|value| value.to_str().unwrap().to_owned()), expected, "{path}");
        assert_eq!(expected.is_some(), !signers.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn a_delivery_to_a_receiver_without_a_secret_is_not_sent_and_not_charged() {
    let sink = Sink::start(&[status(200)]).await;
    let secrets = Secrets::new().receiver(&sink.url("/orders"), [secret(1)]).unwrap();
    let deliverer = signing(secrets);
    for path in ["/", "/order", "/orders2", "/Orders"] {
        let handled = deliver(&deliverer, post(&sink.url(path))).await;
        let Handled::NotTried(why) = handled else { panic!("{path}: {handled:?}") };
        assert!(why.contains("no secret for") && why.ends_with(path), "{why}");
    }
    assert!(sink.seen().is_empty());
}

#[tokio::test]
async fn an_identifier_of_a_webhook_has_no_dot_and_stays_unique() {
    let deliverer = signing(Secrets::new().others([secret(1)]).unwrap());
    let mut all = std::collections::BTreeSet::new();
    for key in ["a.b", "a%2Eb", "a%b", "a%25b", "ab"] {
        let seen = arrived(&deliverer, |url| post(url).idempotency_key(key), 1).await;
        let id = seen.header("webhook-id").to_owned();
        assert!(!id.contains('.'), "{id}");
        let time = seen.header("webhook-timestamp").parse().unwrap();
        let signature = secret(1).signature(&id, time, b"news");
        assert_eq!(seen.header("webhook-signature"), signature);
        assert_eq!(seen.header("idempotency-key"), format!("\"{key}\""), "the key stays as it is");
        all.insert(id);
    }
    assert_eq!(all.len(), 5);
}

#[test]
fn secrets_as_text() {
    const A: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let read = |text: String| text.parse::<Secrets>();
    for good in [
        A.to_owned(),
        format!("* {A}"),
        format!("{A} {A}"),
        format!("# all\n\nhttps://a.example/x {A} {A} # two\n http://b.example unsigned\r\n"),
    ] {
        assert!(read(good.clone()).is_ok(), "{good}");
    }
    assert!(read(A.to_owned()).unwrap().are_shared());
    assert!(!read(format!("https://a.example/x {A}\n* unsigned")).unwrap().are_shared());
    for (bad, why) in [
        (String::new(), "no secret found"),
        ("# nothing\n".to_owned(), "no secret found"),
        ("https://a.example/x".to_owned(), "line 1: missing secret"),
        (format!("\nhttps://a.example/x whsec_short {A}"), "line 2: invalid secret"),
        (format!("a.example {A}"), "line 1: the URL is invalid"),
        (format!("https://a.example/?q {A}"), "line 1: the URL of a receiver has a query"),
        (
            format!("https://a.example {A}\nhttps://a.example/ {A}"),
            "line 2: duplicate receiver https://a.example/",
        ),
        (
            format!("https://a.example/x {A}\nhttps://a.example/x/ {A}"),
            "line 2: duplicate receiver https://a.example/x/",
        ),
        (format!("* {A}\n* {A}"), "line 2: duplicate entry for all other receivers"),
        (
            format!("https://a.example {}", [A; 9].join(" ")),
            "line 1: a receiver has at most 8 secrets",
        ),
    ] {
        let error = read(bad.clone()).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
        assert!(!error.contains(A), "{error}");
    }
    assert!(!format!("{:?}", read(format!("https://a.example/x {A}")).unwrap()).contains("MfKQ"));
}

#[test]
fn an_invalid_secret_is_reported_and_never_shown() {
    for secret in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_!"] {
        let error = Secret::new(secret).unwrap_err().to_string();
        assert!(error.contains("whsec_ and 24 to 64 bytes"), "{error}");
    }
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    assert_eq!(format!("{secret:?}"), "Secret(…)");
}
