//! The key for the next service.

use std::sync::{Arc, Mutex};

use axum::response::IntoResponse as _;
use http::StatusCode;
use idempotency::KeyNamespace;
use idempotency::server::{IdempotencyLayer, Operation, Scope, Store};

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(a_downstream_key_is_the_same_in_every_run_and_belongs_to_one_step_of_one_operation);

/// An app that notes the downstream keys of two steps and fails; a failure is released, so that every request runs.
fn failing<S: Store>(layer: IdempotencyLayer<S>) -> (App, Arc<Mutex<Vec<[String; 2]>>>) {
    let keys = Arc::<Mutex<Vec<_>>>::default();
    let noted = keys.clone();
    let app = App::new(layer, move |operation: Operation| async move {
        let key = |name| operation.downstream_key(name).to_string();
        noted.lock().unwrap().push([key("charge"), key("notify")]);
        StatusCode::BAD_GATEWAY.into_response()
    });
    (app, keys)
}

async fn a_downstream_key_is_the_same_in_every_run_and_belongs_to_one_step_of_one_operation(
    bed: Bed,
) {
    let (app, keys) = failing(bed.layer());
    for key in ["k-1", "k-1", "k-2"] {
        assert_eq!(app.send(Ask::post(key)).await.status, 502);
    }
    let layer = IdempotencyLayer::new(bed.store.clone(), Scope::credential());
    let (app, theirs) = failing(layer);
    app.send(Ask::post("k-1").header("authorization", "alice"))
        .await;
    let namespace = KeyNamespace::parse("7c9a3a0e-6d0f-4f5b-9c5e-3f1f1f0a6b11").unwrap();
    let (app, secret) = failing(bed.layer().downstream_namespace(namespace));
    app.send(Ask::post("k-1")).await;

    let keys = keys.lock().unwrap().clone();
    assert_eq!(keys[0], keys[1], "another run");
    let mut all = [
        &keys[0..1],
        &keys[2..],
        &theirs.lock().unwrap(),
        &secret.lock().unwrap(),
    ]
    .concat()
    .concat();
    assert_eq!(all.len(), 8);
    assert!(
        all.iter()
            .all(|key| key.len() == 36 && !key.contains("k-1"))
    );
    all.sort();
    all.dedup();
    assert_eq!(
        all.len(),
        8,
        "two steps, operations, owners or namespaces share a key"
    );
    // Released rows are derived from again: a key that changed with a release would be another charge.
    assert_eq!(keys[0][0], "1e7dbbe5-a108-5e69-8abe-757c99f56369");
}
