//! Reading an answer: the same to the reader whether it was buffered whole, in part or not at all.

use futures_util::StreamExt as _;
use http::Version;
use idempotency::{
    Client, Effect, ErrorKind, IdempotentRequest, Replay, Report, Response, RetryPolicy,
};

use super::story;
use crate::support::{End, ScriptedServer, Step, Way};

/// How much of an answer was read inside its attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Whole,
    Beginning,
    Nothing,
}

const READS: [Read; 3] = [Read::Whole, Read::Beginning, Read::Nothing];

fn client(way: Way) -> Client {
    let policy = RetryPolicy::immediate(2).to_builder();
    way.client(policy.response_buffer(10).build().unwrap())
}

fn operation(client: &Client, url: String, read: Read) -> IdempotentRequest {
    let operation = client.post(url).body("amount=100").idempotent();
    match read {
        Read::Whole => operation.policy(RetryPolicy::immediate(2)),
        Read::Beginning => operation,
        Read::Nothing => operation.stream_answer(),
    }
}

async fn answered(way: Way, read: Read, step: Step) -> Response {
    let server = ScriptedServer::new([step]);
    let url = server.url("/payments?a=1#here");
    let response = operation(&client(way), url, read).send().await.unwrap();
    assert_eq!(response.is_buffered(), read == Read::Whole);
    // The server is gone by the time the body is read; what it has sent is not.
    response
}

const BODY: &str = "{\"id\":1,\"note\":\"thank you\"}";

fn json() -> Step {
    Step::reply(
        201,
        &[
            ("content-type", "application/json"),
            ("x-a", "1"),
            ("x-a", "2"),
        ],
        BODY,
    )
}

#[tokio::test(start_paused = true)]
async fn every_reader_reads_the_same_however_much_was_read_before() {
    for way in Way::ALL {
        for read in READS {
            assert_eq!(
                answered(way, read, json()).await.content_length(),
                Some(BODY.len() as u64)
            );
            assert_eq!(
                answered(way, read, json()).await.bytes().await.unwrap(),
                BODY
            );
            assert_eq!(
                answered(way, read, json()).await.text().await.unwrap(),
                BODY
            );
            let value: serde_json::Value = answered(way, read, json()).await.json().await.unwrap();
            assert_eq!(value["note"], "thank you");
            let chunks = answered(way, read, json()).await.bytes_stream();
            let chunks: Vec<_> = chunks.map(Result::unwrap).collect().await;
            assert_eq!(chunks.concat(), BODY.as_bytes());
            let passed = answered(way, read, json())
                .await
                .error_for_status()
                .unwrap();
            assert_eq!(passed.bytes().await.unwrap(), BODY);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reqwests_response_has_everything_that_ours_has() {
    for way in Way::ALL {
        for read in READS {
            for (version, line) in [
                (Version::HTTP_11, "HTTP/1.1"),
                (Version::HTTP_10, "HTTP/1.0"),
            ] {
                let head =
                    format!("{line} 201 Created\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 27\r\n\r\n");
                let step = Step::raw(head + BODY, End::Close);
                let server = ScriptedServer::new([Step::read_then_close(), step]);
                let url = server.url("/payments?a=1");
                let operation = operation(&client(way), url.clone(), read);
                let ours = operation.send().await.unwrap();
                assert_eq!((ours.url().as_str(), ours.version()), (&*url, version));
                assert_eq!(ours.remote_addr(), Some(server.addr()));
                assert_eq!(ours.content_length(), Some(27));
                let headers = ours.headers().clone();
                assert_eq!(
                    headers.get_all("x-a").iter().collect::<Vec<_>>(),
                    ["1", "2"]
                );

                let theirs = ours.into_reqwest();
                assert_eq!(theirs.status(), 201);
                assert_eq!((theirs.url().as_str(), theirs.version()), (&*url, version));
                assert_eq!(theirs.remote_addr(), Some(server.addr()));
                assert_eq!(theirs.content_length(), Some(27));
                assert_eq!(theirs.headers(), &headers);
                let report = Report::of(&theirs).unwrap();
                assert_eq!(report.idempotency_key(), operation.key());
                assert_eq!(report.is_buffered(), read == Read::Whole);
                assert_eq!(
                    (report.replay(), report.stopped_by()),
                    (Replay::Unknown, None)
                );
                assert_eq!(
                    story(report.attempts()),
                    [
                        "the connection closed before an answer, maybe processed",
                        "201, answered"
                    ]
                );
                assert_eq!(theirs.text().await.unwrap(), BODY);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_what_it_is_decoded_as_is_an_error_after_the_answer() {
    for way in Way::ALL {
        for read in READS {
            let html = || Step::reply(200, &[], "<html>thank you</html>");
            let decoded = answered(way, read, html())
                .await
                .json::<serde_json::Value>()
                .await;
            let error = decoded.unwrap_err();
            assert_eq!(error.to_string(), "the answer could not be decoded");
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Decode, Effect::Answered)
            );
            assert!(error.is_decode() && error.key().is_some());
            assert_eq!(story(error.attempts()), ["200, answered"]);
            let cause = std::error::Error::source(&error).unwrap();
            assert!(cause.is::<serde_json::Error>());

            let latin = Step::reply(200, &[], *b"caf\xe9, un peu de sucre");
            let text = answered(way, read, latin).await.text().await.unwrap();
            assert_eq!(text, "caf\u{fffd}, un peu de sucre");
        }
    }
}

// B43, B79.
#[tokio::test(start_paused = true)]
async fn a_failure_status_is_an_error_with_the_answer_inside() {
    for way in Way::ALL {
        for (status, is_error) in [
            (200, false),
            (204, false),
            (304, false),
            (400, true),
            (404, true),
            (501, true),
        ] {
            let server = ScriptedServer::new([Step::reply(status, &[("x-a", "1")], "")]);
            let operation = operation(&client(way), server.url("/"), Read::Whole);
            match operation.send().await.unwrap().error_for_status() {
                Ok(response) => assert!(!is_error && response.status() == status),
                Err(error) => {
                    assert!(is_error);
                    assert_eq!(
                        (error.kind(), error.effect()),
                        (ErrorKind::Status, Effect::Answered)
                    );
                    assert_eq!(
                        (error.status().unwrap().as_u16(), error.is_status()),
                        (status, true)
                    );
                    assert_eq!((error.key(), error.stopped_by()), (operation.key(), None));
                    assert_eq!(error.attempts().len(), 1);
                    let response = error.into_response().unwrap();
                    assert_eq!(response.headers()["x-a"], "1");
                    assert_eq!(response.text().await.unwrap(), "");
                }
            }
        }
        let page = Step::reply(
            404,
            &[("content-type", "text/html")],
            "<html>not here</html>",
        );
        let server = ScriptedServer::new([page]);
        let operation = operation(&client(way), server.url("/"), Read::Beginning);
        let error = operation
            .send()
            .await
            .unwrap()
            .error_for_status()
            .unwrap_err();
        assert_eq!(error.to_string(), "the server answered 404 Not Found");
        let text = error.into_response().unwrap().text().await.unwrap();
        assert_eq!(text, "<html>not here</html>");
    }
}
