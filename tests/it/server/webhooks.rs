//! Keys that stand elsewhere: the receivers of webhooks.

use idempotency::contract::problem;
use idempotency::server::{KeyFrom, NoOperation, Operation};

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(
    the_key_of_an_event_is_its_id_in_the_body,
    the_key_can_stand_in_another_header,
    events_whose_body_changes_between_deliveries_are_not_compared,
);

fn event(body: &'static str) -> Ask {
    Ask::post("").body(body)
}

async fn the_key_of_an_event_is_its_id_in_the_body(bed: Bed) {
    let app = App::orders(bed.layer().key_from(KeyFrom::json_pointer("/event/id")));
    app.send(event(r#"{"event":{"id":"evt_1"}}"#))
        .await
        .assert_order(1, false);
    app.send(event(r#"{"event":{"id":"evt_1"}}"#))
        .await
        .assert_order(1, true);
    // The header is not the key here.
    let ask = event(r#"{"event":{"id":"evt_1"}}"#).header("idempotency-key", "k-1");
    app.send(ask).await.assert_order(1, true);
    app.send(event(r#"{"event":{"id":7}}"#))
        .await
        .assert_order(2, false);
    app.send(event(r#"{"event":{"id":7}}"#))
        .await
        .assert_order(2, true);
    let changed = app.send(event(r#"{"event":{"id":7},"x":1}"#)).await;
    changed.assert_problem(422, problem::KEY_REUSED);
    for missing in [
        "",
        "{}",
        "[1]",
        r#"{"event":{"id":null}}"#,
        r#"{"event":{"id":1.5}}"#,
    ] {
        app.send(event(missing))
            .await
            .assert_problem(400, problem::KEY_MISSING);
    }
    for invalid in [r#"{"event":{"id":""}}"#, r#"{"event":{"id":"a b"}}"#] {
        app.send(event(invalid))
            .await
            .assert_problem(400, problem::KEY_INVALID);
    }
    assert_eq!(app.runs(), 2);

    let optional = bed
        .layer()
        .key_from(KeyFrom::json_pointer("/id"))
        .optional_key();
    let app = App::new(optional, |body: String| async { body });
    for runs in 1..=2 {
        assert_eq!(app.send(event("no id")).await.body, "no id");
        assert_eq!(app.runs(), runs);
    }
}

async fn the_key_can_stand_in_another_header(bed: Bed) {
    let layer = bed.layer().key_from(KeyFrom::header("X-Delivery").unwrap());
    let app = App::orders(layer);
    let delivery = |id: &str| Ask::post("").header("x-delivery", id);
    app.send(delivery("d-1")).await.assert_order(1, false);
    app.send(delivery("d-1")).await.assert_order(1, true);
    app.send(delivery("d-2")).await.assert_order(2, false);
    let refused = app.send(Ask::post("k-1")).await;
    refused.assert_problem(400, problem::KEY_MISSING);
    assert!(KeyFrom::header("not a name").is_err());
}

async fn events_whose_body_changes_between_deliveries_are_not_compared(bed: Bed) {
    let layer = bed
        .layer()
        .key_from(KeyFrom::json_pointer("/id"))
        .without_fingerprint();
    let app = App::orders(layer);
    app.send(event(r#"{"id":"evt_1","attempt":1}"#))
        .await
        .assert_order(1, false);
    app.send(event(r#"{"id":"evt_1","attempt":2}"#))
        .await
        .assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_handler_without_the_layer_has_no_operation() {
    use axum::Router;
    use axum::routing::post;
    use tower::ServiceExt as _;

    let app: Router = Router::new()
        .route("/", post(|_: Operation| async { "unreachable" }))
        .route(
            "/optional",
            post(|operation: Option<Operation>| async move { operation.is_some().to_string() }),
        );
    let request = |path| {
        http::Request::post(path)
            .body(axum::body::Body::empty())
            .unwrap()
    };
    let refused = app.clone().oneshot(request("/")).await.unwrap();
    assert_eq!(refused.status(), 500);
    assert!(NoOperation.to_string().contains("IdempotencyLayer"));
    let optional = app.oneshot(request("/optional")).await.unwrap();
    let body = axum::body::to_bytes(optional.into_body(), 100)
        .await
        .unwrap();
    assert_eq!(body, "false");
}
