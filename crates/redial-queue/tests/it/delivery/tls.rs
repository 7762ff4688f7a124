//! Deliveries to `https`.

use axum::http::Version;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use redial::Policy;
use redial_core::decide::Class;
use redial_queue::delivery::Deliverer;
use redial_queue::durable::Handled;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;

use super::sink::{Sink, status};
use super::{class, deliver, deliverer, failed, post};

/// A server for `localhost` with a self-signed certificate, and the certificate.
async fn server(protocols: &[&str]) -> (Sink, Vec<u8>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (Sink::start_tls(&[status(200)], config).await, cert.der().to_vec())
}

#[tokio::test]
async fn the_server_chooses_the_version() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"][..], Version::HTTP_11),
        (&[][..], Version::HTTP_11),
    ] {
        let (sink, root) = server(protocols).await;
        let trusting = Deliverer::builder(&Policy::standard()).root(root).build().unwrap();
        for _ in 0..3 {
            assert_eq!(deliver(&trusting, post(&sink.url("/"))).await, Handled::Done);
        }
        assert!(sink.seen().iter().all(|seen| seen.version == version && seen.body == "news"));
        assert_eq!(sink.connections(), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn an_untrusted_receiver_gets_nothing() {
    let (sink, _) = server(&["h2"]).await;
    let (failure, cause) = failed(deliver(&deliverer(), post(&sink.url("/"))).await);
    assert!(cause.starts_with("invalid peer certificate"), "{failure:?} {cause}");

    let (other, root) = server(&["h2"]).await;
    let trusting = Deliverer::builder(&Policy::standard()).root(root).build().unwrap();
    deliver(&trusting, post(&sink.url("/"))).await;
    let elsewhere = other.url("/").replace("localhost", "127.0.0.1");
    assert_eq!(class(deliver(&trusting, post(&elsewhere)).await), Class::Connect);
    assert!(sink.seen().is_empty() && other.seen().is_empty());
}

#[test]
fn an_invalid_root_is_refused() {
    let error = Deliverer::builder(&Policy::standard()).root(*b"no certificate").build();
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("deliveries cannot be sent: "), "{error}");
}
