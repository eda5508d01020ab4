//! Building a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest_middleware::Middleware;

use super::engine::Engine;
use super::error::{Error, ErrorKind, Source};
use super::guard::OperationGuard;
use super::http_client::Client;
use super::middleware::IdempotencyMiddleware;
use super::redirect::redirect_policy;
use super::settle::key_for_all;
use crate::contract::{Contract, KeySource};
use crate::retry::RetryPolicy;

/// Builds a [`Client`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use idempotency::{Client, Contract, RetryPolicy};
///
/// let client = Client::builder()
///     .contract(Contract::stripe())
///     .policy(RetryPolicy::builder().deadline(Duration::from_secs(20)).build()?)
///     .reqwest(Client::reqwest_defaults().user_agent("shop/1.0"))
///     .build()?;
/// assert_eq!(client.contract().name(), "stripe");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    reqwest: reqwest::ClientBuilder,
    engine: Engine,
    default_headers: HeaderMap,
    per_operation: Vec<Arc<dyn Middleware>>,
    per_attempt: Vec<Arc<dyn Middleware>>,
}

impl Client {
    /// A [`reqwest::ClientBuilder`] with this crate's defaults, to add settings to.
    ///
    /// Idle connections are given up after 20 s, before common servers and balancers close them, so that a request seldom meets
    /// a connection that is just being closed. TCP and HTTP/2 keep-alive find a dead connection within 15 s, since a retry over
    /// the same dead connection is none. TLS is rustls where that feature is on, whatever other crates switch on in reqwest: only
    /// its errors tell a refused certificate from a broken handshake. A followed redirect does not say where it comes from: in the
    /// `Referer` that reqwest would send stands the query, and queries hold signatures.
    pub fn reqwest_defaults() -> reqwest::ClientBuilder {
        const PROBE: Duration = Duration::from_secs(10);
        const SILENCE: Duration = Duration::from_secs(5);
        let builder = reqwest::Client::builder()
            .referer(false)
            .pool_idle_timeout(Duration::from_secs(20))
            .tcp_keepalive(PROBE)
            .tcp_keepalive_interval(SILENCE);
        #[cfg(feature = "http2")]
        let builder = builder
            .http2_keep_alive_interval(PROBE)
            .http2_keep_alive_timeout(SILENCE)
            .http2_keep_alive_while_idle(true);
        #[cfg(feature = "rustls")]
        let builder = builder.tls_backend_rustls();
        builder
    }
}

impl ClientBuilder {
    pub(crate) fn new() -> Self {
        Self {
            reqwest: Client::reqwest_defaults(),
            engine: Engine {
                trusted: true,
                ..Engine::default()
            },
            default_headers: HeaderMap::new(),
            per_operation: Vec::new(),
            per_attempt: Vec::new(),
        }
    }

    /// Settings of the HTTP client below: proxies, certificates, pools. [`Client::reqwest_defaults`] is where to start.
    ///
    /// Three of its settings are replaced: the redirect policy, reqwest's own retries and the connect timeout, which comes from
    /// the policy. A `timeout` set here holds for each attempt, the streamed rest of an answer included; leave it to the policy.
    /// Headers that are to be on every request belong into [`default_headers`](Self::default_headers), where the loop sees them.
    pub fn reqwest(mut self, builder: reqwest::ClientBuilder) -> Self {
        self.reqwest = builder;
        self
    }

    /// What the server promises. Default: [`Contract::generic`].
    pub fn contract(mut self, contract: Contract) -> Self {
        self.engine.contract = contract;
        self
    }

    /// How operations are retried. Default: [`RetryPolicy::standard`].
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.engine.policy = policy;
        self
    }

    /// Where keys come from. Default: [`KeySource::random`].
    pub fn key_source(mut self, keys: KeySource) -> Self {
        self.engine.keys = keys;
        self
    }

    /// Lets callers use one key for two different requests. Without it such a second request is refused
    /// ([`ErrorKind::Key`]): some servers answer it with the first one's answer, and the second operation does not happen.
    ///
    /// The check is this client's and its clones': 4096 keys and servers are remembered, as hashes, with the method, URL and body
    /// that they were first sent with. Drawn keys are not looked at, and neither is a body that is a stream. Switch it off where one
    /// client serves several accounts at one server, and their keys may be the same.
    pub fn allow_key_reuse(mut self) -> Self {
        self.engine.reuse_allowed = true;
        self
    }

    /// Headers for every request that does not set them itself.
    pub fn default_headers(mut self, headers: HeaderMap) -> Self {
        self.default_headers = headers;
        self
    }

    /// A middleware that runs once per operation, around all attempts.
    pub fn operation_middleware(mut self, middleware: impl Middleware) -> Self {
        self.per_operation.push(Arc::new(middleware));
        self
    }

    /// A middleware that runs once per attempt: signing, dates, access tokens. It may change neither method, URL, key nor body of
    /// the operation ([`OperationGuard`](crate::OperationGuard)).
    pub fn attempt_middleware(mut self, middleware: impl Middleware) -> Self {
        self.per_attempt.push(Arc::new(middleware));
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Key`] when the default headers hold the contract's key header: one key would serve every operation.
    /// [`ErrorKind::Builder`] when reqwest refuses its settings, TLS above all.
    pub fn build(self) -> Result<Client, Error> {
        if let Some(message) = key_for_all(&self.engine.contract, &self.default_headers) {
            return Err(Error::local(ErrorKind::Key, message));
        }
        let http = self
            .reqwest
            .redirect(redirect_policy())
            // Attempts that the report does not know of would make it a lie.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connect_timeout(self.engine.policy.connect_timeout())
            .build()
            .map_err(|error| {
                Error::local(
                    ErrorKind::Builder,
                    "the HTTP client could not be built".to_owned(),
                )
                .with_source(Some(Source::transport(error)))
            })?;
        let chain = (!self.per_operation.is_empty() || !self.per_attempt.is_empty()).then(|| {
            let ours = IdempotencyMiddleware::from_engine(self.engine.clone());
            let stack: Vec<Arc<dyn Middleware>> = self
                .per_operation
                .into_iter()
                .chain([Arc::new(ours) as Arc<dyn Middleware>])
                .chain(self.per_attempt)
                .chain([Arc::new(OperationGuard::new()) as Arc<dyn Middleware>])
                .collect();
            reqwest_middleware::ClientWithMiddleware::new(http.clone(), stack)
        });
        Ok(Client::from_parts(
            http,
            chain,
            self.engine,
            self.default_headers,
        ))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("contract", &self.engine.contract.name())
            .field("policy", &self.engine.policy)
            .field(
                "default_headers",
                &self.default_headers.keys().collect::<Vec<_>>(),
            )
            .field("per_operation", &self.per_operation.len())
            .field("per_attempt", &self.per_attempt.len())
            .finish_non_exhaustive()
    }
}
