//! TLS on both sides.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::kit::{Directory, GET, OK, PATIENCE, Running, Upstream, Wire, file};

/// The text of a PEM file.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// An authority with a server's and a client's certificate.
struct Authority {
    directory: Directory,
    root: CertificateDer<'static>,
    server: Issued,
    client: Issued,
    /// Another client.
    other: Issued,
    /// Another certificate for `client`.
    renewed: Issued,
}

type Issued = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new(name: &str) -> Self {
        let directory = Directory::new(name);
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let cert = params.signed_by(&key, &issuer).unwrap();
            let write = |ending: &str, label: &str, der: &[u8]| {
                fs::write(directory.file(&format!("{name}.{ending}")), pem(label, der)).unwrap();
            };
            write("pem", "CERTIFICATE", cert.der());
            write("key", "PRIVATE KEY", &key.serialize_der());
            (cert.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        };
        let (server, other, renewed) = (issue("api.internal"), issue("other"), issue("client"));
        let client = issue("client");
        fs::write(directory.file("ca.pem"), pem("CERTIFICATE", &root)).unwrap();
        Self { directory, root, server, client, other, renewed }
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.directory.file(name);
        path.display().to_string()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        roots
    }

    /// A server that demands a client's certificate, and answers requests on one connection after the other. Its port.
    fn serve(&self) -> u16 {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(self.roots()),
            Arc::clone(&provider),
        );
        let (cert, key) = (self.server.0.clone(), self.server.1.clone_key());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![cert], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(config);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                if stream.conn.complete_io(&mut stream.sock).is_err() {
                    continue;
                }
                assert_eq!(stream.conn.server_name(), Some("api.internal"));
                let mut wire = Wire::new(stream);
                let request = wire.request().unwrap();
                assert_eq!(request.get("host"), Some(&*format!("127.0.0.1:{port}")));
                wire.send(OK);
            }
        });
        port
    }

    fn caller(&self, port: u16, presents: bool) -> Wire<StreamOwned<ClientConnection, TcpStream>> {
        self.caller_with(port, presents.then_some(&self.client))
    }

    fn caller_with(
        &self,
        port: u16,
        identity: Option<&Issued>,
    ) -> Wire<StreamOwned<ClientConnection, TcpStream>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match identity {
            Some((cert, key)) => {
                builder.with_client_auth_cert(vec![cert.clone()], key.clone_key()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let name = ServerName::try_from("api.internal").unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Wire::new(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
    }

    /// A proxy in front of [`serve`](Self::serve) with this client's table.
    fn proxy(&self, tls: &str) -> Running {
        let listen = self.listen_tls();
        let once = "policy = \"once\"\n[policy.once]\nattempts = 1\n";
        let target = format!("\"https://127.0.0.1:{}\"", self.serve());
        Running::to(&target, &format!("tls = {{ {tls} }}\n{listen}\n{once}"))
    }

    fn listen_tls(&self) -> String {
        format!(
            "listen_tls = {{ cert = \"{}\", key = \"{}\", client_ca = \"{}\" }}",
            self.path("api.internal.pem"),
            self.path("api.internal.key"),
            self.path("ca.pem")
        )
    }

    fn identity(&self) -> String {
        format!("cert = \"{}\", key = \"{}\"", self.path("client.pem"), self.path("client.key"))
    }
}

#[test]
fn both_sides_can_demand_certificates() {
    let authority = Authority::new("mutual");
    let ca = authority.path("ca.pem");
    let tls = format!("ca = \"{ca}\", name = \"api.internal\", {}", authority.identity());
    let proxy = authority.proxy(&tls);
    let mut caller = authority.caller(proxy.port, true);
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
    // With TLS 1.3 a caller learns that its certificate is missing when it reads.
    let mut stranger = authority.caller(proxy.port, false);
    let _ = std::io::Write::write_all(&mut stranger.stream, GET.as_bytes());
    assert!(std::io::Read::read(&mut stranger.stream, &mut [0]).is_err());
    // Neither does one without TLS get an answer.
    let mut plain = proxy.connect();
    plain.send(GET);
    assert!(!plain.rest().starts_with(b"HTTP"));
}

#[test]
fn a_caller_does_not_get_the_stored_reply_of_another_certificate() {
    const PAY: &str =
        "POST /pay HTTP/1.1\r\nhost: app\r\nidempotency-key: \"k\"\r\ncontent-length: 2\r\n\r\n10";
    let authority = Authority::new("principals");
    for scope in ["", ", scope = \"certificate\"", ", scope = \"X-User-Id\""] {
        let upstream = Upstream::in_turn(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst",
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond",
        ]);
        let target = format!("\"http://127.0.0.1:{}\"", upstream.port);
        let keys = format!("idempotency = {{ store = \"memory\"{scope} }}");
        let proxy = Running::to(&target, &format!("{keys}\n{}\n", authority.listen_tls()));
        for (identity, reply) in [
            (&authority.client, "first"),
            (&authority.other, "second"),
            (&authority.client, "first"),
            (&authority.renewed, "first"),
            (&authority.other, "second"),
        ] {
            let mut caller = authority.caller_with(proxy.port, Some(identity));
            caller.send(PAY);
            assert_eq!(caller.response().text(), reply, "{scope}");
        }
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[test]
fn a_handshake_has_to_end() {
    let authority = Authority::new("handshake");
    let ca = authority.path("ca.pem");
    let proxy = authority.proxy(&format!("ca = \"{ca}\", name = \"api.internal\""));
    let mut silent = proxy.connect();
    assert!(silent.is_closed(), "after 10 s");
}

#[test]
fn certificates_of_the_upstream_are_verified() {
    let authority = Authority::new("verified");
    let ca = authority.path("ca.pem");
    for (tls, why) in [
        (format!("name = \"api.internal\", {}", authority.identity()), "UnknownIssuer"),
        (
            format!("ca = \"{ca}\", name = \"other\", {}", authority.identity()),
            "not valid for name",
        ),
    ] {
        let proxy = authority.proxy(&tls);
        let mut caller = authority.caller(proxy.port, true);
        caller.send(GET);
        let response = caller.response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.get("proxy-status"), Some("redial; error=tls_certificate_error"));
        assert!(response.text().contains(why), "{}", response.text());
    }
}

#[test]
fn a_request_that_no_certificate_lets_through_goes_elsewhere_and_keeps_its_key() {
    let authority = Authority::new("elsewhere");
    let (bad, good) = (authority.serve(), Upstream::always(OK));
    let bad = format!("\"https://127.0.0.1:{bad}\"");
    let keys = "idempotency = { store = \"memory\", methods = [\"POST\"] }\n";
    let request =
        "POST / HTTP/1.1\r\nhost: app\r\nidempotency-key: \"1\"\r\ncontent-length: 0\r\n\r\n";
    let once = "policy = \"p\"\n[policy.p]\nattempts = 1";
    let proxy = Running::to(&bad, &format!("{keys}{once}"));
    for _ in 0..2 {
        let response = proxy.ask(request);
        assert_eq!(response.status(), 503, "{response:?}");
        assert_eq!(response.get("proxy-status"), Some("redial; error=tls_certificate_error"));
    }
    let often = "policy = \"p\"\n[policy.p]\nattempts = 10\nbackoff = { base = \"1ms\" }\nbudget = \"none\"";
    let both = format!("[{bad}, \"http://127.0.0.1:{}\"]", good.port);
    let proxy = Running::to(&both, often);
    for _ in 0..10 {
        assert_eq!(proxy.ask(request).status(), 200);
    }
}

#[test]
fn a_connection_that_was_made_before_the_listener_had_tls_is_refused() {
    let authority = Authority::new("later");
    let upstream = Upstream::always(OK);
    let text =
        |tls: &str| format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n{tls}\n", upstream.port);
    let proxy = Running::of(&text(""));
    let mut caller = proxy.connect();
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    let (cert, key) = (authority.path("api.internal.pem"), authority.path("api.internal.key"));
    let tls = format!("listen_tls = {{ cert = \"{cert}\", key = \"{key}\" }}");
    proxy.proxy.reload(&file(&text(&tls))).unwrap();
    caller.send(GET);
    assert_eq!(caller.response().status(), 503);
    assert!(caller.is_closed());
    let mut caller = authority.caller(proxy.port, false);
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    assert_eq!(upstream.requests().len(), 2);
}
