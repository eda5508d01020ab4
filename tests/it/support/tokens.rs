//! Access tokens that run out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Extensions, HeaderValue, StatusCode};
use idempotency::Error;
use reqwest::header::AUTHORIZATION;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

/// A middleware that sends `authorization: token-0`; when that is refused it sends the request once more, with `token-1`,
/// and remembers that one. Clones share the token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Arc<AtomicU32>);

impl Tokens {
    /// The first token.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn sign(&self, request: &Request) -> Request {
        let token = format!("token-{}", self.0.load(Ordering::Relaxed));
        let mut signed = request.try_clone().expect("the body is no stream");
        let value = HeaderValue::try_from(token).unwrap();
        signed.headers_mut().insert(AUTHORIZATION, value);
        signed
    }
}

/// Whether the token was refused. Around the loop this can be an error: after an attempt of unknown outcome a 401 settles
/// nothing.
fn is_refused(result: &reqwest_middleware::Result<Response>) -> bool {
    let status = match result {
        Ok(response) => Some(response.status()),
        Err(error) => Error::from_middleware(error).and_then(Error::status),
    };
    status == Some(StatusCode::UNAUTHORIZED)
}

#[async_trait::async_trait]
impl Middleware for Tokens {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let first = next.clone().run(self.sign(&request), extensions).await;
        if !is_refused(&first) {
            return first;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        next.run(self.sign(&request), extensions).await
    }
}
