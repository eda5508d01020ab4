//! The answer begins well.

use idempotency::retry::Failure;
use idempotency::{Effect, ErrorKind, Replay};

use crate::support::{ScriptedServer, Step, client, payment, steady, steady_client};

// B29.
#[tokio::test(start_paused = true)]
async fn a_200_that_is_cut_in_the_middle_is_a_lost_answer() {
    for cut in [
        Step::cut_fixed(200, 100, 10),
        Step::cut_fixed(200, 100, 10).resetting(),
        Step::cut_chunked(200, &["{\"id\"", ":1"]),
        Step::broken_chunk_framing(200),
    ] {
        let what = format!("{cut:?}");
        let replay = Step::reply(200, &[("Idempotent-Replayed", "true")], r#"{"id":1}"#);
        let server = ScriptedServer::new([cut, replay]);
        let operation = payment(&steady_client(), server.url("/payments"));
        let response = operation.send().await.unwrap();
        assert!(response.is_replay(), "{what}");
        let lost = &response.attempts()[0];
        assert_eq!(lost.status().unwrap(), 200, "{what}");
        assert_eq!(lost.failure(), Some(Failure::Truncated), "{what}");
        server.assert_one_operation(2);
        assert_eq!(response.text().await.unwrap(), r#"{"id":1}"#, "{what}");
    }
}

// B29.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_cut_is_a_lost_answer_too() {
    for status in [302, 404, 422, 501] {
        let whole = Step::reply(status, &[], "no such customer");
        let server = ScriptedServer::new([Step::cut_fixed(status, 100, 10), whole]);
        let operation = payment(&steady_client(), server.url("/payments"));
        let result = operation.send().await;
        // What is lost is the word of the server: the next one follows an unknown outcome.
        match status {
            302 | 501 => assert_eq!(result.unwrap_err().effect(), Effect::Unknown),
            _ => assert!(result.unwrap().followed_unknown()),
        }
        server.assert_one_operation(2);
    }
}

// B29.
#[tokio::test(start_paused = true)]
async fn a_200_that_is_larger_than_the_buffer_is_the_answer_although_it_is_cut_after_it() {
    let policy = steady().response_buffer(1000).build().unwrap();
    let server = ScriptedServer::new([Step::cut_fixed(200, 5000, 2000)]);
    let operation = payment(&client(&policy), server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.replay(), Replay::Fresh);
    assert!(!response.is_buffered());
    let error = response.bytes().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Body);
    assert_eq!(error.effect(), Effect::Answered);
    assert_eq!(error.key(), operation.key());
    server.assert_one_operation(1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_exactly_the_buffer_is_kept_and_one_byte_more_is_streamed() {
    let policy = steady().response_buffer(1000).build().unwrap();
    let client = client(&policy);
    for (length, buffered) in [(999, true), (1000, true), (1001, false)] {
        let server = ScriptedServer::new([Step::reply(200, &[], vec![b'x'; length])]);
        let operation = payment(&client, server.url("/payments"));
        let response = operation.send().await.unwrap();
        assert_eq!(response.is_buffered(), buffered, "{length}");
        assert_eq!(response.content_length(), Some(length as u64));
        assert_eq!(response.bytes().await.unwrap().len(), length);
    }
}
