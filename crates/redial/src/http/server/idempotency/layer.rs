use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use tower_layer::Layer;

use super::arriving::Arriving;
use super::execute::Shared;
use super::fingerprint::{self, Caller};
use super::key::{self, Form};
use super::problem::Problem;
use super::service::Idempotency;
use super::store::{Claim, Interrupted, Store, Terms};

/// An execution gives a sign of life three times in each lease, so this is one in 33 ms.
const LEAST_LEASE: Duration = Duration::from_millis(100);

/// Executes a request once, however often it arrives.
///
/// Defaults: keys are read on POST and PATCH, in quotes or bare, and a request without one is executed
/// as ever; a response is kept for a day; a lease of 30 s; a request of up to 1 MiB that arrives within
/// 30 s; 64 MiB for all requests that are arriving; a response of up to 1 MiB; a key belongs to the credentials and the host that it first came with
/// ([`scoped_by`](Self::scoped_by) says more); `Set-Cookie` is not stored; an interrupted execution is not
/// repeated; nothing is executed while the store cannot be reached.
///
/// Clones share the store. So do layers that are made from one `Arc` of it.
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
    /// Names the caller; `None` to go by credentials.
    scope: Option<Arc<Scope>>,
    pub(super) request_bytes: usize,
    pub(super) request_time: Duration,
    pub(super) arriving_bytes: usize,
    /// Shared by all services that this layer and its clones wrap, as axum wraps each route by itself.
    pub(super) arriving: Arriving,
    pub(super) response_bytes: usize,
    pub(super) terms: Terms,
    pub(super) fails_open: bool,
}

type Scope = dyn Fn(&Parts) -> Vec<u8> + Send + Sync;

impl<St: Store> IdempotencyLayer<St> {
    /// Keeps keys and responses in this store.
    pub fn new(store: St) -> Self {
        let terms = Terms {
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
            arriving: Arriving::default(),
            response_bytes: 1 << 20,
            terms,
            fails_open: false,
        };
        Self { store: Arc::new(store), settings }
    }

    /// Reads keys on these methods, and lets all others pass.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.settings.methods = methods.into_iter().collect();
        self
    }

    /// A request without a key gets a 400.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.settings.required = true;
        self
    }

    /// A key without quotes gets a 400, as the draft has it.
    #[must_use]
    pub fn quoted(mut self) -> Self {
        self.settings.form = Form::Quoted;
        self
    }

    /// Gives each caller keys of its own. `scope` names the caller by something that stays the same when
    /// credentials are renewed: the account, the tenant. It sees the request's extensions, where a layer
    /// further out may have put the authenticated user.
    ///
    /// Without a scope, all callers share one set of keys, and the fingerprint covers the host name and every
    /// header that usually identifies a caller: `Authorization`, `Proxy-Authorization`, `Cookie`, the common
    /// API-key and token headers (`X-Api-Key`, `X-Auth-Token` and others), and the identity headers of
    /// authenticating proxies. A key that arrives with other credentials, with renewed ones, or without any,
    /// gets a 422 and no stored response. Callers that send none of these headers cannot be told apart: of
    /// two such callers that send the same key with the same request, the second one gets the response of
    /// the first. Use a scope where that matters, and wherever callers are identified in another way, such
    /// as by a client certificate.
    ///
    /// With a scope, neither credentials nor the host are compared: a scope for several hosts has to name
    /// them.
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

    /// A request with a key may have a body of so many bytes, which are held in memory to be hashed. A
    /// larger one gets a 413: without a fingerprint there is no telling whether it is the same.
    #[must_use]
    pub fn request_bytes(mut self, most: usize) -> Self {
        self.settings.request_bytes = most;
        self
    }

    /// A body has to arrive within this time, or the request gets a 408. Meanwhile the request holds neither
    /// its key nor a place in a [`ShedLayer`](crate::http::server::ShedLayer) further out.
    #[must_use]
    pub fn request_time(mut self, most: Duration) -> Self {
        self.settings.request_time = most;
        self
    }

    /// The bodies that are arriving may take so many bytes together, and each counts as at least 4 KiB. A
    /// request for which there is no room gets a 503 and is not executed.
    #[must_use]
    pub fn arriving_bytes(mut self, most: usize) -> Self {
        self.settings.arriving_bytes = most;
        self
    }

    /// A response with a body of so many bytes, headers aside, is kept. A larger one is sent to the first caller; whoever
    /// repeats the request gets a 410.
    #[must_use]
    pub fn response_bytes(mut self, most: usize) -> Self {
        self.settings.response_bytes = most;
        self
    }

    /// How long a response, or the knowledge of an interruption, is kept. Later the same key executes
    /// again.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.terms.ttl = ttl;
        self
    }

    /// How long after its last sign of life an execution is taken for dead. Signs are sent three times in
    /// it. One that is shorter than 100 ms becomes 100 ms.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.terms.lease = lease.max(LEAST_LEASE);
        self
    }

    /// What a request does that finds an interrupted execution.
    #[must_use]
    pub fn on_interrupted(mut self, then: Interrupted) -> Self {
        self.settings.terms.on_interrupted = then;
        self
    }

    /// Executes requests while the store cannot be reached, although they may have been executed before.
    #[must_use]
    pub fn fail_open(mut self) -> Self {
        self.settings.fails_open = true;
        self
    }
}

impl Settings {
    /// The key of a request; `None` when it is none of ours.
    pub(super) fn key<B>(&self, request: &http::Request<B>) -> Result<Option<String>, Problem> {
        if !self.methods.contains(request.method()) {
            return Ok(None);
        }
        match key::read(request.headers(), self.form)? {
            None if self.required => Err(Problem::Missing),
            key => Ok(key),
        }
    }

    pub(super) fn claim(&self, key: &str, parts: &Parts, body: &[u8]) -> Claim {
        let (key, scope, caller) = match &self.scope {
            None => {
                // The key itself is not scoped by the credentials: a repetition with renewed ones would then
                // be executed a second time instead of being refused.
                let credentials = fingerprint::credentials(&parts.headers);
                (key::hash(b"", key), credentials, Caller::Credentials(credentials))
            }
            Some(scope) => {
                let scope = scope(parts);
                (key::hash(&scope, key), fingerprint::scope(&scope), Caller::Scope)
            }
        };
        Claim::new(key, fingerprint::of(parts, body, caller)).in_scope(scope)
    }
}

impl<S, St: Store> Layer<S> for IdempotencyLayer<St> {
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
