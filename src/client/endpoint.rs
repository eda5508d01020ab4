//! A place to which many operations go.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use reqwest::Url;

use super::error::{Error, ErrorKind, Source};
use super::frozen::Frozen;
use super::headers::Headers;
use super::http_client::Client;
use super::request::RequestBuilder;
use super::target::{Place, Target};

/// A method, URL and headers, parsed once.
///
/// # Examples
///
/// ```
/// use http::Method;
/// use idempotency::Client;
///
/// let client = Client::builder().build()?;
/// let payments = client
///     .endpoint(Method::POST, "https://api.example.com/payments")?
///     .header("accept", "application/json")?;
/// let operation = payments.request().body("amount=100").idempotent();
/// assert!(operation.key().is_some());
/// # Ok::<(), idempotency::Error>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
    method: http::Method,
    place: Arc<Place>,
    headers: Headers,
}

impl Endpoint {
    pub(crate) fn new(client: Client, request: &Frozen) -> Self {
        Self {
            client,
            method: request.method.clone(),
            place: Arc::new(Place::new(Url::clone(&request.url))),
            headers: request.headers.clone(),
        }
    }

    /// Sets a header for every request. It replaces one of the same name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Builder`] for a name or value that HTTP does not allow.
    pub fn header<K, V>(mut self, name: K, value: V) -> Result<Self, Error>
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        let bad = |what: &str, error: http::Error| {
            Error::local(ErrorKind::Builder, format!("bad header {what}"))
                .with_source(Some(Source::Other(error.into())))
        };
        let name = HeaderName::try_from(name).map_err(|error| bad("name", error.into()))?;
        let value = HeaderValue::try_from(value)
            .map_err(|error| bad(&format!("value for `{name}`"), error.into()))?;
        self.headers.set(&name, value);
        Ok(self)
    }

    /// Starts a request to this place.
    pub fn request(&self) -> RequestBuilder {
        RequestBuilder::begin(
            self.client.clone(),
            self.method.clone(),
            Target::Prepared(Arc::clone(&self.place)),
            self.headers.clone(),
        )
    }
}

impl fmt::Debug for Endpoint {
    /// Without user-info, query and header values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("method", &self.method)
            .field("host", &self.place.url.host_str())
            .field("path", &self.place.url.path())
            .field(
                "headers",
                &self
                    .headers
                    .iter()
                    .map(|(name, _)| name)
                    .collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}
