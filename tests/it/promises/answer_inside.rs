//! The answer is read inside the attempt: one that is lost in its body is a lost answer, and the key brings it back.

use std::time::Duration;

use idempotency::retry::Failure;
use idempotency::{
    Client, Effect, ErrorKind, IdempotentRequest, Replay, Response, RetryPolicy, StoppedBy,
};

use super::story;
use crate::support::{End, ScriptedServer, Step, Way, timed};

const SECOND: Duration = Duration::from_secs(1);

fn client(way: Way) -> Client {
    way.client(RetryPolicy::immediate(4))
}

fn payment(client: &Client, server: &ScriptedServer) -> IdempotentRequest {
    client
        .post(server.url("/payments"))
        .body("amount=100")
        .idempotent()
}

fn done() -> Step {
    Step::reply(201, &[], "{\"id\":1}")
}

/// Every way in which an answer can end before its end.
fn broken(status: u16) -> Vec<(Step, Failure)> {
    vec![
        (Step::cut_fixed(status, 100, 0), Failure::Truncated),
        (Step::cut_fixed(status, 100, 99), Failure::Truncated),
        (
            Step::cut_fixed(status, 100, 10).resetting(),
            Failure::Truncated,
        ),
        (Step::cut_chunked(status, &[]), Failure::Truncated),
        (
            Step::cut_chunked(status, &["ab", "0123456789"]),
            Failure::Truncated,
        ),
        (
            Step::cut_chunked(status, &["ab"]).resetting(),
            Failure::Truncated,
        ),
        (Step::broken_chunk_framing(status), Failure::Truncated),
        (Step::stall_in_body(status, 100, 0), Failure::Stalled),
        (Step::stall_in_body(status, 100, 99), Failure::Stalled),
        (Step::dribble(status, &[b'x'; 11], SECOND), Failure::Stalled),
    ]
}

// B29.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_in_its_body_is_retried_with_the_key_and_reported() {
    for way in Way::ALL {
        let client = client(way);
        for status in [200, 201, 299, 400, 404, 422] {
            for (step, failure) in broken(status) {
                let server = ScriptedServer::new([step.clone(), done()]);
                let operation = payment(&client, &server);
                let (result, took) = timed(operation.send()).await;
                let response = result.unwrap();
                let [lost, answered] = response.attempts() else {
                    panic!("two attempts: {:?} after {step:?}", response.attempts())
                };
                assert_eq!(lost.failure(), Some(failure), "{step:?}");
                assert_eq!(lost.status().unwrap(), status);
                assert_eq!(
                    story(std::slice::from_ref(lost)),
                    [format!("{status}, {failure}, maybe processed")]
                );
                // A stalled answer has the time of its attempt, a broken one is known at once.
                let stalled = if failure == Failure::Stalled {
                    10 * SECOND
                } else {
                    Duration::ZERO
                };
                assert_eq!((lost.took(), took), (stalled, stalled));
                assert_eq!(
                    (answered.status().unwrap().as_u16(), answered.failure()),
                    (201, None)
                );
                assert_eq!(
                    (response.replay(), response.followed_unknown()),
                    (Replay::Unknown, true)
                );
                assert!(response.is_buffered());
                assert_eq!(response.text().await.unwrap(), "{\"id\":1}");
                server.assert_one_operation(2);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_always_lost_in_its_body_is_an_error_of_unknown_effect() {
    for way in Way::ALL {
        for (step, kind, message) in [
            (
                Step::cut_fixed(201, 100, 10),
                ErrorKind::Connection,
                "the answer was cut off; gave up after 4 requests: all attempts are used up; the operation may have been executed",
            ),
            (
                Step::stall_in_body(201, 100, 10),
                ErrorKind::Timeout,
                "the answer did not end within the attempt's time; gave up after 4 requests: all attempts are used up; the operation may have been executed",
            ),
        ] {
            let server = ScriptedServer::always(step);
            let error = payment(&client(way), &server).send().await.unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!((error.kind(), error.effect()), (kind, Effect::Unknown));
            assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
            assert!(error.response().is_none());
            assert_eq!(error.attempts()[3].status().unwrap(), 201);
            server.assert_one_operation(4);
        }
    }
}

// B66: the time of the attempt is for the body too.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_has_the_whole_time_of_its_attempt() {
    for way in Way::ALL {
        for status in [201, 422, 501] {
            let server = ScriptedServer::new([Step::dribble(status, b"abcdefghi", SECOND)]);
            let (result, took) = timed(payment(&client(way), &server).send()).await;
            assert_eq!(took, 9 * SECOND);
            assert_eq!(result.unwrap().text().await.unwrap(), "abcdefghi");
        }
        // A stored failure is an answer like any other.
        let body = "HTTP/1.1 500 Oops\r\nidempotent-replayed: true\r\ncontent-length: 2\r\n\r\n";
        let head = Step::raw(body, End::KeepAlive);
        let server = ScriptedServer::new([head.then_after(3 * SECOND, "ab")]);
        let response = payment(&client(way), &server).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.replay()),
            (500, Replay::Replayed)
        );
        assert_eq!(response.text().await.unwrap(), "ab");
    }
}

// B77: the page of an error is read a little, so that its connection lives, and never waited for.
#[tokio::test(start_paused = true)]
async fn an_error_page_that_does_not_end_costs_a_second() {
    for way in Way::ALL {
        let client = client(way);
        for status in [408, 425, 429, 500, 502, 503, 504] {
            for endless in [
                Step::stall_in_body(status, 100, 0),
                Step::stall_in_body(status, 100, 10),
                Step::dribble(status, &[b'x'; 600], SECOND / 10),
            ] {
                let server = ScriptedServer::new([endless, done()]);
                let (result, took) = timed(payment(&client, &server).send()).await;
                let response = result.unwrap();
                assert_eq!(response.status(), 201);
                assert_eq!(response.attempts()[0].failure(), None);
                assert_eq!(took, SECOND, "{status}");
                server.assert_one_operation(2);
            }
        }
        // And as much where there is no key but the method.
        let server = ScriptedServer::new([Step::stall_in_body(503, 100, 10), done()]);
        let (result, took) = timed(client.put(server.url("/")).send()).await;
        assert_eq!((result.unwrap().status().as_u16(), took), (201, SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_error_page_is_not_read_and_not_lost() {
    let page = vec![b'x'; 10 << 20];
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::reply(503, &[], page.clone()));
        let (result, took) = timed(payment(&client(way), &server).send()).await;
        let error = result.unwrap_err();
        assert_eq!((error.attempts().len(), took), (4, Duration::ZERO));
        let response = error.into_response().unwrap();
        assert!(!response.is_buffered());
        assert_eq!(response.content_length(), Some(10 << 20));
        assert!(response.bytes().await.unwrap() == page);

        let server = ScriptedServer::new([Step::reply(422, &[], page.clone())]);
        let response = payment(&client(way), &server).send().await.unwrap();
        assert!(!response.is_buffered());
        assert!(response.bytes().await.unwrap() == page);
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_error_page_keeps_its_connection() {
    for way in Way::ALL {
        let busy = || Step::reply(503, &[], vec![b'x'; 1024]);
        let server = ScriptedServer::new([busy(), busy(), busy(), done()]);
        payment(&client(way), &server).send().await.unwrap();
        server.assert_hits(4);
        assert_eq!(server.connections(), 1);
    }
}

/// What of the last answer could be read is in the error, and that it is not all of it comes out when it is read.
#[tokio::test(start_paused = true)]
async fn an_error_page_that_was_cut_off_is_not_passed_for_a_whole_one() {
    for way in Way::ALL {
        for (step, part) in [
            (Step::cut_fixed(503, 100, 10), "xxxxxxxxxx"),
            (Step::cut_fixed(503, 100, 0), ""),
            (Step::cut_chunked(503, &["ab"]), "ab"),
        ] {
            let server = ScriptedServer::always(step);
            let error = payment(&client(way), &server).send().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.attempts().len()),
                (ErrorKind::Status, 4)
            );
            let response = error.into_response().unwrap();
            assert_eq!(response.status(), 503);
            assert!(!response.is_buffered());
            let (read, error) = read_to_its_error(response).await;
            assert_eq!(read, part.as_bytes());
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Body, Effect::Unknown)
            );

            let error = payment(&client(way), &server).send().await.unwrap_err();
            let text = error.into_response().unwrap().text().await.unwrap_err();
            assert_eq!(text.kind(), ErrorKind::Body);
            let error = payment(&client(way), &server).send().await.unwrap_err();
            let response = error.into_response().unwrap().into_reqwest();
            response.bytes().await.unwrap_err();
        }
    }
}

/// What a body gives before its error.
async fn read_to_its_error(response: Response) -> (Vec<u8>, idempotency::Error) {
    use futures_util::StreamExt as _;
    let mut chunks = std::pin::pin!(response.bytes_stream());
    let mut read = Vec::new();
    loop {
        match chunks.next().await.expect("an error before the end") {
            Ok(chunk) => read.extend_from_slice(&chunk),
            Err(error) => return (read, error),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_body_is_complete_whatever_its_headers_claim() {
    for way in Way::ALL {
        let client = client(way);
        for (status, head) in [
            (204, "HTTP/1.1 204 No Content\r\n\r\n"),
            (
                204,
                "HTTP/1.1 204 No Content\r\ncontent-length: 100\r\n\r\n",
            ),
            (
                204,
                "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
            ),
            (
                304,
                "HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n",
            ),
            (200, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ] {
            let server = ScriptedServer::new([Step::raw(head, End::Hold)]);
            let (result, took) = timed(payment(&client, &server).send()).await;
            let response = result.unwrap();
            assert_eq!((response.status().as_u16(), took), (status, Duration::ZERO));
            assert_eq!(
                (response.is_buffered(), response.content_length()),
                (true, Some(0))
            );
            assert_eq!(response.bytes().await.unwrap(), "");
        }
        let server = ScriptedServer::new([Step::raw(
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
            End::Hold,
        )]);
        let (result, took) = timed(client.head(server.url("/")).idempotent().send()).await;
        let response = result.unwrap();
        assert_eq!(
            (response.headers()["content-length"].as_bytes(), took),
            (&b"100"[..], Duration::ZERO)
        );
        assert_eq!(response.bytes().await.unwrap(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stated_length_that_is_a_lie_is_found_out() {
    let stating = |length: &str, body: &str| {
        let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {length}\r\n\r\n{body}");
        Step::raw(head, End::Close)
    };
    for way in Way::ALL {
        let client = client(way);
        for (lie, why) in [
            (
                stating("10", "short"),
                "201, the answer was cut off, maybe processed",
            ),
            // Nothing is set aside for what is only claimed.
            (
                stating("18446744073709551613", "short"),
                "201, the answer was cut off, maybe processed",
            ),
            (
                stating("-1", ""),
                "the answer was not valid HTTP, maybe processed",
            ),
            (
                stating("1\r\ncontent-length: 2", "ab"),
                "the answer was not valid HTTP, maybe processed",
            ),
        ] {
            let server = ScriptedServer::new([lie, done()]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_eq!(story(response.attempts()), [why, "201, answered"]);
        }
        // More than was stated is not part of the answer.
        let server = ScriptedServer::new([stating("5", "short and long")]);
        let response = payment(&client, &server).send().await.unwrap();
        assert_eq!(response.text().await.unwrap(), "short");
    }
}

/// RFC 9112, section 6.3: without a stated length the end of the connection is the end of the answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_with_its_connection_is_complete() {
    for way in Way::ALL {
        for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"] {
            let server = ScriptedServer::new([Step::raw(format!("{head}done"), End::Close)]);
            let response = payment(&client(way), &server).send().await.unwrap();
            assert!(response.is_buffered());
            assert_eq!(response.text().await.unwrap(), "done");
        }
    }
}
