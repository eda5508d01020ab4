//! Errors made from an answer say that there is one.

use idempotency::{Effect, Error, ErrorKind, Response};
use serde_json::Value;

use crate::support::{ScriptedServer, Step, Way, payment, steady, steady_client};

/// An answer to a client that keeps 20 bytes.
async fn answer(way: Way, step: Step) -> Response {
    let server = ScriptedServer::new([step]);
    let client = way.client(steady().response_buffer(20).build().unwrap());
    let operation = payment(&client, server.url("/payments"));
    operation.send().await.unwrap()
}

#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, effect: Effect) {
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    assert!(error.key().is_some());
    assert_eq!(error.attempts().len(), 1);
    assert_eq!(error.stopped_by(), None);
}

#[tokio::test(start_paused = true)]
async fn an_error_for_a_status_is_made_from_a_definite_answer() {
    for way in Way::ALL {
        let response = answer(way, Step::reply(402, &[], "declined")).await;
        let error = response.error_for_status().unwrap_err();
        assert_error(&error, ErrorKind::Status, Effect::Answered);
        assert_eq!(error.status().unwrap(), 402);
        assert_eq!(error.response().unwrap().status(), 402);
        let response = error.into_response().unwrap();
        assert_eq!(response.text().await.unwrap(), "declined");

        let fine = answer(way, Step::reply(302, &[], "")).await;
        assert_eq!(fine.error_for_status().unwrap().status(), 302);
    }
}

// B41, B42.
#[tokio::test(start_paused = true)]
async fn an_error_for_a_mismatch_has_a_kind_of_its_own() {
    let reused = r#"{"error":{"type":"idempotency_error"}}"#;
    for way in Way::ALL {
        let response = answer(way, Step::reply(422, &[], reused)).await;
        assert!(response.is_mismatch(), "{way:?}");
        let error = response.error_for_status().unwrap_err();
        assert_error(&error, ErrorKind::Mismatch, Effect::Answered);
    }
}

// B43.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_decoded_is_an_answer() {
    for way in Way::ALL {
        let page = Step::reply(201, &[("Content-Type", "text/html")], "<html>");
        let response = answer(way, page).await;
        assert!(response.is_buffered(), "{way:?}");
        let error = response.json::<Value>().await.unwrap_err();
        assert_error(&error, ErrorKind::Decode, Effect::Answered);
        assert!(error.is_decode());
    }
}

/// An answer of 100 bytes that ends after 40.
async fn cut_past_the_buffer(way: Way) -> Response {
    answer(way, Step::cut_fixed(201, 100, 40)).await
}

#[tokio::test(start_paused = true)]
async fn the_lost_tail_of_a_streamed_answer_leaves_the_answer_definite() {
    for way in Way::ALL {
        let response = cut_past_the_buffer(way).await;
        assert_eq!(response.status(), 201);
        assert!(!response.is_buffered(), "{way:?}");
        assert_eq!(response.content_length(), Some(100), "{way:?}");
        let error = response.bytes().await.unwrap_err();
        assert_error(&error, ErrorKind::Body, Effect::Answered);
        assert!(error.is_body());

        let text = cut_past_the_buffer(way).await.text().await;
        assert_error(&text.unwrap_err(), ErrorKind::Body, Effect::Answered);
        let json = cut_past_the_buffer(way).await.json::<Value>().await;
        assert_error(&json.unwrap_err(), ErrorKind::Body, Effect::Answered);
    }
}

/// What an unkeyed POST's answer, turned into an error, says of its effect.
async fn unkeyed(status: u16, times: usize) -> Effect {
    let server = ScriptedServer::new(vec![Step::reply(status, &[], ""); times]);
    let request = steady_client().post(server.url("/payments"));
    let response = request.send().await.unwrap();
    let error = response.error_for_status().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    assert_eq!(error.key(), None);
    server.assert_hits(times);
    error.effect()
}

#[tokio::test(start_paused = true)]
async fn without_a_key_an_answer_is_definite_only_where_its_status_is() {
    assert_eq!(unkeyed(404, 1).await, Effect::Answered);
    assert_eq!(unkeyed(503, 1).await, Effect::Unknown);
    assert_eq!(unkeyed(425, 4).await, Effect::NotExecuted);
}
