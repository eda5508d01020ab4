//! The test kit, judged by clients and servers that are bad on purpose.

mod bad_clients;
mod bad_server;
mod matching;
mod own_client;
mod probe_calls;
mod probing;
mod proxy;
mod raw;
mod server;

use idempotency::testing::{ContractServer, ContractServerBuilder, Faults};
use wiremock::ResponseTemplate;
use wiremock::matchers::{method, path};

/// How often the tests that race run: once, or `IDEMPOTENCY_RUNS` times.
fn runs() -> usize {
    match std::env::var("IDEMPOTENCY_RUNS") {
        Ok(runs) => runs.parse().unwrap(),
        Err(_) => 1,
    }
}

/// Runs a test that races as often as was asked for.
pub(crate) async fn in_a_row<F: Future<Output = ()>>(mut test: impl FnMut() -> F) {
    for _ in 0..runs() {
        test().await;
    }
}

/// A server with one operation, `POST /payments`, that answers 201 `{"id":1}`.
pub(crate) async fn payments(
    builder: ContractServerBuilder,
    faults: impl Into<Faults>,
) -> ContractServer {
    let server = builder.start().await;
    server
        .operation(method("POST"))
        .and(path("/payments"))
        .respond_with(ResponseTemplate::new(201).set_body_raw(r#"{"id":1}"#, "application/json"))
        .faults(faults)
        .mount();
    server
}
