//! What is wrong before the first byte leaves is said before the first byte leaves.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::{
    Client, Contract, Effect, ErrorKind, IdempotencyKey, IdempotentRequest, StoppedBy,
};
use reqwest::Body;

use crate::support::{ScriptedServer, Step, steady_client};

/// Asserts that an operation fails at once, every time, with nothing sent, and that nobody need wonder whether it was.
async fn assert_refused(operation: &IdempotentRequest, kind: ErrorKind, message: &str) {
    for _ in 0..2 {
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.kind(), kind, "{message}");
        assert_eq!(error.effect(), Effect::NotExecuted, "{message}");
        assert_eq!(error.stopped_by(), None, "{message}");
        assert!(error.is_builder(), "{message}");
        assert!(error.attempts().is_empty(), "{message}");
        assert!(error.response().is_none(), "{message}");
        assert!(error.key().is_some(), "{message}");
    }
}

// B10, B20, B72.
#[tokio::test]
async fn a_request_that_cannot_be_sent_is_an_error_that_says_so() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let client = steady_client();
    let post = || client.post(server.url("/payments"));
    assert_refused(
        &client.post("payments").idempotent(),
        ErrorKind::Builder,
        r#"bad URL "payments": relative URL without a base; the operation was not executed"#,
    )
    .await;
    assert_refused(
        &client.post("http://").idempotent(),
        ErrorKind::Builder,
        r#"bad URL "http://": empty host; the operation was not executed"#,
    )
    .await;
    assert_refused(
        &post().header("bad", "a\nb").idempotent(),
        ErrorKind::Builder,
        "the request could not be built; the operation was not executed",
    )
    .await;
    assert_refused(
        &post()
            .header("content-length", "7")
            .body("amount=100")
            .idempotent(),
        ErrorKind::Builder,
        "the header content-length says \"7\" and the body has 10 bytes: leave the header out; \
         the operation was not executed",
    )
    .await;
    assert_refused(
        &client
            .put(server.url("/payments/1"))
            .idempotent()
            .contract(Contract::ietf_draft()),
        ErrorKind::Contract,
        "the contract `ietf-draft` does not honour keys on PUT: send it without `idempotent`; \
         the operation was not executed",
    )
    .await;
    server.assert_hits(0);
}

#[tokio::test]
async fn a_client_whose_headers_would_give_every_operation_one_key_is_not_built() {
    let headers = [("idempotency-key", "k-1")]
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let built = Client::builder()
        .default_headers(headers.into_iter().collect())
        .build();
    let error = built.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Key, Effect::NotExecuted)
    );
    assert_eq!(
        error.to_string(),
        "the default headers hold `idempotency-key`: a key belongs to one operation, \
         so it cannot be on every request; the operation was not executed"
    );
}

/// A body of the caller's own that breaks after its first bytes.
fn broken_body() -> Body {
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"amount="))),
        Err("the file was removed"),
    ];
    Body::wrap(StreamBody::new(stream::iter(frames)))
}

#[tokio::test]
async fn a_body_that_breaks_while_it_is_read_ahead_was_not_sent() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let post = || {
        steady_client()
            .post(server.url("/payments"))
            .body(broken_body())
    };
    let drawn = post().idempotent();
    let error = drawn.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestBody);
    assert_eq!(error.effect(), Effect::NotExecuted);
    assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
    assert_eq!(error.key(), drawn.key());
    assert!(error.attempts().is_empty());
    assert!(format!("{error:?}").contains("the file was removed"));

    let key: IdempotencyKey = "order-17".parse().unwrap();
    let error = post().idempotent_with(key).send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    server.assert_hits(0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_while_it_is_sent_may_have_been_processed() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let client = steady_client();
    // Nothing is read ahead, so the server gets the first bytes.
    let policy = client.policy().to_builder().request_buffer(0);
    let operation = client
        .post(server.url("/payments"))
        .body(broken_body())
        .idempotent()
        .policy(policy.build().unwrap());
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestBody);
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
    assert_eq!(error.key(), operation.key());
    assert_eq!(error.attempts().len(), 1);
    assert!(server.hits() <= 1);
}

/// A stream of bytes that can be read once.
fn stream_of(length: usize) -> Body {
    let chunks = (0..length)
        .step_by(1024)
        .map(move |at| vec![b'x'; 1024.min(length - at)]);
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from(chunk))));
    Body::wrap(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())))
}

// B14, B17.
#[tokio::test(start_paused = true)]
async fn a_stream_that_was_used_up_is_not_sent_again_by_the_next_send() {
    let server = ScriptedServer::new([Step::reply(503, &[], "")]);
    let client = steady_client();
    let policy = client.policy().to_builder().request_buffer(4096);
    let operation = client
        .post(server.url("/upload"))
        .body(stream_of(10_000))
        .idempotent()
        .policy(policy.build().unwrap());
    let first = operation.send().await.unwrap_err();
    assert_eq!(first.kind(), ErrorKind::Status);
    assert_eq!(first.effect(), Effect::Unknown);
    assert_eq!(first.stopped_by(), Some(StoppedBy::BodyNotRepeatable));

    let second = operation.send().await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::RequestBody);
    assert_eq!(second.effect(), Effect::Unknown);
    assert_eq!(second.stopped_by(), Some(StoppedBy::BodyNotRepeatable));
    assert_eq!(second.key(), operation.key());
    server.assert_hits(1);
    assert_eq!(server.bodies()[0].len(), 10_000);
}
