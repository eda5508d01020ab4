//! Same key, same request?

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Method;
use idempotency::contract::problem;

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(
    a_key_on_another_target_method_or_type_is_told_422,
    the_target_is_the_one_that_the_client_sent,
    every_byte_of_every_kind_of_body_counts,
    a_body_over_the_limit_is_told_413_before_anything_is_claimed,
    a_body_that_ends_early_is_told_400_and_nothing_is_claimed,
    the_handler_gets_the_body_as_it_was_sent,
);

// B105, B19.
async fn a_key_on_another_target_method_or_type_is_told_422(bed: Bed) {
    let app = App::orders(bed.layer());
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    for other in [
        Ask::post("k-1").path("/orders/1/cancel"),
        Ask::post("k-1").path("/orders?dry=1"),
        Ask::post("k-1").method(Method::PATCH),
        Ask::post("k-1").without("content-type"),
        Ask::post("k-1")
            .without("content-type")
            .header("content-type", "text/plain"),
    ] {
        app.send(other)
            .await
            .assert_problem(422, problem::KEY_REUSED);
    }
    assert_eq!(app.runs(), 1);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
}

async fn the_target_is_the_one_that_the_client_sent(bed: Bed) {
    let app = App::orders(bed.layer());
    // Below `nest` both are `/orders`.
    app.send(Ask::post("k-1").path("/v1/orders"))
        .await
        .assert_order(1, false);
    let other = app.send(Ask::post("k-1").path("/v2/orders")).await;
    other.assert_problem(422, problem::KEY_REUSED);
    app.send(Ask::post("k-1").path("/v1/orders"))
        .await
        .assert_order(1, true);
}

// B104, B106: bytes, not meaning; every body, also a streamed one.
async fn every_byte_of_every_kind_of_body_counts(bed: Bed) {
    let app = App::orders(bed.layer());
    app.send(Ask::post("k-1").body(r#"{"a":1,"b":2}"#))
        .await
        .assert_order(1, false);
    let reordered = app.send(Ask::post("k-1").body(r#"{ "b":2,"a":1 }"#)).await;
    reordered.assert_problem(422, problem::KEY_REUSED);

    let binary = |last| Ask::post("k-2").body(vec![0, last]);
    app.send(binary(1)).await.assert_order(2, false);
    app.send(binary(2))
        .await
        .assert_problem(422, problem::KEY_REUSED);

    let streamed = |text: &'static [&'static str]| {
        let chunks = text
            .iter()
            .map(|chunk| Ok::<_, std::io::Error>(Bytes::from(*chunk)));
        Ask::post("k-3").body(Body::from_stream(stream::iter(chunks)))
    };
    app.send(streamed(&["ab", "c"]))
        .await
        .assert_order(3, false);
    app.send(streamed(&["a", "", "bc"]))
        .await
        .assert_order(3, true);
    app.send(streamed(&["ab", "d"]))
        .await
        .assert_problem(422, problem::KEY_REUSED);
}

// B106.
async fn a_body_over_the_limit_is_told_413_before_anything_is_claimed(bed: Bed) {
    let app = App::orders(bed.layer().request_limit(8));
    let declared = Ask::post("k-1").body("123456789");
    let streamed = {
        let chunks = ["12345", "6789"].map(Ok::<_, std::io::Error>);
        Ask::post("k-1").body(Body::from_stream(stream::iter(chunks)))
    };
    for ask in [declared, streamed] {
        app.send(ask)
            .await
            .assert_problem(413, problem::BODY_TOO_LARGE);
    }
    assert_eq!(app.runs(), 0);
    app.send(Ask::post("k-1").body("12345678"))
        .await
        .assert_order(1, false);
}

async fn a_body_that_ends_early_is_told_400_and_nothing_is_claimed(bed: Bed) {
    let app = App::orders(bed.layer());
    let cut = [
        Ok("{\"amou"),
        Err(std::io::Error::other("the client has gone")),
    ];
    let ask = Ask::post("k-1").body(Body::from_stream(stream::iter(cut)));
    app.send(ask)
        .await
        .assert_problem(400, problem::BODY_INCOMPLETE);
    assert_eq!(app.runs(), 0);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
}

async fn the_handler_gets_the_body_as_it_was_sent(bed: Bed) {
    let app = App::new(bed.layer(), |body: Bytes| async move { body });
    let chunks = [&b"\xff\x00"[..], b"abc"].map(Ok::<_, std::io::Error>);
    let ask = Ask::post("k-1").body(Body::from_stream(stream::iter(chunks)));
    assert_eq!(app.send(ask).await.body, &b"\xff\x00abc"[..]);
}
