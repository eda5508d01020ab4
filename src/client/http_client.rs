//! The client.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::Instant;

use super::client_builder::ClientBuilder;
use super::endpoint::Endpoint;
use super::engine::{Direct, Engine};
use super::error::{Effect, Error, ErrorKind};
use super::frozen::{Frozen, FrozenBody};
use super::idempotent::IdempotentRequest;
use super::operation::{Course, Fault, KeyInUse, Overrides, Ticket, Wanted, protection};
use super::past::Past;
use super::pending::Pending;
use super::report::Report;
use super::request::RequestBuilder;
use super::response::{Meta, Response};
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
        let inner = match url.into_url() {
            Ok(url) => Ok(self.0.http.request(method, url)),
            Err(message) => Err(Fault::new(ErrorKind::Builder, message)),
        };
        RequestBuilder::new(self.clone(), inner)
    }

    /// Prepares a place to which many operations go: its URL is parsed once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Builder`] for a bad URL.
    pub fn endpoint(&self, method: Method, url: impl IntoUrl) -> Result<Endpoint, Error> {
        let request = self.request(method, url).into_request();
        let request = request.map_err(|fault| fault.to_error())?;
        Ok(Endpoint::new(self.clone(), request))
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

    /// Fixes a request: from here on it does not change.
    pub(crate) fn freeze(&self, request: reqwest::Request) -> Frozen {
        let mut frozen = Frozen::new(request);
        for name in self.0.default_headers.keys() {
            if !frozen.headers.contains_key(name) {
                for value in self.0.default_headers.get_all(name) {
                    frozen.headers.append(name.clone(), value.clone());
                }
            }
        }
        frozen
    }

    pub(crate) async fn execute(
        &self,
        frozen: &Arc<Frozen>,
        key: Option<&KeyInUse>,
        overrides: &Overrides,
        past: &Arc<Past>,
    ) -> Result<Response, Error> {
        if let Some(chain) = &self.0.chain {
            // Boxed: those who have no middlewares need not carry the room for them.
            return Box::pin(self.through(chain, frozen, key, overrides, past)).await;
        }
        let mut direct = Direct(&self.0.http);
        let engine = &self.0.engine;
        let course = (Instant::now(), &[][..]);
        engine
            .run(frozen, key, overrides, past, &mut direct, course)
            .await
    }

    async fn through(
        &self,
        chain: &ClientWithMiddleware,
        frozen: &Frozen,
        key: Option<&KeyInUse>,
        overrides: &Overrides,
        past: &Arc<Past>,
    ) -> Result<Response, Error> {
        let policy = overrides.policy.as_ref().unwrap_or(self.policy());
        let stall = policy.stall_timeout();
        let course = Arc::new(Course::begin(Arc::clone(past)));
        // The chain takes a request once; a stream that could be sent again has to be read for that before it enters.
        let limit = match (&frozen.body, key) {
            (FrozenBody::Stream(_), Some(_)) => Some(policy.request_buffer()),
            _ => None,
        };
        let deadline = overrides.deadline.or(policy.deadline());
        let deadline = deadline.and_then(|deadline| course.began.checked_add(deadline));
        let body = match frozen.body.next(limit, deadline).await {
            Ok(body) => body,
            Err(fault) => {
                let effect = past.effect(protection(&frozen.method, key));
                let report = Report {
                    stopped_by: Some(fault.stopped_by()),
                    followed_unknown: key.is_some() && past.is_unknown(),
                    ..outer(key, &course)
                };
                return Err(fault.into_error(effect, report));
            }
        };
        let wanted = Wanted::again(key.cloned());
        let mut extensions = http::Extensions::new();
        let mut ticket = Ticket::new(wanted, overrides.clone(), Arc::clone(past));
        ticket.course = Some(Arc::clone(&course));
        extensions.insert(ticket);
        let request = frozen.request(body, false);
        match chain
            .execute_with_extensions(request, &mut extensions)
            .await
        {
            Ok(response) => Ok(adopt(response, stall, || outer(key, &course))),
            Err(error) => Err(Error::out_of_chain(error, || outer(key, &course))),
        }
    }
}

/// The report for what a middleware of the caller's has answered or failed with by itself: what is known from outside of the loop.
fn outer(key: Option<&KeyInUse>, course: &Course) -> Report {
    Report {
        key: key.map(|key| key.key.clone()),
        attempts: course.log(),
        ..Report::empty()
    }
}

/// A response that came out of a middleware chain. Where a middleware answered by itself there is no report in it.
fn adopt(
    mut response: reqwest::Response,
    stall: std::time::Duration,
    report: impl FnOnce() -> Report,
) -> Response {
    let meta = response.extensions_mut().remove::<Meta>();
    let meta = meta.unwrap_or_else(|| Meta {
        report: report(),
        effect: Effect::Unknown,
        mismatch: false,
        already_done: false,
        resource: None,
        stall,
    });
    Response::new(response).with_meta(meta)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("contract", &self.contract().name())
            .field("policy", self.policy())
            .finish_non_exhaustive()
    }
}
