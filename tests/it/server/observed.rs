//! What a trace shows, and what it never shows.

use std::num::NonZeroU32;

use async_trait::async_trait;
use http::StatusCode;
use idempotency::server::store::{Claim, Claimed, Ownership, Record, StoreError};
use idempotency::server::{IdempotencyLayer, OnStoreFailure, Scope, Store};

use super::app::{App, Ask};
use super::bed::Bed;
use crate::support::{Captured, Gate};

/// The outcomes of all requests so far, as the spans have them.
fn outcomes(captured: &Captured) -> Vec<String> {
    let spans = captured.spans_named("idempotency");
    let outcomes = spans
        .iter()
        .filter_map(|span| span.field("idempotency.outcome"));
    outcomes.map(str::to_owned).collect()
}

/// The same, as a metrics layer counts them.
fn counted(captured: &Captured, counter: &str, field: &str) -> Vec<String> {
    let counter = format!("monotonic_counter.idempotency.{counter}");
    let events = captured.events().into_iter();
    let counts = events.filter(|event| event.field(&counter) == Some("1"));
    counts
        .map(|event| event.field(field).unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_in_its_span_and_counted_and_no_secret_is_anywhere() {
    let captured = Captured::start();
    let bed = Bed::memory();
    let gate = Gate::new();
    let app = App::gated(bed.layer(), &gate);
    let ask = || Ask::post("s3cret-key").header("authorization", "s3cret-token");
    app.send(Ask::post("")).await;
    let first = app.spawn(ask());
    gate.reached().await;
    app.send(ask()).await;
    app.send(ask().body("s3cret-body")).await;
    gate.open();
    first.await.unwrap();
    app.send(ask()).await;

    let expected = ["refused", "new", "in_progress", "mismatch", "replayed"];
    assert_eq!(outcomes(&captured), expected);
    assert_eq!(
        counted(&captured, "requests", "idempotency.outcome"),
        expected
    );
    assert_eq!(
        counted(&captured, "recorded", "idempotency.recorded"),
        ["stored"]
    );
    let ran = &captured.spans_named("idempotency")[1];
    assert_eq!(ran.field("idempotency.run"), Some("1"));
    assert_eq!(ran.field("idempotency.recorded"), Some("stored"));
    assert_eq!(ran.field("http.request.method"), Some("POST"));
    for secret in ["s3cret", "order 1", "amount"] {
        captured.assert_absent(secret);
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_and_every_other_end_have_their_names() {
    let captured = Captured::start();
    let bed = Bed::memory();
    let hold = bed
        .layer()
        .on_server_error(idempotency::server::OnFailure::Hold);
    let app = App::new(
        hold.optional_key().answer_limit(3),
        |body: String| async move {
            let status: u16 = body.parse().unwrap_or(200);
            (StatusCode::from_u16(status).unwrap(), body)
        },
    );
    let ask = |key: &str, body: &'static str| Ask::post(key).body(body);
    app.send(ask("", "200")).await;
    app.send(ask("held", "500")).await;
    tokio::time::advance(bed.lease * 2).await;
    app.send(ask("held", "500")).await;
    app.send(ask("released", "429")).await;
    app.send(ask("large", "12.4")).await;
    app.send(ask("large", "12.4")).await;
    let ends = ["unkeyed", "new", "taken_over", "new", "new", "not_kept"];
    assert_eq!(outcomes(&captured), ends);
    let recorded = ["held", "held", "released", "without_body"];
    assert_eq!(
        counted(&captured, "recorded", "idempotency.recorded"),
        recorded
    );
    let spans = captured.spans_named("idempotency");
    assert_eq!(spans[2].field("idempotency.run"), Some("2"));

    let app = App::orders(IdempotencyLayer::new(Down, Scope::global()));
    app.send(Ask::post("k-1")).await;
    let unprotected = IdempotencyLayer::new(Down, Scope::global());
    let app = App::orders(unprotected.on_store_failure(OnStoreFailure::RunUnprotected));
    app.send(Ask::post("k-1")).await;
    assert_eq!(outcomes(&captured)[6..], ["unavailable", "unprotected"]);
    assert!(captured.text().contains("connection refused"));
}

#[tokio::test(start_paused = true)]
async fn the_handler_runs_in_the_span_of_its_request() {
    use tracing::Instrument as _;

    let captured = Captured::start();
    let app = App::new(Bed::memory().layer(), || async {
        tracing::info!("in the handler")
    });
    let request = tracing::info_span!("request");
    app.send(Ask::post("k-1")).instrument(request).await;
    let spans = captured.spans();
    let event = captured
        .events()
        .into_iter()
        .find(|event| event.field("message") == Some("in the handler"));
    let span = &spans[event.unwrap().span.unwrap()];
    assert_eq!(span.name, "idempotency");
    assert_eq!(spans[span.parent.unwrap()].name, "request");
}

struct Down;

fn down<T>() -> Result<T, StoreError> {
    Err(StoreError::new("connection refused"))
}

#[async_trait]
impl Store for Down {
    async fn claim(&self, _: &Claim) -> Result<Claimed, StoreError> {
        down()
    }
    async fn heartbeat(&self, _: &Claim) -> Result<Ownership, StoreError> {
        down()
    }
    async fn complete(&self, _: &Claim, _: &Record) -> Result<Ownership, StoreError> {
        down()
    }
    async fn release(&self, _: &Claim) -> Result<Ownership, StoreError> {
        down()
    }
    async fn sweep(&self, _: NonZeroU32) -> Result<u32, StoreError> {
        down()
    }
}
