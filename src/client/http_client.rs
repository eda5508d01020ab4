//! The client.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method};
use reqwest_middleware::ClientWithMiddleware;

use super::client_builder::ClientBuilder;
use super::endpoint::Endpoint;
use super::engine::Engine;
use super::error::{Error, ErrorKind};
use super::fault::Fault;
use super::frozen::Frozen;
use super::headers::Headers;
use super::idempotent::IdempotentRequest;
use super::pending::Pending;
use super::request::RequestBuilder;
use super::target::Target;
use super::url::IntoUrl;
use crate::contract::Contract;
use crate::retry::RetryPolicy;

/// An HTTP client whose operations can be sent again safely.
///
/// Cheap to clone; clones share the connections, the retry budget and the key source. An
/// [`idempotent`](RequestBuilder::idempotent) request always goes through the loop; there is no way to send it without.
///
/// # Examples
///
/// ```no_run
/// # async fn pay() -> Result<(), Box<dyn std::error::Error>> {
/// let client = idempotency::Client::builder().build()?;
/// let paid = client
///     .post("https://api.example.com/payments")
///     .body("amount=100")
///     .idempotent()
///     .send()
///     .await?;
/// println!("{} ({})", paid.status(), paid.replay());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    /// Where there are middlewares besides ours.
    chain: Option<ClientWithMiddleware>,
    engine: Engine,
    default_headers: HeaderMap,
}

impl Client {
    /// Starts a client with the generic contract and the standard policy.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    pub(crate) fn from_parts(
        http: reqwest::Client,
        chain: Option<ClientWithMiddleware>,
        engine: Engine,
        default_headers: HeaderMap,
    ) -> Self {
        Self(Arc::new(Inner {
            http,
            chain,
            engine,
            default_headers,
        }))
    }

    /// Starts a GET request.
    pub fn get(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::GET, url)
    }

    /// Starts a HEAD request.
    pub fn head(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::HEAD, url)
    }

    /// Starts a POST request.
    pub fn post(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// Starts a PUT request.
    pub fn put(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::PUT, url)
    }

    /// Starts a PATCH request.
    pub fn patch(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::PATCH, url)
    }

    /// Starts a DELETE request.
    pub fn delete(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::DELETE, url)
    }

    /// Starts a request. A bad URL is reported when it is sent; user-info in it becomes basic authentication.
    pub fn request(&self, method: Method, url: impl IntoUrl) -> RequestBuilder {
        let client = self.clone();
        match url.into_url() {
            Ok(url) if url.username().is_empty() && url.password().is_none() => {
                RequestBuilder::begin(client, method, Target::Own(url), Headers::default())
            }
            Ok(url) => {
                let request = self.0.http.request(method, url).build();
                let request = request.map(Frozen::new).map_err(Fault::builder);
                RequestBuilder::new(client, request.map_err(Box::new))
            }
            Err(message) => {
                let fault = Fault::new(ErrorKind::Builder, message);
                RequestBuilder::new(client, Err(Box::new(fault)))
            }
        }
    }

    /// Prepares a place to which many operations go: its URL is parsed once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Builder`] for a bad URL.
    pub fn endpoint(&self, method: Method, url: impl IntoUrl) -> Result<Endpoint, Error> {
        let request = self.request(method, url).into_request();
        let request = request.map_err(|fault| fault.to_error())?;
        Ok(Endpoint::new(self.clone(), &request))
    }

    /// Takes up an operation that was written down: same key, same request.
    pub fn resume(&self, pending: &Pending) -> IdempotentRequest {
        pending.resume(self)
    }

    /// The contract of this client's requests.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.0.engine.contract
    }

    /// The policy of this client's requests. Start from it ([`RetryPolicy::to_builder`]) to change one setting for one request.
    #[must_use]
    pub fn policy(&self) -> &RetryPolicy {
        &self.0.engine.policy
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.0.http
    }

    pub(crate) fn default_headers(&self) -> &HeaderMap {
        &self.0.default_headers
    }

    pub(crate) fn chain(&self) -> Option<&ClientWithMiddleware> {
        self.0.chain.as_ref()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("contract", &self.contract().name())
            .field("policy", self.policy())
            .finish_non_exhaustive()
    }
}
