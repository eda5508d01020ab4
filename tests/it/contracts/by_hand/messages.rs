//! Resend: one status, three meanings.

use std::time::Duration;

use idempotency::contract::{Meaning, Window};

use super::{KEY, assert_wire, key, on_the_wire, post};
use crate::contracts::{assert_means, client, named};
use crate::support::{ScriptedServer, Step};

// https://resend.com/docs/dashboard/emails/idempotency-keys: the header, 1 to 256 characters, 24 hours.
#[tokio::test]
async fn resend_takes_a_bare_header() {
    let body = r#"{"from":"a@example.com","to":["b@example.com"],"subject":"s"}"#;
    let wire = on_the_wire(named("resend"), post(body)).await;
    assert_wire(&wire, Some(("idempotency-key", KEY)), "/x", body);
    assert_eq!(
        named("resend").window(),
        Window::Exactly(Duration::from_secs(86_400))
    );
}

// The same: 409 `invalid_idempotent_request` is not to be repeated, 409 `concurrent_idempotent_requests` is, 400
// `invalid_idempotency_key`.
#[tokio::test]
async fn resends_conflicts_are_told_apart_by_their_name() {
    let resend = named("resend");
    for (status, name, meaning) in [
        (409, "invalid_idempotent_request", Meaning::Mismatch),
        (409, "concurrent_idempotent_requests", Meaning::InProgress),
        (400, "invalid_idempotency_key", Meaning::KeyUnusable),
        (422, "missing_required_field", Meaning::Plain),
        (429, "rate_limit_exceeded", Meaning::Plain),
    ] {
        let body = format!(r#"{{"statusCode":{status},"name":"{name}","message":"..."}}"#);
        assert_means(&resend, status, &body, meaning);
    }

    tokio::time::pause();
    let running = r#"{"statusCode":409,"name":"concurrent_idempotent_requests","message":"..."}"#;
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::reply(409, &[], running),
        Step::reply(409, &[], running),
        Step::reply(200, &[], r#"{"id":"49a3999c"}"#),
    ]);
    let operation = client(resend)
        .post(server.url("/emails"))
        .body("{}")
        .idempotent_with(key(KEY));
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let polls = response
        .attempts()
        .iter()
        .filter(|attempt| attempt.is_poll());
    assert_eq!(polls.count(), 2);
    server.assert_one_operation(4);
}
