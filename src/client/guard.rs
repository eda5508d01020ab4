//! What middlewares may not change between the loop and the wire.

use http::Extensions;
use reqwest::Request;
use reqwest_middleware::{Middleware, Next};

use super::attempt::is_impatient;
use super::body::FrozenBody;
use super::classify;
use super::error::{Error, ErrorKind};
use super::redirect::{Hops, Likeness};
use super::ticket::Passage;

/// Stands behind the middlewares that run once per attempt, and lets no attempt pass that is not the operation any more.
///
/// Middlewares after [`IdempotencyMiddleware`](crate::IdempotencyMiddleware) renew what has to be new on every attempt: signatures,
/// dates, access tokens. Method, URL, key and body belong to the operation: with another key it would be another operation, with
/// another body one that the server refuses or, worse, takes for the first. An attempt in which one of them differs is not sent and
/// ends in [`ErrorKind::Middleware`].
///
/// Requests that a middleware sends for purposes of its own, such as the one for a token, pass: those have neither the operation's
/// key header, nor its URL with its method, nor its body. A body that is a stream is not compared.
///
/// A [`Client`](crate::Client) with [`attempt_middleware`](crate::ClientBuilder::attempt_middleware) has it already. In a stack of
/// your own add it last:
///
/// ```
/// use idempotency::{IdempotencyMiddleware, OperationGuard};
///
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(IdempotencyMiddleware::new())
///     // Here come those that sign and authorise.
///     .with(OperationGuard::new())
///     .build();
/// # let _ = client;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationGuard(());

impl OperationGuard {
    /// A guard; it needs no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

#[async_trait::async_trait]
impl Middleware for OperationGuard {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let is_own = match Hops::likeness(&request) {
            Likeness::Same => true,
            Likeness::Other => false,
            Likeness::Altered(what) => {
                return Err(reqwest_middleware::Error::middleware(Error::local(
                    ErrorKind::Middleware,
                    format!("a middleware changed the {what} of the operation"),
                )));
            }
        };
        // It also sees what really goes out, so that a refused connection of a middleware's own request is not taken for one of
        // the operation's, and an operation that a middleware has sent twice not for one that was sent once.
        let url = request.url().clone();
        Hops::begin_exchange(is_own);
        let result = next.run(request, extensions).await;
        let failure = match &result {
            Err(reqwest_middleware::Error::Reqwest(error)) => Some(classify::sending(error, &url)),
            _ => None,
        };
        let is_doubtful = match &result {
            Ok(answer) => is_impatient(answer.status()),
            Err(_) => true,
        };
        Hops::end_exchange(is_own, failure, is_doubtful);
        result
    }
}

impl Passage {
    /// Whether this request is the operation's, and what is different in it if it still is that and not one of a middleware's own.
    pub(crate) fn likeness(&self, request: &Request) -> Likeness {
        let frozen = &self.frozen;
        let same_method = *request.method() == frozen.method;
        let same_url = *request.url() == *frozen.url;
        let same_body = self.same_body(request);
        let (key, expected): (Vec<_>, Vec<_>) = match &self.key_header {
            None => Default::default(),
            Some(name) => (
                request.headers().get_all(name).iter().collect(),
                frozen.headers.get_all(name).collect(),
            ),
        };
        let what = if key != expected {
            "key"
        } else if !same_body {
            "body"
        } else if !same_method {
            "method"
        } else if !same_url {
            "URL"
        } else {
            return Likeness::Same;
        };
        let same_place = request.url().path() == frozen.url.path()
            && request.url().origin() == frozen.url.origin();
        let has_key = !expected.is_empty() && key.iter().any(|value| expected.contains(value));
        let has_body =
            same_body && !matches!(frozen.body, FrozenBody::None | FrozenBody::Stream(_));
        if has_key || has_body || (same_method && same_place) {
            Likeness::Altered(what)
        } else {
            Likeness::Other
        }
    }

    fn same_body(&self, request: &Request) -> bool {
        let expected: &[u8] = match &self.frozen.body {
            FrozenBody::None => &[],
            FrozenBody::Bytes(bytes) => bytes,
            FrozenBody::Stream(_) => return true,
        };
        match request.body() {
            None => expected.is_empty(),
            // A large body is seldom copied, and then it need not be read to be compared.
            Some(body) => body
                .as_bytes()
                .is_some_and(|found| std::ptr::eq(found, expected) || found == expected),
        }
    }
}
