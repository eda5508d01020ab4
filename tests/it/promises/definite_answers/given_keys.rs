//! A key that the caller brought may have been sent by somebody else: nothing that we see proves that it was not.

use idempotency::{Client, Effect, ErrorKind, IdempotencyKey, IdempotentRequest, StoppedBy};

use super::Came;
use crate::support::{Refused, ScriptedServer, Step, payment, steady_client};

fn key() -> IdempotencyKey {
    "order-17".parse().unwrap()
}

/// The ways in which a key can come from outside.
fn brought(client: &Client, url: &str) -> [(&'static str, IdempotentRequest); 4] {
    let post = || client.post(url).body("amount=100");
    let saved = payment(client, url.to_owned()).to_pending().unwrap();
    [
        ("given", post().idempotent_with(key())),
        (
            "in the header",
            post().header("Idempotency-Key", "order-17").idempotent(),
        ),
        (
            "given and in the header",
            post()
                .header("Idempotency-Key", "order-17")
                .idempotent_with(key()),
        ),
        ("saved", client.resume(&saved)),
    ]
}

#[tokio::test(start_paused = true)]
async fn with_a_key_that_was_brought_no_failure_proves_anything() {
    let nobody = Refused::new();
    let server = ScriptedServer::always(Step::reply(425, &[], ""));
    for (story, operation) in brought(&steady_client(), &server.url("/payments")) {
        let result = operation.send().await;
        let expected = Came::Nothing(
            ErrorKind::Status,
            Effect::Unknown,
            StoppedBy::Attempts,
            Some(425),
        );
        assert_eq!(Came::to(&result), expected, "{story}");
        assert_eq!(result.unwrap_err().key(), operation.key(), "{story}");
    }
    server.assert_hits(16);
    for (story, operation) in brought(&steady_client(), &nobody.url("/payments")) {
        let expected = Came::Nothing(
            ErrorKind::Connect,
            Effect::Unknown,
            StoppedBy::Attempts,
            None,
        );
        assert_eq!(Came::to(&operation.send().await), expected, "{story}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_send_with_a_key_header_is_an_operation_with_a_key_that_was_brought() {
    let server = ScriptedServer::always(Step::reply(425, &[], ""));
    let request = steady_client()
        .post(server.url("/payments"))
        .header("Idempotency-Key", "order-17");
    let error = request.send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.key(), Some(&key()));
    assert_eq!(server.assert_one_operation(4), "order-17");
}

#[tokio::test(start_paused = true)]
async fn an_error_before_sending_proves_nothing_about_a_key_that_was_brought() {
    let client = steady_client();
    let bad_url = client.post("payments").idempotent_with(key());
    let bad_header = client
        .post("http://127.0.0.1/")
        .header("bad", "a\nb")
        .idempotent_with(key());
    let other_key = client
        .post("http://127.0.0.1/")
        .header("Idempotency-Key", "another")
        .idempotent_with(key());
    for (operation, kind) in [
        (bad_url, ErrorKind::Builder),
        (bad_header, ErrorKind::Builder),
        (other_key, ErrorKind::Key),
    ] {
        let error = operation.send().await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (kind, Effect::Unknown));
        assert_eq!(error.key(), Some(&key()), "{error}");
    }
}
