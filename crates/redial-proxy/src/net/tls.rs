//! Certificates and keys, towards upstreams and towards callers.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redial_policy::file::{ClientTls, Identity, ServerTls};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::StartError;

const HTTP_1_1: &[u8] = b"http/1.1";
const READABLE: &str = "the file must be PEM and readable by the proxy's user";
const MATCHING: &str = "use the key that the certificate was issued for";

/// TLS towards an upstream. Two are equal if they were made of the same files with the same content.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) connector: TlsConnector,
    made_of: Arc<(ClientTls, Files)>,
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

/// The content of files, in the order in which they were read.
#[derive(Default, PartialEq)]
struct Files(Vec<Vec<u8>>);

impl Files {
    fn read(&mut self, path: &Path) -> io::Result<&[u8]> {
        self.0.push(fs::read(path)?);
        Ok(self.0.last().map_or(&[], Vec::as_slice))
    }
}

/// TLS towards an upstream; `field` is that of its table.
pub(crate) fn client(tls: &ClientTls, field: &str) -> Result<Client, StartError> {
    let mut files = Files::default();
    let connector = connector(tls, field, &mut files)?;
    Ok(Client { connector, made_of: Arc::new((tls.clone(), files)) })
}

fn connector(tls: &ClientTls, field: &str, files: &mut Files) -> Result<TlsConnector, StartError> {
    let wrong = |what: &str, problem: rustls::Error, help| {
        StartError::new(format!("{field}.{what}"), problem, help)
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("ca", error, READABLE))?;
    let builder = match &tls.ca {
        Some(path) => builder.with_root_certificates(roots(path, &format!("{field}.ca"), files)?),
        None => builder.with_platform_verifier().map_err(|error| {
            wrong("ca", error, "name the certificates to trust with ca = \"FILE\"")
        })?,
    };
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = read(identity, field, files)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| mismatch(identity, field, &error))?
        }
    };
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// TLS towards callers; `field` is that of its table.
pub(crate) fn acceptor(tls: &ServerTls, field: &str) -> Result<TlsAcceptor, StartError> {
    let ca = format!("{field}.client_ca");
    let files = &mut Files::default();
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::new(field.to_owned(), error, READABLE))?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path, &ca, files)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| StartError::new(ca, error, READABLE))?,
            )
        }
    };
    let (chain, key) = read(&tls.identity, field, files)?;
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| mismatch(&tls.identity, field, &error))?;
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(path: &Path, field: &str, files: &mut Files) -> Result<RootCertStore, StartError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, field, files)? {
        roots.add(certificate).map_err(|error| {
            let problem = format!("{}: {error}", path.display());
            StartError::new(field.to_owned(), problem, "name a file with CA certificates")
        })?;
    }
    Ok(roots)
}

fn read(
    identity: &Identity,
    field: &str,
    files: &mut Files,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), StartError> {
    let chain = certificates(&identity.cert, &format!("{field}.cert"), files)?;
    let unreadable = |error: &dyn Display| {
        let problem = format!("cannot read a private key from {}: {error}", identity.key.display());
        StartError::new(format!("{field}.key"), problem, READABLE)
    };
    let pem = files.read(&identity.key).map_err(|error| unreadable(&error))?;
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| unreadable(&error))?;
    Ok((chain, key))
}

fn certificates(
    path: &Path,
    field: &str,
    files: &mut Files,
) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let unreadable = |error: &dyn Display| {
        let problem = format!("cannot read certificates from {}: {error}", path.display());
        StartError::new(field.to_owned(), problem, READABLE)
    };
    let pem = files.read(path).map_err(|error| unreadable(&error))?;
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = read.map_err(|error| unreadable(&error))?;
    if all.is_empty() { Err(unreadable(&"there are none")) } else { Ok(all) }
}

fn mismatch(identity: &Identity, field: &str, error: &rustls::Error) -> StartError {
    let (cert, key) = (identity.cert.display(), identity.key.display());
    let problem = match error {
        rustls::Error::InconsistentKeys(_) => format!("{key} is not the key of {cert}"),
        error => format!("{cert} with {key}: {error}"),
    };
    StartError::new(format!("{field}.key"), problem, MATCHING)
}
