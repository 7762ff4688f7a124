use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use tower_layer::Layer;

use super::Principal;
use super::body_memory::BodyMemory;
use super::execute::Shared;
use super::fingerprint::{self, Caller};
use super::key::{self, Form};
use super::problem::Problem;
use super::service::Idempotency;
use super::store::{IdempotencyStore, Interrupted, KeyClaim, KeyTerms};

/// A lease is renewed three times before it expires, so this is a renewal every 33 ms.
const LEAST_LEASE: Duration = Duration::from_millis(100);

/// Executes a request once, however often it is sent.
///
/// Defaults: keys are read on POST and PATCH, in quotes or bare, and a request without a key is executed as usual; a
/// response is stored for a day; a lease lasts 30 s; a request has up to 1 MiB and arrives within 30 s; all arriving
/// requests together have up to 64 MiB; a response has up to 1 MiB; a key belongs to the credentials and the host that it
/// was first used with (see [`scoped_by`](Self::scoped_by)); `Set-Cookie` is not stored; an interrupted execution is not
/// repeated; nothing is executed while the store cannot be reached.
///
/// Clones share the store, and so do layers that are created from the same `Arc` of it.
///
/// ```
/// use axum::{Router, routing::post};
/// use redial::http::server::{IdempotencyLayer, MemoryStore};
///
/// let app: Router = Router::new()
///     .route("/payments", post(|| async { "paid" }))
///     .layer(IdempotencyLayer::new(MemoryStore::default()));
/// ```
pub struct IdempotencyLayer<St> {
    store: Arc<St>,
    settings: Settings,
}

#[derive(Clone)]
pub(super) struct Settings {
    methods: Arc<[Method]>,
    required: bool,
    form: Form,
    /// Names the caller; `None` to compare credentials.
    scope: Option<Arc<Scope>>,
    pub(super) request_bytes: usize,
    pub(super) request_time: Duration,
    pub(super) arriving_bytes: usize,
    /// Shared by all services that this layer and its clones wrap: axum wraps each route separately.
    pub(super) arriving: BodyMemory,
    pub(super) response_bytes: usize,
    pub(super) terms: KeyTerms,
    pub(super) fails_open: bool,
}

type Scope = dyn Fn(&Parts) -> Vec<u8> + Send + Sync;

impl<St: IdempotencyStore> IdempotencyLayer<St> {
    /// Stores keys and responses in `store`.
    pub fn new(store: St) -> Self {
        let terms = KeyTerms {
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(24 * 3600),
            on_interrupted: Interrupted::Refuse,
        };
        let settings = Settings {
            methods: Arc::new([Method::POST, Method::PATCH]),
            required: false,
            form: Form::QuotedOrBare,
            scope: None,
            request_bytes: 1 << 20,
            request_time: Duration::from_secs(30),
            arriving_bytes: 64 << 20,
            arriving: BodyMemory::default(),
            response_bytes: 1 << 20,
            terms,
            fails_open: false,
        };
        Self { store: Arc::new(store), settings }
    }

    /// Reads keys on these methods and ignores them on others.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.settings.methods = methods.into_iter().collect();
        self
    }

    /// Rejects a request without a key with a 400.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.settings.required = true;
        self
    }

    /// Rejects a key without quotes with a 400, as the draft prescribes.
    #[must_use]
    pub fn quoted(mut self) -> Self {
        self.settings.form = Form::Quoted;
        self
    }

    /// Gives each caller a separate set of keys. `scope` names the caller by something that stays the same when credentials
    /// are renewed, such as the account or the tenant. It can read the request's extensions, into which an outer layer may
    /// have put the authenticated user.
    ///
    /// Without a scope, all callers share one set of keys, and the fingerprint covers the host name and every header that
    /// usually identifies a caller: `Authorization`, `Proxy-Authorization`, `Cookie`, the common API-key and token headers
    /// (`X-Api-Key`, `X-Auth-Token` and others), and the identity headers of authenticating proxies. A key with other
    /// credentials, with renewed ones, or without any gets a 422 and no stored response. Callers that send none of these
    /// headers cannot be distinguished: if two of them send the same key with the same request, the second gets the
    /// response of the first. Use a scope where that matters. Callers that an outer layer has identified in another way, such as by a
    /// client certificate, have separate sets of keys if that layer adds a [`Principal`].
    ///
    /// With a scope, neither credentials nor the host are compared: a scope for several hosts has to include the host.
    ///
    /// ```
    /// # use redial::http::server::{IdempotencyLayer, MemoryStore};
    /// let layer = IdempotencyLayer::new(MemoryStore::default()).scoped_by(|request| {
    ///     let account = request.headers.get("x-account");
    ///     account.map(|account| account.as_bytes().to_vec()).unwrap_or_default()
    /// });
    /// ```
    #[must_use]
    pub fn scoped_by<F, V>(mut self, scope: F) -> Self
    where
        F: Fn(&Parts) -> V + Send + Sync + 'static,
        V: Into<Vec<u8>>,
    {
        self.settings.scope = Some(Arc::new(move |parts| scope(parts).into()));
        self
    }

    /// Limits the body of a request with a key, which is held in memory to be hashed. A larger one gets a 413, because
    /// without a fingerprint two requests cannot be compared.
    #[must_use]
    pub fn request_bytes(mut self, most: usize) -> Self {
        self.settings.request_bytes = most;
        self
    }

    /// Limits how long a body may take to arrive; after that, the request gets a 408. Meanwhile the request holds neither
    /// its key nor a permit of an outer [`ShedLayer`](crate::http::server::ShedLayer).
    #[must_use]
    pub fn request_time(mut self, most: Duration) -> Self {
        self.settings.request_time = most;
        self
    }

    /// Limits the memory of all arriving bodies together; each counts as at least 4 KiB. A request for which there is no
    /// room gets a 503 and is not executed.
    #[must_use]
    pub fn arriving_bytes(mut self, most: usize) -> Self {
        self.settings.arriving_bytes = most;
        self
    }

    /// Limits the body of a stored response. A larger one is sent to the first caller and not stored; repetitions of the
    /// request get a 410.
    #[must_use]
    pub fn response_bytes(mut self, most: usize) -> Self {
        self.settings.response_bytes = most;
        self
    }

    /// How long a response, or the record of an interruption, is kept. Afterwards the same key executes again.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.terms.ttl = ttl;
        self
    }

    /// How long after its last renewal an execution counts as interrupted. A running execution renews its lease three
    /// times within this time. The least is 100 ms.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.terms.lease = lease.max(LEAST_LEASE);
        self
    }

    /// What happens to a request that finds an interrupted execution.
    #[must_use]
    pub fn on_interrupted(mut self, then: Interrupted) -> Self {
        self.settings.terms.on_interrupted = then;
        self
    }

    /// Executes requests while the store cannot be reached, even though they may have been executed before.
    #[must_use]
    pub fn fail_open(mut self) -> Self {
        self.settings.fails_open = true;
        self
    }
}

impl Settings {
    /// The key of a request; `None` if it has none or its method is not covered.
    pub(super) fn key<B>(&self, request: &http::Request<B>) -> Result<Option<String>, Problem> {
        if !self.methods.contains(request.method()) {
            return Ok(None);
        }
        match key::read(request.headers(), self.form)? {
            None if self.required => Err(Problem::Missing),
            key => Ok(key),
        }
    }

    pub(super) fn claim(&self, key: &str, parts: &Parts, body: &[u8]) -> KeyClaim {
        let principal = parts.extensions.get::<Principal>();
        let (scope, caller) = match &self.scope {
            // The key itself is not scoped by the credentials: a retry with renewed ones would then be executed a second time
            // instead of being rejected.
            None => (None, Caller::Credentials(fingerprint::credentials(&parts.headers))),
            Some(scope) => (Some(scope(parts)), Caller::Scope),
        };
        let scope = match (principal, scope) {
            (None, scope) => scope,
            (Some(Principal(principal)), scope) => {
                Some(fingerprint::scope(&[principal, &scope.unwrap_or_default()]).to_vec())
            }
        };
        let share = match (&scope, caller) {
            (None, Caller::Credentials(credentials)) => credentials,
            _ => fingerprint::scope(&[scope.as_deref().unwrap_or_default()]),
        };
        let key = key::hash(&scope.unwrap_or_default(), key);
        KeyClaim::new(key, fingerprint::of(parts, body, caller)).in_scope(share)
    }
}

impl<S, St: IdempotencyStore> Layer<S> for IdempotencyLayer<St> {
    type Service = Idempotency<S, St>;

    fn layer(&self, inner: S) -> Self::Service {
        let shared = Shared::new(Arc::clone(&self.store), self.settings.clone());
        Idempotency { inner, shared: Arc::new(shared) }
    }
}

impl<St> Clone for IdempotencyLayer<St> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), settings: self.settings.clone() }
    }
}

impl<St> fmt::Debug for IdempotencyLayer<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, .. } = self;
        f.debug_struct("IdempotencyLayer")
            .field("methods", &settings.methods)
            .field("required", &settings.required)
            .field("terms", &settings.terms)
            .finish_non_exhaustive()
    }
}
