//! Connections with TLS. The certificate is valid for `localhost` and not for 127.0.0.1.

use std::path::PathBuf;

use redial::Fleet;

use super::support::{ObservedFleet, Redis, name, retries, retry};

/// The certificates of the queue's tests.
fn file(name: &str) -> PathBuf {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    crates.join("redial-queue/tests/it/postgres/tls").join(name)
}

fn redis() -> Redis {
    let path = |name: &str| file(name).display().to_string();
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    Redis::start(&[
        "--port",
        "0",
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
        "--requirepass",
        "secret",
    ])
}

#[test]
fn trusted_certificates_are_configurable() {
    let redis = redis();
    let at = |host: &str| format!("rediss://:secret@{host}:{}", redis.port);
    let observed =
        ObservedFleet::draft(Fleet::draft(&at("localhost"), &name()).ca_file(file("ca.pem")));
    let trusting = retry(&observed.fleet);
    observed.reaches();
    retries(&trusting);
    for (host, ca) in
        [("127.0.0.1", Some("ca.pem")), ("localhost", Some("server.pem")), ("localhost", None)]
    {
        let draft = Fleet::draft(&at(host), &name());
        let draft = ca.map(file).into_iter().fold(draft, |draft, ca| draft.ca_file(ca));
        let observed = ObservedFleet::draft(draft);
        let _retry = retry(&observed.fleet);
        let message = observed.loses("unreachable");
        assert!(message.contains("certificate"), "{message}");
    }
}

#[test]
fn both_sides_must_use_tls() {
    let (encrypted, plain) = (redis(), Redis::start(&[]));
    for url in [
        format!("redis://127.0.0.1:{}", encrypted.port),
        format!("rediss://127.0.0.1:{}", plain.port),
    ] {
        let observed = ObservedFleet::open(&url);
        let retry = retry(&observed.fleet);
        assert!(matches!(observed.next(), redial::fleet::FleetEvent::Lost { .. }));
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
    }
}

#[test]
fn invalid_ca_files_are_rejected() {
    let check = |url: &str, name: &str, message: &str| {
        let error = Fleet::draft(url, "a").ca_file(file(name)).open().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    check("rediss://host", "nothing", "fleet.ca_file is ");
    check("rediss://host", "nothing", "No such file");
    check("rediss://host", "server.key", "no certificate found");
    check("redis://host", "ca.pem", "must be rediss://… with a CA file");
    let insecure = Fleet::open("rediss://host/#insecure", "a").unwrap_err().to_string();
    assert!(insecure.contains("without #insecure"), "{insecure}");
}
