//! Bodies that can be read only once.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::{Effect, ErrorKind, IdempotentRequest, StoppedBy};
use reqwest::Body;

use crate::support::{ScriptedServer, Step, Way, client, hits_at, steady};

/// A stream of so many bytes.
fn upload(length: usize) -> Body {
    let chunks = vec![b'x'; length];
    let chunks: Vec<_> = chunks.chunks(1000).map(Bytes::copy_from_slice).collect();
    let frames = chunks
        .into_iter()
        .map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    Body::wrap(StreamBody::new(stream::iter(frames)))
}

/// An upload through a client that keeps 10 000 bytes.
fn operation(way: Way, server: &ScriptedServer, length: usize) -> IdempotentRequest {
    let policy = steady().request_buffer(10_000).build().unwrap();
    let request = way.client(policy).post(server.url("/upload"));
    request.body(upload(length)).idempotent()
}

// B14, B17.
#[tokio::test(start_paused = true)]
async fn an_upload_over_the_limit_is_sent_once_and_says_why() {
    for way in Way::ALL {
        for step in [Step::reply(503, &[], "busy"), Step::read_then_close()] {
            let server = ScriptedServer::new([step]);
            let operation = operation(way, &server, 20_000);
            let error = operation.send().await.unwrap_err();
            assert_eq!(error.stopped_by(), Some(StoppedBy::BodyNotRepeatable));
            assert_eq!(error.effect(), Effect::Unknown);
            assert!(matches!(
                error.kind(),
                ErrorKind::Status | ErrorKind::Connection
            ));
            server.assert_one_operation(1);
            assert_eq!(server.bodies()[0].len(), 20_000, "{way:?}");
        }
    }
}

// B17.
#[tokio::test(start_paused = true)]
async fn an_upload_over_the_limit_that_succeeds_is_no_error() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::reply(201, &[], "")]);
        let response = operation(way, &server, 20_000).send().await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(server.bodies()[0].len(), 20_000, "{way:?}");
    }
}

// B14.
#[tokio::test(start_paused = true)]
async fn an_upload_within_the_limit_is_repeated_byte_by_byte() {
    for way in Way::ALL {
        for length in [1, 9_999, 10_000] {
            let server = ScriptedServer::new([
                Step::read_then_reset(),
                Step::reply(503, &[], ""),
                Step::reply(201, &[], ""),
            ]);
            let response = operation(way, &server, length).send().await.unwrap();
            assert_eq!(response.status(), 201);
            server.assert_one_operation(3);
            assert_eq!(hits_at(&server), [0, 100, 200]);
            assert_eq!(server.bodies()[0].len(), length, "{way:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_409_for_an_upload_that_cannot_be_repeated_is_not_waited_on() {
    let in_use = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    let server = ScriptedServer::new([Step::reply(409, &[], in_use)]);
    let policy = steady().request_buffer(10).build().unwrap();
    let request = client(&policy).post(server.url("/upload"));
    let error = request.body(upload(100)).idempotent().send().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress);
    assert_eq!(error.stopped_by(), Some(StoppedBy::BodyNotRepeatable));
    assert_eq!(error.effect(), Effect::Unknown);
}
