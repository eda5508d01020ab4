//! Building a request, with reqwest's method names.

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
#[cfg(feature = "json")]
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use reqwest::Body;

use super::body::FrozenBody;
use super::error::{Error, ErrorKind};
use super::fault::Fault;
use super::frozen::Frozen;
use super::headers::{Headers, MOST};
use super::http_client::Client;
use super::idempotent::IdempotentRequest;
use super::operation::Operation;
use super::response::Response;
use super::settle::Wanted;
use super::target::Target;
use crate::contract::IdempotencyKey;

/// The room for a JSON body that is set aside at first, in bytes: most bodies of operations fit.
#[cfg(feature = "json")]
const JSON: usize = 256;

/// A request in the making.
///
/// [`idempotent`](Self::idempotent) makes it an operation with a key; [`send`](Self::send) without it sends it as it is: then only a
/// method that may be repeated is (RFC 9110, section 9.2.2), and a POST only when it certainly was not processed.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder(Arc<Operation>);

impl RequestBuilder {
    /// A request without a body.
    #[inline(always)]
    pub(crate) fn begin(client: Client, method: Method, url: Target, headers: Headers) -> Self {
        Self(Operation::new(
            client,
            Ok(Frozen::begin(method, url, headers)),
        ))
    }

    pub(crate) fn new(client: Client, request: Result<Frozen, Box<Fault>>) -> Self {
        Self(Operation::new(client, request))
    }

    /// Changes the request, unless it is faulty already.
    fn change(mut self, change: impl FnOnce(&mut Frozen) -> Result<(), Fault>) -> Self {
        Operation::change(&mut self.0, |operation| {
            if let Ok(frozen) = &mut operation.request
                && let Err(fault) = change(frozen)
            {
                operation.request = Err(Box::new(fault));
            }
        });
        self
    }

    /// Has reqwest's builder make the change.
    fn by_reqwest(
        self,
        change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Self {
        let http = self.0.client.http().clone();
        self.change(|frozen| frozen.change(http, change))
    }

    /// Adds a header. It does not replace one of the same name.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.change(|frozen| {
            let name = HeaderName::try_from(name).map_err(|error| Fault::unbuilt(error.into()))?;
            let value =
                HeaderValue::try_from(value).map_err(|error| Fault::unbuilt(error.into()))?;
            if frozen.headers.is_full() {
                return Err(Fault::new(
                    ErrorKind::Builder,
                    format!("more than {MOST} headers: leave `{name}` out"),
                ));
            }
            frozen.headers.append(name, value);
            Ok(())
        })
    }

    /// Sets headers. They replace those of the same name.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.by_reqwest(|inner| inner.headers(headers))
    }

    /// Sets basic authentication.
    pub fn basic_auth(
        self,
        username: impl fmt::Display,
        password: Option<impl fmt::Display>,
    ) -> Self {
        self.by_reqwest(|inner| inner.basic_auth(username, password))
    }

    /// Sets a bearer token.
    pub fn bearer_auth(self, token: impl fmt::Display) -> Self {
        self.change(|frozen| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|error| Fault::unbuilt(http::Error::from(error)))?;
            value.set_sensitive(true);
            frozen.headers.append(AUTHORIZATION, value);
            Ok(())
        })
    }

    /// Sets the body. A stream is buffered before the first attempt, up to the policy's request buffer, where the operation may
    /// be repeated; a larger one is sent once.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.change(|frozen| {
            frozen.set_body(body.into());
            Ok(())
        })
    }

    /// Sets a JSON body.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(self, json: &T) -> Self {
        self.change(|frozen| {
            let mut body = Vec::with_capacity(JSON);
            serde_json::to_writer(&mut body, json).map_err(Fault::unbuilt)?;
            let json = HeaderValue::from_static("application/json");
            frozen.headers.add(CONTENT_TYPE, json);
            frozen.body = FrozenBody::Bytes(body.into());
            Ok(())
        })
    }

    /// Sets a URL-encoded body.
    #[cfg(feature = "form")]
    pub fn form<T: serde::Serialize + ?Sized>(self, form: &T) -> Self {
        self.by_reqwest(|inner| inner.form(form))
    }

    /// Sets a multipart body. Its boundary is fixed here, so every attempt sends the same bytes.
    #[cfg(feature = "multipart")]
    pub fn multipart(self, form: reqwest::multipart::Form) -> Self {
        self.by_reqwest(|inner| inner.multipart(form))
    }

    /// Adds parameters to the query.
    #[cfg(feature = "query")]
    pub fn query<T: serde::Serialize + ?Sized>(self, query: &T) -> Self {
        self.by_reqwest(|inner| inner.query(query))
    }

    /// Sets the HTTP version.
    pub fn version(self, version: Version) -> Self {
        self.change(|frozen| {
            frozen.version = version;
            Ok(())
        })
    }

    /// A copy of this request, unless its body is a stream or it is faulty.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let frozen = self.0.request.as_ref().ok()?;
        if matches!(frozen.body, FrozenBody::Stream(_)) {
            return None;
        }
        Some(Self::new(self.0.client.clone(), Ok(frozen.clone())))
    }

    /// Makes it an operation: draws its key, once. Nothing after that draws another.
    ///
    /// A key header that the request carries already is kept and is the key. On a safe method (GET, HEAD, OPTIONS, TRACE) there is
    /// nothing to protect and no key is sent.
    pub fn idempotent(self) -> IdempotentRequest {
        let wanted = Wanted::draw(&self.0.client.engine().keys);
        IdempotentRequest::new(self.0, wanted)
    }

    /// Makes it an operation with a key that was saved or derived.
    ///
    /// Since the key may have been used before, an error never says that the operation was not executed, and an answer without a
    /// marker is not called fresh. Where it was sent before, say so with
    /// [`first_sent`](IdempotentRequest::first_sent).
    pub fn idempotent_with(self, key: IdempotencyKey) -> IdempotentRequest {
        IdempotentRequest::new(self.0, Wanted::Given(key))
    }

    /// Sends the request as it is. A key header that it carries makes it a keyed operation.
    ///
    /// # Errors
    ///
    /// [`Error`], whose [`effect`](Error::effect) says what is certain. Without a key any answer is `Ok`, as in reqwest.
    pub fn send(self) -> impl Future<Output = Result<Response, Error>> + Send + 'static {
        let Self(mut operation) = self;
        Operation::change(&mut operation, |operation| operation.complete(Wanted::Own));
        operation.send()
    }

    pub(crate) fn into_request(self) -> Result<Frozen, Fault> {
        match &self.0.request {
            Ok(frozen) => Ok(frozen.clone()),
            Err(fault) => Err(Fault::clone(fault)),
        }
    }
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("fault", &self.0.request.as_ref().err())
            .finish_non_exhaustive()
    }
}
