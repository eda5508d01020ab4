//! The layer and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method};
use tower_layer::Layer;

use super::in_flight::InFlight;
use super::key_from::KeyFrom;
use super::policy::{KeyRule, OnFailure, OnStoreFailure, may_be_kept};
use super::scope::Scope;
use super::service::IdempotencyService;
use super::store::{OnLeaseExpired, Store, Terms};
use crate::contract::KeyNamespace;

/// Makes the operations of a route happen once per key.
///
/// ```
/// use axum::{Router, routing::post};
/// use idempotency::server::{IdempotencyLayer, MemoryStore, Scope};
///
/// async fn create_payment() -> &'static str { "paid" }
///
/// let store = MemoryStore::new();
/// let scope = Scope::credential();
/// let app: Router = Router::new()
///     .route("/payments", post(create_payment).layer(IdempotencyLayer::new(store, scope)));
/// ```
///
/// On a whole router, use [`route_layer`](axum::Router::route_layer), so that a path that does not
/// exist stays a 404. Put authentication outside of it (it tells the [`Scope`]), and compression
/// outside too (the stored bytes would be in one client's encoding). See the [module](super) for
/// what it promises.
///
/// | option | default |
/// |---|---|
/// | [`methods`](Self::methods) | POST and PATCH |
/// | [`key_rule`](Self::key_rule), [`optional_key`](Self::optional_key) | required |
/// | [`key_from`](Self::key_from) | the header `Idempotency-Key` |
/// | [`without_fingerprint`](Self::without_fingerprint) | requests are compared |
/// | [`request_limit`](Self::request_limit), [`answer_limit`](Self::answer_limit) | 2 MiB each |
/// | [`lease`](Self::lease) | 30 s, renewed every 10 s |
/// | [`on_lease_expired`](Self::on_lease_expired) | [`Rerun`](OnLeaseExpired::Rerun) |
/// | [`keep`](Self::keep) | 24 h |
/// | [`wait_for_running`](Self::wait_for_running) | do not wait: 409 |
/// | [`retry_after`](Self::retry_after) | 1 s |
/// | [`on_server_error`](Self::on_server_error) | [`Release`](OnFailure::Release) |
/// | [`on_panic`](Self::on_panic) | [`Store`](OnFailure::Store) |
/// | [`on_store_failure`](Self::on_store_failure) | [`Refuse`](OnStoreFailure::Refuse) |
/// | [`store_timeout`](Self::store_timeout) | 5 s |
/// | [`keep_header`](Self::keep_header) | the headers that describe the answer |
/// | [`downstream_namespace`](Self::downstream_namespace) | a public one |
pub struct IdempotencyLayer<S = Arc<dyn Store>> {
    pub(super) store: Arc<S>,
    pub(super) settings: Settings,
    in_flight: InFlight,
}

/// Everything but the store.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) scope: Scope,
    pub(super) methods: Arc<[Method]>,
    pub(super) key_rule: Arc<dyn Fn(&Parts) -> KeyRule + Send + Sync>,
    pub(super) key_from: KeyFrom,
    pub(super) compare: bool,
    pub(super) request_limit: usize,
    pub(super) answer_limit: usize,
    pub(super) terms: Terms,
    pub(super) wait_for_running: Duration,
    pub(super) retry_after: Duration,
    pub(super) on_server_error: OnFailure,
    pub(super) on_panic: Option<OnFailure>,
    pub(super) on_store_failure: OnStoreFailure,
    pub(super) store_timeout: Duration,
    pub(super) keep_headers: Vec<HeaderName>,
    pub(super) namespace: Option<KeyNamespace>,
    #[cfg(feature = "postgres")]
    pub(super) transactional: Option<super::store::postgres::PostgresStore>,
}

/// What the services of one layer share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) settings: Settings,
    pub(super) in_flight: InFlight,
}

impl<S: Store> IdempotencyLayer<S> {
    /// A layer with the defaults. `scope` says who owns a key; there is no default for it.
    pub fn new(store: S, scope: Scope) -> Self {
        let mebibyte = 1024 * 1024;
        Self {
            store: Arc::new(store),
            in_flight: InFlight::new(),
            settings: Settings {
                scope,
                methods: Arc::new([Method::POST, Method::PATCH]),
                key_rule: Arc::new(|_| KeyRule::Required),
                key_from: KeyFrom::default_header(),
                compare: true,
                request_limit: 2 * mebibyte,
                answer_limit: 2 * mebibyte,
                terms: Terms {
                    lease: Duration::from_secs(30),
                    keep: Duration::from_secs(24 * 60 * 60),
                    on_expired: OnLeaseExpired::Rerun,
                },
                wait_for_running: Duration::ZERO,
                retry_after: Duration::from_secs(1),
                on_server_error: OnFailure::Release,
                on_panic: None,
                on_store_failure: OnStoreFailure::Refuse,
                store_timeout: Duration::from_secs(5),
                keep_headers: Vec::new(),
                namespace: None,
                #[cfg(feature = "postgres")]
                transactional: None,
            },
        }
    }
}

impl<S> IdempotencyLayer<S> {
    /// The methods that are protected. Requests with another method pass untouched, whatever their
    /// headers. Safe methods (GET, HEAD, OPTIONS, TRACE) are never protected: a stored answer to a
    /// read is a stale read.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        let unsafe_ones = methods.into_iter().filter(|method| !method.is_safe());
        self.settings.methods = unsafe_ones.collect();
        self
    }

    /// A key is looked at where there is one, and not asked for.
    #[must_use]
    pub fn optional_key(self) -> Self {
        self.key_rule(|_| KeyRule::Optional)
    }

    /// Decides for each request, by its head, whether it needs a key.
    ///
    /// ```
    /// # use idempotency::server::{IdempotencyLayer, MemoryStore, Scope};
    /// use axum::extract::MatchedPath;
    /// use idempotency::server::KeyRule;
    ///
    /// let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::credential()).key_rule(|request| {
    ///     match request.extensions.get::<MatchedPath>().map(MatchedPath::as_str) {
    ///         Some("/payments") => KeyRule::Required,
    ///         Some("/search") => KeyRule::Ignored,
    ///         _ => KeyRule::Optional,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn key_rule(mut self, rule: impl Fn(&Parts) -> KeyRule + Send + Sync + 'static) -> Self {
        self.settings.key_rule = Arc::new(rule);
        self
    }

    /// Where the key stands, for senders that call it otherwise, such as webhooks.
    #[must_use]
    pub fn key_from(mut self, place: KeyFrom) -> Self {
        self.settings.key_from = place;
        self
    }

    /// Requests under one key are taken for the same without being compared.
    ///
    /// For senders that change the body between deliveries of one event. A client that reuses a
    /// key for another operation is then served the first one's answer, and never learns it.
    #[must_use]
    pub fn without_fingerprint(mut self) -> Self {
        self.settings.compare = false;
        self
    }

    /// The largest request body, in bytes. A larger one is refused with 413 before anything is
    /// claimed: a body that is not compared whole protects nothing.
    #[must_use]
    pub fn request_limit(mut self, bytes: usize) -> Self {
        self.settings.request_limit = bytes;
        self
    }

    /// The largest answer that is kept, in bytes. A larger one reaches its client, and a repeat is
    /// told with 409 that the operation is done and its answer was not kept.
    #[must_use]
    pub fn answer_limit(mut self, bytes: usize) -> Self {
        self.settings.answer_limit = bytes;
        self
    }

    /// How long a claim outlives the process that holds it. It is renewed every third of that while
    /// the handler runs, so it may be shorter than the slowest handler, and should be longer than
    /// the longest pause of a process or outage of the store that is to be ridden out. Below 10 ms
    /// it is taken as 10 ms.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.terms.lease = lease.max(Duration::from_millis(10));
        self
    }

    /// What becomes of an operation whose lease has passed.
    #[must_use]
    pub fn on_lease_expired(mut self, option: OnLeaseExpired) -> Self {
        self.settings.terms.on_expired = option;
        self
    }

    /// How long an answer is kept, from completion on. Publish it: it must be longer than the
    /// longest time over which clients retry.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.settings.terms.keep = keep;
        self
    }

    /// How long a request waits for a running one with its key before it is told 409. It then gets
    /// the answer as a replay.
    #[must_use]
    pub fn wait_for_running(mut self, wait: Duration) -> Self {
        self.settings.wait_for_running = wait;
        self
    }

    /// What `Retry-After` says in our 409 and 503, in whole seconds, at least 1.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.settings.retry_after = wait;
        self
    }

    /// What becomes of the key when the handler answers 500 or above. In one-transaction mode the
    /// handler's work is rolled back whatever is chosen here.
    #[must_use]
    pub fn on_server_error(mut self, option: OnFailure) -> Self {
        self.settings.on_server_error = option;
        self
    }

    /// What becomes of the key when the handler panics, or its answer's body fails. The client is
    /// told 500.
    ///
    /// By default the 500 is kept: nobody knows how far the handler had come, and running it again
    /// in silence is what keys are there to prevent. In one-transaction mode the work is rolled
    /// back, so there the default is [`OnFailure::Release`].
    #[must_use]
    pub fn on_panic(mut self, option: OnFailure) -> Self {
        self.settings.on_panic = Some(option);
        self
    }

    /// What becomes of a request when the store cannot be reached.
    #[must_use]
    pub fn on_store_failure(mut self, option: OnStoreFailure) -> Self {
        self.settings.on_store_failure = option;
        self
    }

    /// How long the store may take to answer, repeats of the question included.
    #[must_use]
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.settings.store_timeout = timeout;
        self
    }

    /// Keeps one more header of the answers.
    ///
    /// By default those are kept that describe the answer (its type, place, validators, links).
    /// Headers of the exchange or of the caller's session are never kept, whatever is asked for
    /// here: hop-by-hop headers, `Set-Cookie`, authentication challenges, `Date`,
    /// `Content-Length` (it is computed) and `Access-Control-*` (the CORS layer adds them anew).
    #[must_use]
    pub fn keep_header(mut self, name: HeaderName) -> Self {
        if may_be_kept(&name) {
            self.settings.keep_headers.push(name);
        }
        self
    }

    /// The secret under which [`Operation::downstream_key`](super::Operation::downstream_key)
    /// derives. Changing it changes the keys of operations under way.
    #[must_use]
    pub fn downstream_namespace(mut self, namespace: KeyNamespace) -> Self {
        self.settings.namespace = Some(namespace);
        self
    }

    /// The operations that are running.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }
}

impl<S: Store, Inner> Layer<Inner> for IdempotencyLayer<S> {
    type Service = IdempotencyService<Inner>;

    fn layer(&self, inner: Inner) -> IdempotencyService<Inner> {
        let shared = Shared {
            store: self.store.clone(),
            settings: self.settings.clone(),
            in_flight: self.in_flight.clone(),
        };
        IdempotencyService::new(inner, Arc::new(shared))
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            settings: self.settings.clone(),
            in_flight: self.in_flight.clone(),
        }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("methods", &self.settings.methods)
            .field("terms", &self.settings.terms)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
