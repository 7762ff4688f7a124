use std::error;
use std::fmt;
use std::sync::Arc;

use redial::Policy;
use redial::http::reqwest::client_builder;
use reqwest::redirect;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;

use super::deliverer::Inner;
use super::public::OnlyPublic;
use super::{Deliverer, Secrets};

/// Configures a [`Deliverer`].
///
/// By default it delivers to every address, through the proxy that the environment names, if any; signs nothing; trusts the
/// root certificates of the machine; and uses HTTP/2 with receivers that offer it, and HTTP/1.1 with all others.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    policy: Policy,
    roots: Vec<CertificateDer<'static>>,
    secrets: Option<Secrets>,
    options: Options,
}

/// Options that apply to each request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) only_public: bool,
    pub(super) bare_keys: bool,
    http2: bool,
}

impl Builder {
    pub(super) fn new(policy: &Policy) -> Self {
        let (roots, secrets, options) = (Vec::new(), None, Options::default());
        Self { policy: policy.clone(), roots, secrets, options }
    }

    /// Delivers only to [public](super::is_public) addresses: for services whose users choose the URLs of webhooks. Names are
    /// resolved first, and the connection goes to the address that was checked. No proxy is used, because the proxy would
    /// resolve the names.
    pub fn only_public(mut self) -> Self {
        self.options.only_public = true;
        self
    }

    /// Sends idempotency keys without the quotes that the IETF draft requires.
    pub fn bare_keys(mut self) -> Self {
        self.options.bare_keys = true;
        self
    }

    /// Uses HTTP/2 with prior knowledge, for servers that offer it without TLS.
    pub fn http2(mut self) -> Self {
        self.options.http2 = true;
        self
    }

    /// Also trusts this root, a certificate in DER format.
    pub fn root(mut self, certificate: impl Into<Vec<u8>>) -> Self {
        self.roots.push(CertificateDer::from(certificate.into()));
        self
    }

    /// Signs deliveries as in Standard Webhooks, with the job's idempotency key as the identifier: dots and per cent signs in it
    /// are written as `%2E` and `%25`.
    pub fn sign(mut self, secrets: Secrets) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Builds the deliverer.
    ///
    /// # Errors
    ///
    /// A root is not a certificate, or the machine has no resolver.
    pub fn build(self) -> Result<Deliverer, BuildError> {
        let (tls, no_https) = tls(self.roots.clone())?;
        let agent = concat!("redial/", env!("CARGO_PKG_VERSION"));
        let mut builder = client_builder(&self.policy)
            .tls_backend_preconfigured(tls)
            .redirect(redirect::Policy::none())
            .referer(false)
            .user_agent(agent);
        if self.options.only_public {
            builder = builder.no_proxy().dns_resolver(OnlyPublic);
        }
        if self.options.http2 {
            builder = builder.http2_prior_knowledge();
        }
        let client = builder.build().map_err(|error| BuildError(error.into()))?;
        let Self { policy, secrets, options, .. } = self;
        Ok(Deliverer::from_inner(Inner { client, policy, secrets, options, no_https }))
    }
}

/// The crypto provider is passed explicitly, so that the process-wide one does not matter.
///
/// A machine without root certificates can still deliver to `http`: the text then says why not to `https`.
fn tls(roots: Vec<CertificateDer<'static>>) -> Result<(ClientConfig, Option<String>), BuildError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let own = !roots.is_empty();
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider));
    match verifier {
        Ok(verifier) => Ok((config(provider, Some(Arc::new(verifier)))?, None)),
        Err(error) if own => Err(BuildError(error.into())),
        Err(error) => {
            let why = "this machine has no root certificates to verify the receiver's; install the package \
                       ca-certificates, or add a root";
            Ok((config(provider, None)?, Some(format!("{why}: {error}"))))
        }
    }
}

fn config(
    provider: Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ServerCertVerifier>>,
) -> Result<ClientConfig, BuildError> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError(error.into()))?;
    let mut config = match verifier {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(rustls::RootCertStore::empty()),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a deliverer could not be built.
#[derive(Debug)]
pub struct BuildError(Box<dyn error::Error + Send + Sync>);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deliveries cannot be sent: {}", self.0)
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.0)
    }
}
