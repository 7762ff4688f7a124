//! The URL says which servers to trust, as with every Postgres client. `sslmode=disable`, `prefer` (the default) and `require`
//! decide about encryption. `verify-ca` and `verify-full` need `sslrootcert=FILE`: one of its certificates must have signed the
//! server's. `require` and `prefer` with an `sslrootcert` verify too.

use std::fs;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::durable::StoreError;

/// The URL parameters about certificates, which the driver does not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    roots: Option<String>,
    /// Whether the host name in the certificate is ignored.
    any_name: bool,
}

impl Trust {
    /// Splits a URL into one for the driver and the parameters that the driver does not know.
    pub(super) fn split(url: &str) -> Result<(String, Self), StoreError> {
        let mut trust = Self { roots: None, any_name: true };
        let Some((base, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), trust));
        };
        let mut kept = Vec::new();
        let mut verify = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => trust.roots = Some(decode(path)),
                Some(("sslmode", mode @ ("verify-ca" | "verify-full"))) => {
                    verify = Some(mode);
                    trust.any_name = mode == "verify-ca";
                    kept.push("sslmode=require");
                }
                Some(("sslmode", mode)) if !matches!(mode, "disable" | "prefer" | "require") => {
                    let known = "disable, prefer, require, verify-ca, verify-full";
                    return Err(StoreError::Invalid(format!(
                        "sslmode={mode}: unknown mode; use one of {known}"
                    )));
                }
                _ => kept.push(pair),
            }
        }
        if let (Some(mode), None) = (verify, &trust.roots) {
            let why =
                format!("sslmode={mode} needs sslrootcert=FILE with the certificates to trust");
            return Err(StoreError::Invalid(why));
        }
        let url =
            if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        Ok((url, trust))
    }

    /// The crypto provider is passed explicitly, so that none is installed for the whole process.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, StoreError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let wrong = |why: String| StoreError::Invalid(format!("TLS: {why}"));
        let inner = match &self.roots {
            None => None,
            Some(path) => {
                let roots = Arc::new(read(path)?);
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                Some(verifier.build().map_err(|error| wrong(error.to_string()))?)
            }
        };
        let verifier = Verifier { provider: Arc::clone(&provider), inner, any_name: self.any_name };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }
}

fn read(path: &str) -> Result<RootCertStore, StoreError> {
    let wrong = |why: String| StoreError::Invalid(format!("sslrootcert={path}: {why}"));
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(&text) {
        let one = one.map_err(|error| wrong(error.to_string()))?;
        roots.add(one).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("no certificate found".to_owned()));
    }
    Ok(roots)
}

/// Decodes percent-encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => (bytes.push(byte), rest = &after[2..]).1,
            None => (bytes.push(first), rest = after).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` trusts every server: the connection is encrypted, but not authenticated.
    inner: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(server, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
