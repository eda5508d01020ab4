//! GoCardless and Increase: a repeat that is refused, and one that is marked.

use idempotency::contract::{FailureStorage, Meaning, Replay};
use idempotency::{ErrorKind, Replay as Replayed};

use super::{KEY, assert_wire, key, on_the_wire, post};
use crate::contracts::{assert_means, client, named, reading};
use crate::support::{ScriptedServer, Step};

const CONFLICT: &str = r#"{"error":{"type":"invalid_state","code":409,"message":"A resource has already been created with this idempotency key","errors":[{"reason":"idempotent_creation_conflict","message":"A resource has already been created with this idempotency key","links":{"conflicting_resource_id":"PM123"}}]}}"#;

// https://gocardless.com/blog/idempotency-keys and https://github.com/gocardless/gocardless-pro-python: the header; a repeat of a
// success is a 409 that names the resource; a failed original may be repeated.
#[tokio::test]
async fn gocardless_takes_a_bare_header() {
    let body = r#"{"payments":{"amount":100}}"#;
    let wire = on_the_wire(named("gocardless"), post(body)).await;
    assert_wire(&wire, Some(("idempotency-key", KEY)), "/x", body);
}

#[tokio::test]
async fn gocardless_refuses_a_repeat_with_the_id_of_what_there_is() {
    let gocardless = named("gocardless");
    assert_means(&gocardless, 409, CONFLICT, Meaning::AlreadyDone);
    let other = r#"{"error":{"type":"invalid_state","code":422,"errors":[{"reason":"mandate_is_inactive"}]}}"#;
    assert_means(&gocardless, 422, other, Meaning::Plain);
    assert_eq!(gocardless.failures(), FailureStorage::Nothing);

    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(409, &[], CONFLICT)]);
    let operation = client(gocardless)
        .post(server.url("/payments"))
        .body("{}")
        .idempotent();
    let response = operation.send().await.unwrap();
    server.assert_one_operation(2);
    assert_eq!(response.status(), 409);
    assert_eq!(response.replay(), Replayed::Replayed);
    assert!(response.is_already_done() && !response.is_mismatch());
    assert_eq!(response.existing_resource(), Some("PM123"));
    let error = response.error_for_status().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyDone);
    assert_eq!(
        error.to_string(),
        "the server answered 409 Conflict: the operation was done before under this key"
    );
    let response = error.into_response().unwrap();
    assert_eq!(response.existing_resource(), Some("PM123"));
}

// https://increase.com/documentation/idempotency-keys: at most 200 characters; `Idempotent-Replayed: true`; 409
// `idempotency_key_already_used_error` with `resource_id`. https://github.com/Increase/increase-python: `x-should-retry`.
#[tokio::test]
async fn increase_takes_a_bare_header() {
    let wire = on_the_wire(named("increase"), post("{}")).await;
    assert_wire(&wire, Some(("idempotency-key", KEY)), "/x", "{}");
    let increase = named("increase");
    assert!(increase.encode_key(&key(&"k".repeat(200))).is_ok());
    assert!(increase.encode_key(&key(&"k".repeat(201))).is_err());
}

#[tokio::test]
async fn increases_conflict_is_final_and_names_the_other_requests_resource() {
    let increase = named("increase");
    let used = r#"{"type":"idempotency_key_already_used_error","title":"...","status":409,"resource_id":"account_in71c4amph0vgo2qllky"}"#;
    assert_means(&increase, 409, used, Meaning::Mismatch);
    assert_means(
        &increase,
        409,
        r#"{"type":"invalid_operation_error"}"#,
        Meaning::Plain,
    );
    for (value, replay) in [("true", Replay::Replayed), ("false", Replay::Fresh)] {
        let lines = [("Idempotent-Replayed", value)];
        assert_eq!(reading(&increase, 200, &lines, "{}").marker, replay);
    }
    let retry = [("x-should-retry", "false")];
    assert_eq!(
        reading(&increase, 409, &retry, "").should_retry,
        Some(false)
    );

    // Its own SDK retries any 409; this one says that it cannot help.
    let server = ScriptedServer::new([Step::reply(409, &[], used)]);
    let operation = client(increase).post(server.url("/accounts"));
    let response = operation.body("{}").idempotent_with(key(KEY));
    let response = response.send().await.unwrap();
    assert!(response.is_mismatch() && !response.is_already_done());
    assert_eq!(
        response.existing_resource(),
        Some("account_in71c4amph0vgo2qllky")
    );
    server.assert_hits(1);
}
