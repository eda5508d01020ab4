//! Safe retries in a `reqwest-middleware` stack that is there already.
//!
//! ```text
//! cargo run --example existing_middleware_stack
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use http::{Extensions, HeaderValue};
use idempotency::{
    Effect, IdempotencyMiddleware, Report, RequestBuilderExt as _, RetryPolicy, redirect_policy,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = MockServer::start().await;
    let payment = || Mock::given(method("POST")).and(path("/payments"));
    let busy = ResponseTemplate::new(503);
    let paid = ResponseTemplate::new(201);
    payment()
        .and(header("x-signature", "attempt 1"))
        .respond_with(busy.clone())
        .mount(&server)
        .await;
    payment().respond_with(paid).mount(&server).await;
    Mock::given(path("/down"))
        .respond_with(busy)
        .mount(&server)
        .await;

    let operations = Counter::default();
    let client = stack(operations.clone())?;

    let response = client
        .post(format!("{}/payments", server.uri()))
        .body("amount=100")
        .idempotent()
        .send()
        .await?;
    assert_eq!(response.status(), 201);
    // The one before ours ran once, the one after ours once per attempt.
    assert_eq!(operations.count(), 1);
    let report = Report::of(&response).ok_or("the response came past the middleware")?;
    assert_eq!(report.attempts().len(), 2);
    for attempt in report.attempts() {
        println!("{attempt}");
    }

    // reqwest-middleware's error hides ours: this is how to get at what is certain.
    let down = client.post(format!("{}/down", server.uri())).idempotent();
    let error = down
        .send()
        .await
        .err()
        .ok_or("503 is no answer to an operation")?;
    let error = idempotency::Error::from_middleware(&error).ok_or("another middleware's error")?;
    assert_eq!(error.effect(), Effect::Unknown);
    println!("{error}");
    Ok(())
}

fn stack(operations: Counter) -> Result<ClientWithMiddleware, reqwest::Error> {
    let http = reqwest::Client::builder()
        // Unsafe requests are redirected only where that is right. `trust_redirects` below says that it is here.
        .redirect(redirect_policy())
        // Retries below the middleware would be missing in its reports.
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .build()?;
    let retries = IdempotencyMiddleware::new()
        .policy(RetryPolicy::immediate(3))
        .trust_redirects();
    Ok(ClientBuilder::new(http)
        .with(operations)
        .with(retries)
        .with(Signature::default())
        .build())
}

/// Stands before the retries, so it sees operations.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU32>);

impl Counter {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Middleware for Counter {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        self.0.fetch_add(1, Ordering::Relaxed);
        next.run(request, extensions).await
    }
}

/// Stands after the retries, so it signs every attempt anew.
#[derive(Default)]
struct Signature(AtomicU32);

#[async_trait]
impl Middleware for Signature {
    async fn handle(
        &self,
        mut request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let signature = format!("attempt {number}");
        let signature =
            HeaderValue::try_from(signature).map_err(reqwest_middleware::Error::middleware)?;
        request.headers_mut().insert("x-signature", signature);
        next.run(request, extensions).await
    }
}
