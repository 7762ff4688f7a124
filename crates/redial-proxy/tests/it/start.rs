//! What cannot be started is an error with its place, and nothing is left running.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixListener;

use redial_proxy::Proxy;

use crate::kit::{Directory, OK, Upstream, file, free_port};

fn refused(text: &str) -> String {
    match Proxy::start(&file(text)) {
        Ok(_) => panic!("started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_port_that_is_in_use() {
    let (used, free) = (Upstream::always(OK), free_port());
    let upstream = |name: &str, port: u16| {
        format!("[upstream.{name}]\nto = \"http://127.0.0.1:1\"\nlisten = \"127.0.0.1:{port}\"\n")
    };
    let error = refused(&(upstream("a", free) + &upstream("b", used.port)));
    let expected = format!(
        "upstream.b.listen: cannot listen on 127.0.0.1:{}: Address already in use (os error 98)\n  \
         help: stop the process that listens there, or choose another port",
        used.port
    );
    assert_eq!(error, expected);
    assert!(TcpStream::connect(("127.0.0.1", free)).is_err());
}

#[test]
fn certificates_that_cannot_be_used() {
    let directory = Directory::new("certificates");
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) =
            (directory.file(&format!("{name}.pem")), directory.file(&format!("{name}.key")));
        fs::write(&cert, crate::tls::pem("CERTIFICATE", made.cert.der())).unwrap();
        fs::write(&key, crate::tls::pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
        (cert.display().to_string(), key.display().to_string())
    };
    let ((cert, key), (other, _)) = (make("one"), make("two"));
    let none = directory.file("none.pem").display().to_string();
    fs::write(directory.file("empty.pem"), "").unwrap();
    let empty = directory.file("empty.pem").display().to_string();
    let listen = |cert: &str, key: &str| {
        let tls = format!("listen_tls = {{ cert = \"{cert}\", key = \"{key}\" }}");
        refused(&format!("[upstream.a]\nto = \"http://127.0.0.1:1\"\n{tls}\n"))
    };
    assert!(
        listen(&other, &key)
            .starts_with(&format!("upstream.a.listen_tls.key: {key} is not the key of {other}\n"))
    );
    assert!(listen(&none, &key).starts_with(&format!(
        "upstream.a.listen_tls.cert: cannot read certificates from {none}: "
    )));
    assert!(listen(&empty, &key).contains("there are none"));
    assert!(listen(&cert, &empty).starts_with(&format!(
        "upstream.a.listen_tls.key: cannot read a private key from {empty}: "
    )));
    let to = |tls: &str| {
        refused(&format!("[upstream.a]\nto = \"https://127.0.0.1:1\"\ntls = {{ {tls} }}\n"))
    };
    assert!(
        to(&format!("ca = \"{none}\""))
            .starts_with(&format!("upstream.a.tls.ca: cannot read certificates from {none}"))
    );
    assert!(
        to(&format!("cert = \"{other}\", key = \"{key}\"")).starts_with("upstream.a.tls.key: ")
    );
}

#[test]
fn a_store_that_cannot_be_opened() {
    let error = refused(
        "[upstream.a]\nto = \"http://127.0.0.1:1\"\nidempotency = { store = \"sqlite:/nowhere/at/all/keys.db\" }\n",
    );
    assert!(
        error.starts_with("upstream.a.idempotency.store: cannot open /nowhere/at/all/keys.db: "),
        "{error}"
    );
}

#[test]
fn only_a_socket_that_was_left_behind_is_replaced() {
    let directory = Directory::new("left-behind");
    let path = directory.file("app.sock");
    let text = format!(
        "[upstream.a]\nto = \"http://127.0.0.1:1\"\nlisten = \"unix:{}\"\n",
        path.display()
    );
    fs::write(&path, "precious").unwrap();
    let error = refused(&text);
    assert!(error.starts_with("upstream.a.listen: cannot listen on unix:"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    Proxy::start(&file(&text)).unwrap().drain();
    assert!(!path.exists(), "removed at the end");
}

#[test]
fn a_check_connects_to_no_fleet() {
    let ledger = Upstream::new(|accepted| {
        accepted.tell("connected");
        accepted.wire.rest();
    });
    let text = format!(
        "[upstream.app]\nto = \"http://127.0.0.1:1\"\npolicy = \"p\"\n\
         [policy.p]\nfleet = \"f\"\nbudget = {{ window = {{ ratio = 0.2 }} }}\n\
         [fleet.f]\nredis = \"redis://127.0.0.1:{}\"\n",
        ledger.port
    );
    let file = file(&text);
    Proxy::check(&file).unwrap();
    // A fleet that the check had opened would have connected before this one.
    let proxy = Proxy::start(&file).unwrap();
    assert_eq!(ledger.event(), "connected");
    assert_eq!(ledger.connections(), 1);
    drop(proxy);
}
