//! Building a request, with reqwest's method names.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Version};
use reqwest::Body;

use super::error::Error;
use super::http_client::Client;
use super::idempotent::IdempotentRequest;
use super::operation::{Fault, Overrides, Wanted, settle};
use super::past::Past;
use super::response::Response;
use crate::contract::IdempotencyKey;

/// A request in the making.
///
/// [`idempotent`](Self::idempotent) makes it an operation with a key; [`send`](Self::send) without it sends it as it is: then only a
/// method that may be repeated is (RFC 9110, section 9.2.2), and a POST only when it certainly was not processed.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    inner: Result<reqwest::RequestBuilder, Fault>,
}

impl RequestBuilder {
    pub(crate) fn new(client: Client, inner: Result<reqwest::RequestBuilder, Fault>) -> Self {
        Self { client, inner }
    }

    fn map(
        mut self,
        change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Self {
        self.inner = self.inner.map(change);
        self
    }

    /// Adds a header. It does not replace one of the same name.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.map(|inner| inner.header(name, value))
    }

    /// Sets headers. They replace those of the same name.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.map(|inner| inner.headers(headers))
    }

    /// Sets basic authentication.
    pub fn basic_auth(
        self,
        username: impl fmt::Display,
        password: Option<impl fmt::Display>,
    ) -> Self {
        self.map(|inner| inner.basic_auth(username, password))
    }

    /// Sets a bearer token.
    pub fn bearer_auth(self, token: impl fmt::Display) -> Self {
        self.map(|inner| inner.bearer_auth(token))
    }

    /// Sets the body. A stream is buffered before the first attempt, up to the policy's request buffer, where the operation may
    /// be repeated; a larger one is sent once.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.map(|inner| inner.body(body))
    }

    /// Sets a JSON body.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(self, json: &T) -> Self {
        self.map(|inner| inner.json(json))
    }

    /// Sets a URL-encoded body.
    #[cfg(feature = "form")]
    pub fn form<T: serde::Serialize + ?Sized>(self, form: &T) -> Self {
        self.map(|inner| inner.form(form))
    }

    /// Sets a multipart body. Its boundary is fixed here, so every attempt sends the same bytes.
    #[cfg(feature = "multipart")]
    pub fn multipart(self, form: reqwest::multipart::Form) -> Self {
        self.map(|inner| inner.multipart(form))
    }

    /// Adds parameters to the query.
    #[cfg(feature = "query")]
    pub fn query<T: serde::Serialize + ?Sized>(self, query: &T) -> Self {
        self.map(|inner| inner.query(query))
    }

    /// Sets the HTTP version.
    pub fn version(self, version: Version) -> Self {
        self.map(|inner| inner.version(version))
    }

    /// A copy of this request, unless its body is a stream or it is faulty.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let inner = self.inner.as_ref().ok()?.try_clone()?;
        Some(Self::new(self.client.clone(), Ok(inner)))
    }

    /// Makes it an operation: draws its key, once. Nothing after that draws another.
    ///
    /// A key header that the request carries already is kept and is the key. On a safe method (GET, HEAD, OPTIONS, TRACE) there is
    /// nothing to protect and no key is sent.
    pub fn idempotent(self) -> IdempotentRequest {
        let wanted = Wanted::draw(&self.client.engine().keys);
        self.settled(wanted)
    }

    /// Makes it an operation with a key that was saved or derived.
    ///
    /// Since the key may have been used before, an error never says that the operation was not executed, and an answer without a
    /// marker is not called fresh. Where it was sent before, say so with
    /// [`first_sent`](IdempotentRequest::first_sent).
    pub fn idempotent_with(self, key: IdempotencyKey) -> IdempotentRequest {
        self.settled(Wanted::Given(key))
    }

    fn settled(self, wanted: Wanted) -> IdempotentRequest {
        let client = self.client.clone();
        IdempotentRequest::new(
            client.clone(),
            self.into_request().map(|request| client.freeze(request)),
            wanted,
        )
    }

    /// Sends the request as it is. A key header that it carries makes it a keyed operation.
    ///
    /// # Errors
    ///
    /// [`Error`], whose [`effect`](Error::effect) says what is certain. Without a key any answer is `Ok`, as in reqwest.
    pub fn send(self) -> impl Future<Output = Result<Response, Error>> + Send + 'static {
        let client = self.client.clone();
        let settled = self.into_request().and_then(|request| {
            let mut frozen = client.freeze(request);
            let key = settle(client.contract(), &mut frozen, Wanted::Own)?;
            Ok((Arc::new(frozen), key))
        });
        let settled = settled.map_err(Box::new);
        async move {
            let (frozen, key) = match &settled {
                Ok(settled) => settled,
                Err(fault) => return Err(fault.to_error()),
            };
            let past = Arc::new(Past::default());
            client
                .execute(frozen, key.as_ref(), &Overrides::NONE, &past)
                .await
        }
    }

    pub(crate) fn into_request(self) -> Result<reqwest::Request, Fault> {
        self.inner?.build().map_err(Fault::builder)
    }
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("fault", &self.inner.as_ref().err())
            .finish_non_exhaustive()
    }
}
