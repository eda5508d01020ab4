//! An operation that can be written down.

use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::Request;
use serde::{Deserialize, Serialize};

use super::body::FrozenBody;
use super::error::{Effect, Error, ErrorKind, What};
use super::fault::Fault;
use super::frozen::Frozen;
use super::http_client::Client;
use super::idempotent::IdempotentRequest;
use super::operation::Operation;
use super::settle::Wanted;
use super::url::sealed::Sealed as _;
use crate::contract::IdempotencyKey;

/// An operation as it can be saved before it is sent, and taken up after a restart by [`Client::resume`].
///
/// It holds everything that makes the next attempt the same request: method, URL, headers, body and key. Headers that are marked
/// sensitive (`Authorization` by [`bearer_auth`](crate::RequestBuilder::bearer_auth) and
/// [`basic_auth`](crate::RequestBuilder::basic_auth)) are left out: give fresh ones with [`with_header`](Self::with_header). The
/// URL, the body and the key are saved as they are, so keep it where the operation's data may be kept. A policy, contract or
/// deadline of the operation's own is not saved: set it again on what [`Client::resume`] returns.
///
/// # Examples
///
/// ```
/// use idempotency::{Client, Pending};
///
/// let client = Client::builder().build()?;
/// let payment = client.post("https://api.example.com/payments").body("amount=100").idempotent();
/// let saved = serde_json::to_string(&payment.to_pending()?)?;
///
/// // After a restart:
/// let pending: Pending = serde_json::from_str(&saved)?;
/// let again = client.resume(&pending);
/// assert_eq!(again.key(), payment.key());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    method: String,
    url: String,
    headers: Vec<(String, Text)>,
    body: Option<Text>,
    key: IdempotencyKey,
    first_sent: Option<SystemTime>,
}

/// Bytes, written as text where they are.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Text {
    Text(String),
    Bytes(Vec<u8>),
}

impl Text {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Pending {
    pub(crate) fn of(operation: &Operation, frozen: &Frozen) -> Result<Self, Error> {
        let refuse = |kind, message: &str| {
            Error::new(kind, Effect::Unknown, What::Message(message.to_owned()))
        };
        let Some(key) = &operation.key else {
            return Err(refuse(
                ErrorKind::Contract,
                "a safe method has no key to take it up with",
            ));
        };
        let body = match &frozen.body {
            FrozenBody::None => None,
            FrozenBody::Bytes(bytes) => Some(Text::new(bytes)),
            FrozenBody::Stream(_) => {
                return Err(refuse(
                    ErrorKind::RequestBody,
                    "a body that is a stream cannot be written down",
                ));
            }
        };
        // The key's own header is saved as it was sent: quoted anew, or bare, it would be another key to some servers.
        let contract = operation.contract();
        let headers = frozen
            .headers
            .iter()
            .filter(|(name, value)| !value.is_sensitive() || Some(name) == contract.key_header())
            .map(|(name, value)| (name.as_str().to_owned(), Text::new(value.as_bytes())))
            .collect();
        Ok(Self {
            method: frozen.method.as_str().to_owned(),
            url: frozen.url.as_str().to_owned(),
            headers,
            body,
            key: key.key.clone(),
            first_sent: operation.past().first_sent(),
        })
    }

    /// The operation's key.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// When the operation was first sent. [`None`] if it had not been when it was written down.
    #[must_use]
    pub fn first_sent(&self) -> Option<SystemTime> {
        self.first_sent
    }

    /// Sets a header anew, such as a fresh access token.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Builder`] for a name or value that HTTP does not allow.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let bad = |what: &str| Error::local(ErrorKind::Builder, format!("bad header {what}"));
        let name = HeaderName::try_from(name).map_err(|_| bad(&format!("name {name:?}")))?;
        HeaderValue::from_str(value).map_err(|_| bad(&format!("value for `{name}`")))?;
        self.headers.retain(|(other, _)| *other != name.as_str());
        self.headers
            .push((name.as_str().to_owned(), Text::new(value.as_bytes())));
        Ok(self)
    }

    pub(crate) fn resume(&self, client: &Client) -> IdempotentRequest {
        // Whoever saved it may have sent it since: what is saved before the first byte says nothing of what came after.
        let wanted = Wanted::Given(self.key.clone());
        let request = self.request().map(Frozen::new).map_err(Box::new);
        let operation = Operation::new(client.clone(), request);
        let operation = IdempotentRequest::new(operation, wanted);
        match self.first_sent {
            Some(time) => operation.first_sent(time),
            None => operation,
        }
    }

    fn request(&self) -> Result<Request, Fault> {
        let bad = |what: &str| {
            Fault::new(
                ErrorKind::Builder,
                format!("the saved operation has a bad {what}"),
            )
        };
        let method = Method::from_bytes(self.method.as_bytes()).map_err(|_| bad("method"))?;
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name).map_err(|_| bad("header name"))?;
            let value =
                HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad("header value"))?;
            headers.append(name, value);
        }
        let url = self.url.as_str().into_url().map_err(|_| bad("URL"))?;
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers;
        *request.body_mut() = self
            .body
            .as_ref()
            .map(|body| Bytes::copy_from_slice(body.as_bytes()).into());
        Ok(request)
    }
}

impl fmt::Debug for Pending {
    /// Without URL, headers and body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("method", &self.method)
            .field("key", &self.key)
            .field("first_sent", &self.first_sent)
            .finish_non_exhaustive()
    }
}
