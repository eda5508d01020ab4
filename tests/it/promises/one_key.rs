//! One key per operation: nothing after `.idempotent()` can draw another.

use idempotency::{Client, Replay, RetryPolicy};

use crate::support::{ScriptedServer, Step};

#[tokio::test]
async fn a_reply_lost_mid_body_is_retried_with_the_same_key() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::cut_fixed(200, 100, 10),
        Step::reply(503, &[], "busy"),
        Step::reply(201, &[("Idempotent-Replayed", "true")], "{\"id\":1}"),
    ]);
    let client = Client::builder()
        .policy(RetryPolicy::immediate(4))
        .build()
        .unwrap();
    let operation = client
        .post(server.url("/payments"))
        .body("amount=100")
        .idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.replay(), Replay::Replayed);
    let shown: Vec<String> = response
        .attempts()
        .iter()
        .map(|a| {
            a.to_string()
                .split(',')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(
        shown,
        [
            "attempt 1: the connection closed before an answer",
            "attempt 2: 200",
            "attempt 3: 503",
            "attempt 4: 201",
        ]
    );
    assert_eq!(response.text().await.unwrap(), "{\"id\":1}");
    let key = server.assert_one_operation(4);
    assert_eq!(Some(key.as_str()), operation.key().map(|key| key.as_str()));
}
