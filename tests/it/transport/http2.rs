//! HTTP/2 says more than HTTP/1.1 about what was not processed. What it does not say is of unknown outcome.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::retry::{Failure, Reach, StoppedBy};
use idempotency::{Client, Effect, Error, ErrorKind, Replay, RetryPolicy};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{assert_failed, client_over, facts};
use crate::support::{H2Server, H2Step, timed};

fn client(attempts: u32) -> Client {
    client_over(Client::reqwest_defaults().http2_prior_knowledge(), attempts)
}

fn answered() -> H2Step {
    H2Step::reply(201, &[], "done")
}

const NOT_PROCESSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::NotExecuted);
const UNKNOWN: (ErrorKind, Effect) = (ErrorKind::Connection, Effect::Unknown);

/// What says that the stream was not processed, and how it is called.
fn refusals() -> Vec<(H2Step, Failure)> {
    vec![
        (H2Step::refuse_stream(), Failure::StreamRefused),
        (H2Step::goaway_below(Reason::NO_ERROR), Failure::GoAway),
        // RFC 9113, section 6.8: above the last stream id nothing was processed, whatever the reason.
        (
            H2Step::goaway_below(Reason::ENHANCE_YOUR_CALM),
            Failure::GoAway,
        ),
        (
            H2Step::goaway_below(Reason::INTERNAL_ERROR),
            Failure::GoAway,
        ),
    ]
}

/// What leaves it open. How h2 shows it is pinned here.
fn losses() -> Vec<(H2Step, Failure)> {
    vec![
        (H2Step::goaway_at(Reason::NO_ERROR), Failure::Reset),
        (H2Step::goaway_at(Reason::INTERNAL_ERROR), Failure::Reset),
        (H2Step::reset(Reason::INTERNAL_ERROR), Failure::Reset),
        (H2Step::reset(Reason::CANCEL), Failure::Reset),
        (H2Step::reset(Reason::NO_ERROR), Failure::Reset),
    ]
}

/// B26, B27
#[tokio::test(start_paused = true)]
async fn what_was_not_processed_is_sent_again_even_without_a_key() {
    for (step, failure) in refusals() {
        let server = H2Server::new([step.clone(), answered()]);
        let response = client(4)
            .post(server.url("/orders"))
            .body("amount=100")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(
            facts(response.attempts()),
            [
                (Some(failure), Reach::NotProcessed),
                (None, Reach::Answered)
            ],
            "{step:?}"
        );
        server.assert_hits(2);
        assert_eq!(server.bodies()[1], b"amount=100");
    }
}

/// B26: not the same request for ever, and the caller may forget the key.
#[tokio::test(start_paused = true)]
async fn what_is_never_processed_is_bounded_by_the_attempts_and_not_executed() {
    for (step, failure) in refusals() {
        let server = H2Server::always(step.clone());
        let client = client(3);
        let post = || client.post(server.url("/orders")).body("x");
        let unkeyed = post().send().await.unwrap_err();
        assert_failed(
            &unkeyed,
            3,
            failure,
            Reach::NotProcessed,
            NOT_PROCESSED,
            &step,
        );
        assert_eq!(unkeyed.stopped_by(), Some(StoppedBy::Attempts));
        server.assert_hits(3);
        let keyed = post().idempotent().send().await.unwrap_err();
        assert_failed(
            &keyed,
            3,
            failure,
            Reach::NotProcessed,
            NOT_PROCESSED,
            &step,
        );
        server.assert_hits(6);
    }
}

/// The only attempt that may have been processed is the answered one.
#[tokio::test(start_paused = true)]
async fn an_answer_after_refusals_is_fresh() {
    let refused = H2Step::refuse_stream();
    let gone = H2Step::goaway_below(Reason::NO_ERROR);
    let server = H2Server::new([refused, gone, answered()]);
    let operation = client(4).post(server.url("/orders")).body("x").idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(response.replay(), Replay::Fresh);
    assert!(!response.followed_unknown());
}

/// B27
#[tokio::test(start_paused = true)]
async fn what_may_have_been_processed_is_sent_again_only_with_a_key() {
    for (step, failure) in losses() {
        let server = H2Server::new([step.clone(), answered()]);
        let operation = client(4).post(server.url("/orders")).body("x").idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(
            facts(response.attempts()),
            [
                (Some(failure), Reach::MaybeProcessed),
                (None, Reach::Answered)
            ],
            "{step:?}"
        );
        assert_eq!(response.replay(), Replay::Unknown);
        server.assert_one_operation(2);

        let server = H2Server::always(step.clone());
        let error = client(4)
            .post(server.url("/orders"))
            .body("x")
            .send()
            .await
            .unwrap_err();
        assert_failed(&error, 1, failure, Reach::MaybeProcessed, UNKNOWN, &step);
        assert_eq!(
            error.stopped_by(),
            Some(StoppedBy::UnsafeWithoutKey),
            "{step:?}"
        );
        server.assert_hits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_reset_in_its_body_is_retried_with_the_key() {
    for (reason, cut) in [
        Reason::INTERNAL_ERROR,
        Reason::CANCEL,
        Reason::REFUSED_STREAM,
    ]
    .into_iter()
    .flat_map(|reason| {
        [
            H2Step::reply_then_reset_mid_body(201, "half", reason),
            // HTTP/2 has an end of its own: a stated length is not the end.
            H2Step::reply_then_reset_at_its_end(201, "whole", reason),
        ]
        .map(|cut| (reason, cut))
    }) {
        let server = H2Server::new([cut, answered()]);
        let operation = client(2).post(server.url("/orders")).body("x").idempotent();
        let response = operation.send().await.unwrap();
        // An answer had begun, so not even REFUSED_STREAM can mean that nothing was processed.
        assert_eq!(
            facts(response.attempts()),
            [
                (Some(Failure::Truncated), Reach::MaybeProcessed),
                (None, Reach::Answered)
            ],
            "{reason:?}"
        );
        assert_eq!(response.text().await.unwrap(), "done");
        server.assert_one_operation(2);
    }
}

/// B21: the first attempt is given up while its body is still going out.
#[tokio::test(start_paused = true)]
async fn after_an_early_answer_the_next_attempt_has_the_whole_body() {
    let body: Vec<u8> = (0..1 << 20)
        .map(|index: u32| index.to_le_bytes()[1])
        .collect();
    let early = H2Step::early_response(503, &[], "busy");
    let server = H2Server::new([early.clone(), early, answered()]);
    let operation = client(3)
        .post(server.url("/orders"))
        .body(body.clone())
        .idempotent();
    let response = operation.send().await.unwrap();
    let shown: Vec<_> = response
        .attempts()
        .iter()
        .map(|attempt| attempt.status().unwrap().as_u16())
        .collect();
    assert_eq!(shown, [503, 503, 201]);
    let arrivals = server.arrivals();
    assert!(!arrivals[0].complete && !arrivals[1].complete && arrivals[2].complete);
    assert!(
        arrivals[2].body == body,
        "the third attempt carries the whole body"
    );
    assert_eq!(server.keys()[0], server.keys()[2]);
}

/// B26, B76: hyper and reqwest would repeat a refused stream by themselves; an attempt that the report does not know of would
/// make it a lie.
#[tokio::test(start_paused = true)]
async fn the_report_knows_every_stream() {
    let server = H2Server::always(H2Step::refuse_stream());
    let error = client(1)
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.attempts().len(), 1);
    server.assert_hits(1);
    let error = client(1)
        .get(server.url("/orders"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.attempts().len(), 1);
    server.assert_hits(2);
}

/// An error of the caller's own stream is local and final, on HTTP/2 as on HTTP/1.1.
#[tokio::test(start_paused = true)]
async fn a_body_stream_that_fails_in_flight_is_final() {
    let error = failing_stream(client(3), &H2Server::always(answered())).await;
    let effect = (ErrorKind::RequestBody, Effect::Unknown);
    assert_failed(
        &error,
        1,
        Failure::RequestBodyInFlight,
        Reach::MaybeProcessed,
        effect,
        "HTTP/2",
    );
    let server = crate::support::ScriptedServer::always(crate::support::Step::reply(201, &[], ""));
    let stream = failing_body();
    let error = super::client(3)
        .post(server.url("/orders"))
        .body(stream)
        .send()
        .await
        .unwrap_err();
    assert_failed(
        &error,
        1,
        Failure::RequestBodyInFlight,
        Reach::MaybeProcessed,
        effect,
        "HTTP/1.1",
    );
}

async fn failing_stream(client: Client, server: &H2Server) -> Error {
    client
        .post(server.url("/orders"))
        .body(failing_body())
        .send()
        .await
        .unwrap_err()
}

/// A stream of one chunk, then an error of the caller's.
fn failing_body() -> reqwest::Body {
    let chunks = [
        Ok(Frame::data(Bytes::from_static(b"amount="))),
        Err(std::io::Error::other("the disk is gone")),
    ];
    reqwest::Body::wrap(StreamBody::new(futures_util::stream::iter(chunks)))
}

/// A server that speaks another protocol: not understood, nothing proven.
#[tokio::test(start_paused = true)]
async fn an_answer_in_http1_to_http2_is_of_unknown_outcome_and_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.write_all(answer).await;
            accepted.push(stream);
        }
    });
    let error = client(2)
        .post(&url)
        .body("x")
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Protocol, Effect::Unknown),
        "{error:?}"
    );
    assert_eq!(error.attempts().len(), 2);
    server.abort();
}

/// A connection that answers nothing any more, not even pings, is given up: the next attempt has a new one (B28).
#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_found_by_its_pings() {
    let policy = RetryPolicy::immediate(2)
        .to_builder()
        .attempt_timeout(Duration::from_secs(40))
        .build()
        .unwrap();
    let reqwest = Client::reqwest_defaults()
        .http2_prior_knowledge()
        .no_proxy();
    let client = Client::builder()
        .reqwest(reqwest)
        .policy(policy)
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    let operation = client.post(&url).body("x").idempotent();
    let (sent, took) = timed(operation.send()).await;
    let error = sent.unwrap_err();
    let effect = (ErrorKind::Timeout, Effect::Unknown);
    assert_failed(
        &error,
        2,
        Failure::Timeout,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    assert_eq!(
        took,
        2 * Duration::from_secs(15),
        "10 s to the ping, 5 s for its answer"
    );
    silent.abort();
}

/// RFC 9113, section 6.8: a GOAWAY at or above our stream is no loss. The answer comes, and nothing is sent twice.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_being_shut_down_still_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        connection.graceful_shutdown();
        let answer = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let head = http::Response::builder().status(201).body(()).unwrap();
            let mut body = respond.send_response(head, false).unwrap();
            body.send_data(Bytes::from_static(b"done"), true).unwrap();
        });
        while connection.accept().await.is_some() {}
        answer.await.unwrap();
    });
    let response = client(4).post(&url).body("x").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.attempts().len()),
        (201, 1)
    );
    assert_eq!(response.text().await.unwrap(), "done");
    server.abort();
}

/// The frame of RFC 9113, section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A server that breaks HTTP/2 in every way proves nothing and is asked no more often than any other.
#[tokio::test(start_paused = true)]
async fn broken_frames_are_of_unknown_outcome_and_bounded() {
    const END_HEADERS: u8 = 4;
    let client = client(2);
    for (name, broken) in [
        ("nothing", Vec::new()),
        ("garbage", vec![0xff; 100]),
        (
            "a frame that is too long",
            vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1],
        ),
        ("DATA for an idle stream", frame(0, 0, 9, b"x")),
        ("DATA before the head", frame(0, 1, 1, b"x")),
        (
            "a head that cannot be unpacked",
            frame(1, END_HEADERS, 1, &[0xff; 20]),
        ),
        ("a head without a status", frame(1, END_HEADERS, 1, &[])),
        ("a head that does not end", frame(1, 0, 1, &[0x88])),
        (
            "RST_STREAM of the connection",
            frame(3, 0, 0, &[0, 0, 0, 7]),
        ),
        ("RST_STREAM that is too short", frame(3, 0, 1, &[0])),
        ("SETTINGS that are too short", frame(4, 0, 0, &[1])),
        (
            "a pushed stream",
            frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        ),
        ("PING that is too long", frame(6, 0, 0, &[0; 9])),
        ("GOAWAY that is too short", frame(7, 0, 0, &[0])),
        ("GOAWAY of a stream", frame(7, 0, 1, &[0; 8])),
        ("WINDOW_UPDATE of nothing", frame(8, 0, 0, &[0; 4])),
        (
            "WINDOW_UPDATE past the end",
            frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        ),
        ("CONTINUATION of nothing", frame(9, END_HEADERS, 1, &[0x88])),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(break_frames(stream, broken.clone()));
            }
        });
        let operation = client.post(&url).body("x").idempotent();
        let (sent, took) = timed(operation.send()).await;
        let error = sent.expect_err(name);
        assert_eq!(error.effect(), Effect::Unknown, "{name}: {error:?}");
        assert_eq!(error.attempts().len(), 2, "{name}: {error:?}");
        assert!(took <= Duration::from_secs(20), "{name}: {took:?}");
        server.abort();
    }
}

/// Answers the request's frames with settings of its own, then with something broken, then with silence.
async fn break_frames(mut stream: tokio::net::TcpStream, broken: Vec<u8>) {
    let mut received = [0; 4096];
    let _ = stream.write_all(&frame(4, 0, 0, &[])).await;
    // The preface, then the frames of the request.
    for _ in 0..2 {
        let _ = stream.read(&mut received).await;
    }
    let _ = stream.write_all(&broken).await;
    while stream
        .read(&mut received)
        .await
        .is_ok_and(|count| count > 0)
    {}
}

/// RFC 9113, section 6.9.2: a window of zero is allowed. A body that never gets one is given up with its attempt.
#[tokio::test(start_paused = true)]
async fn a_body_without_a_window_is_given_up_with_the_attempt() {
    const INITIAL_WINDOW_SIZE: [u8; 6] = [0, 4, 0, 0, 0, 0];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let _ = stream
                    .write_all(&frame(4, 0, 0, &INITIAL_WINDOW_SIZE))
                    .await;
                let mut received = [0; 4096];
                while stream
                    .read(&mut received)
                    .await
                    .is_ok_and(|count| count > 0)
                {}
            });
        }
    });
    let operation = client(2).post(&url).body(vec![0; 1 << 20]).idempotent();
    let (sent, took) = timed(operation.send()).await;
    let effect = (ErrorKind::Timeout, Effect::Unknown);
    let error = sent.unwrap_err();
    assert_failed(
        &error,
        2,
        Failure::Timeout,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    // This server does not answer pings either: after 15 s its connection is dead, in the middle of the second attempt.
    assert_eq!(took, Duration::from_secs(15));
    server.abort();
}
