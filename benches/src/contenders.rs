//! One operation, nine ways: POST 256 bytes of JSON, read a small answer.

use std::convert::Infallible;
use std::time::Duration;

use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use backon::Retryable as _;
use bytes::Bytes;
use idempotency::retry::RetryBudget;
use idempotency::{Backoff, RequestBuilderExt as _, RetryPolicy};
use serde::Serialize;

pub const NAMES: [&str; 9] = [
    "reqwest",
    "reqwest-retry",
    "reqwest::retry",
    "backon",
    "backoff",
    "smithy",
    "Client",
    "Endpoint",
    "ClientWithMiddleware",
];

#[derive(Serialize)]
struct Payment {
    amount: u64,
    currency: &'static str,
    note: &'static str,
}

/// 256 bytes as JSON.
const PAYMENT: Payment = Payment {
    amount: 100,
    currency: "EUR",
    note: "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
           0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
           01234567890123",
};

/// A way to send the operation.
pub enum Contender {
    Bare(reqwest::Client),
    Retry(reqwest_middleware::ClientWithMiddleware),
    Backon(reqwest::Client),
    Backoff(reqwest::Client),
    Smithy(Operation<(), Bytes, Infallible>),
    Ours(idempotency::Client),
    Endpoint(idempotency::Endpoint),
    Middleware(reqwest_middleware::ClientWithMiddleware),
}

/// No waiting between attempts, everything else as it comes: the waits are not what is measured.
fn policy() -> RetryPolicy {
    RetryPolicy::builder()
        .backoff(Backoff::constant(Duration::ZERO))
        .budget(RetryBudget::new(1000, 1_000_000))
        .build()
        .expect("a policy")
}

fn smithy(url: &str) -> Operation<(), Bytes, Infallible> {
    let client = reqwest::Client::new();
    Operation::builder()
        .service_name("bench")
        .operation_name("pay")
        .http_client(http_client_fn(move |_, _| {
            aws_smithy_runtime_api::client::http::SharedHttpConnector::new(Connector(
                client.clone(),
            ))
        }))
        .endpoint_url(url)
        .no_auth()
        .sleep_impl(aws_smithy_async::rt::sleep::TokioSleep::new())
        .time_source(aws_smithy_async::time::SystemTimeSource::new())
        .retry_classifier(
            aws_smithy_runtime::client::retries::classifiers::HttpStatusCodeClassifier::default(),
        )
        .standard_retry(
            &RetryConfig::standard()
                .with_max_attempts(4)
                .with_initial_backoff(Duration::ZERO),
        )
        .timeout_config(
            TimeoutConfig::builder()
                .operation_timeout(Duration::from_secs(60))
                .operation_attempt_timeout(Duration::from_secs(10))
                .build(),
        )
        .serializer(|()| {
            let body = serde_json::to_vec(&PAYMENT)?;
            let mut request = HttpRequest::new(SdkBody::from(body));
            request.set_method("POST")?;
            request
                .headers_mut()
                .insert("content-type", "application/json");
            Ok(request)
        })
        .deserializer(|response: &HttpResponse| {
            Ok(Bytes::copy_from_slice(
                response.body().bytes().unwrap_or_default(),
            ))
        })
        .build()
}

#[derive(Debug)]
struct Connector(reqwest::Client);

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let other = |error| ConnectorError::io(error);
            let request = request
                .try_into_http1x()
                .map_err(|error| other(error.into()))?
                .map(|body| Bytes::copy_from_slice(body.bytes().unwrap_or_default()));
            let request =
                reqwest::Request::try_from(request).map_err(|error| other(error.into()))?;
            let response = client
                .execute(request)
                .await
                .map_err(|error| other(error.into()))?;
            let status = response.status();
            let body = response
                .bytes()
                .await
                .map_err(|error| other(error.into()))?;
            Ok(HttpResponse::new(
                status.as_u16().try_into().expect("a status"),
                SdkBody::from(body),
            ))
        })
    }
}

impl Contender {
    pub fn new(name: &str, url: &str) -> Self {
        let bare = reqwest::Client::new;
        match name {
            "reqwest" => Self::Bare(bare()),
            "reqwest-retry" => {
                let policy = reqwest_retry::policies::ExponentialBackoff::builder()
                    .retry_bounds(Duration::ZERO, Duration::ZERO)
                    .build_with_max_retries(3);
                Self::Retry(
                    reqwest_middleware::ClientBuilder::new(bare())
                        .with(reqwest_retry::RetryTransientMiddleware::new_with_policy(
                            policy,
                        ))
                        .build(),
                )
            }
            "reqwest::retry" => {
                let retry = reqwest::retry::for_host("127.0.0.1")
                    .max_retries_per_request(3)
                    .max_extra_load(1000.0)
                    .classify_fn(|attempt| match attempt.status() {
                        Some(status) if status.is_server_error() => attempt.retryable(),
                        _ => attempt.success(),
                    });
                Self::Bare(
                    reqwest::Client::builder()
                        .retry(retry)
                        .build()
                        .expect("a client"),
                )
            }
            "backon" => Self::Backon(bare()),
            "backoff" => Self::Backoff(bare()),
            "smithy" => Self::Smithy(smithy(url)),
            "Client" | "Endpoint" => {
                let client = idempotency::Client::builder()
                    .reqwest(reqwest::Client::builder())
                    .policy(policy())
                    .build()
                    .expect("a client");
                if name == "Client" {
                    return Self::Ours(client);
                }
                Self::Endpoint(
                    client
                        .endpoint(reqwest::Method::POST, url)
                        .expect("an endpoint"),
                )
            }
            "ClientWithMiddleware" => Self::Middleware(
                reqwest_middleware::ClientBuilder::new(
                    reqwest::Client::builder()
                        .redirect(idempotency::redirect_policy())
                        .retry(reqwest::retry::never().max_retries_per_request(0))
                        .build()
                        .expect("a client"),
                )
                .with(
                    idempotency::IdempotencyMiddleware::new()
                        .policy(policy())
                        .trust_redirects(),
                )
                .build(),
            ),
            other => panic!("no contender is called {other}"),
        }
    }

    /// One operation; the bytes of its answer.
    pub async fn operation(&self, url: &str) -> Bytes {
        match self {
            Self::Bare(client) => {
                let response = client.post(url).json(&PAYMENT).send().await;
                response.expect("an answer").bytes().await.expect("a body")
            }
            Self::Retry(client) => {
                let response = client.post(url).json(&PAYMENT).send().await;
                response.expect("an answer").bytes().await.expect("a body")
            }
            Self::Backon(client) => {
                let attempt = || async {
                    let response = client.post(url).json(&PAYMENT).send().await?;
                    response.error_for_status()?.bytes().await
                };
                let backoff = backon::ConstantBuilder::default()
                    .with_delay(Duration::ZERO)
                    .with_max_times(3);
                attempt.retry(backoff).await.expect("an answer")
            }
            Self::Backoff(client) => {
                let attempt = || async {
                    let response = client.post(url).json(&PAYMENT).send().await?;
                    Ok(response.error_for_status()?.bytes().await?)
                };
                backoff::future::retry::<_, reqwest::Error, _, _, _>(
                    backoff::backoff::Zero {},
                    attempt,
                )
                .await
                .expect("an answer")
            }
            Self::Smithy(operation) => operation.invoke(()).await.expect("an answer"),
            Self::Ours(client) => {
                let response = client.post(url).json(&PAYMENT).idempotent().send().await;
                response.expect("an answer").bytes().await.expect("a body")
            }
            Self::Endpoint(endpoint) => {
                let response = endpoint.request().json(&PAYMENT).idempotent().send().await;
                response.expect("an answer").bytes().await.expect("a body")
            }
            Self::Middleware(client) => {
                let response = client.post(url).json(&PAYMENT).idempotent().send().await;
                response.expect("an answer").bytes().await.expect("a body")
            }
        }
    }
}
