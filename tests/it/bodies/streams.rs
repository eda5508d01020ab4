//! A body that can be read once is kept up to a limit where it may have to be sent again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future, stream};
use http_body::{Frame, SizeHint};
use http_body_util::StreamBody;
use idempotency::{Effect, Error, ErrorKind, IdempotencyKey, RetryPolicy, StoppedBy};
use reqwest::Body;

use super::{small, streamed, third_time};
use crate::promises::story;
use crate::support::{Arrival, ScriptedServer, Step, Way, header_lines, timed};

const SECOND: Duration = Duration::from_secs(1);

/// Chunks that say their length together, as a file would.
struct Sized(Vec<Bytes>);

impl http_body::Body for Sized {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let next = (!self.0.is_empty()).then(|| self.0.remove(0));
        Poll::Ready(next.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|chunk| chunk.len() as u64).sum())
    }
}

/// A part, then an error of the caller's own.
fn failing(parts: &[&'static str]) -> Body {
    let parts = parts.iter().map(|part| Ok(Frame::data(Bytes::from(*part))));
    let error = std::io::Error::other("the file is gone");
    let frames: Vec<_> = parts.chain([Err(error)]).collect();
    Body::wrap(StreamBody::new(stream::iter(frames)))
}

/// A part at once, the rest after a while.
fn slow(wait: Duration, rest: impl Into<Bytes>) -> Body {
    let rest = rest.into();
    let later = tokio::time::sleep(wait).map(|()| rest);
    let parts = stream::once(future::ready(Bytes::from("amount"))).chain(stream::once(later));
    let frames = parts.map(|part| Ok::<_, std::io::Error>(Frame::data(part)));
    Body::wrap(StreamBody::new(frames))
}

/// `None` is a body in chunks. None of both stands for a body of no bytes.
#[track_caller]
fn assert_framed(arrival: &Arrival, length: Option<usize>) {
    let lengths = length.filter(|length| *length > 0);
    let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    let coding: &[&str] = if length.is_none() { &["chunked"] } else { &[] };
    assert_eq!(header_lines(arrival, "content-length"), lengths);
    assert_eq!(header_lines(arrival, "transfer-encoding"), coding);
}

#[track_caller]
fn assert_error(
    error: &Error,
    kind: ErrorKind,
    effect: Effect,
    stopped_by: StoppedBy,
    message: &str,
) {
    assert_eq!(error.to_string(), message);
    assert_eq!((error.kind(), error.effect()), (kind, effect));
    assert_eq!(error.stopped_by(), Some(stopped_by));
    assert!(error.key().is_some());
}

#[track_caller]
fn assert_used_up(error: &Error) {
    assert_error(
        error,
        ErrorKind::RequestBody,
        Effect::Unknown,
        StoppedBy::BodyNotRepeatable,
        "the body stream was used up by an earlier attempt; the operation may have been executed",
    );
    assert!(error.attempts().is_empty());
}

// B14, B17.
#[tokio::test(start_paused = true)]
async fn a_stream_within_the_limit_is_kept_and_sent_again_as_it_was() {
    for way in Way::ALL {
        let client = way.client(small());
        for length in [0, 1, 99, 100] {
            let body = vec![b'x'; length];
            let chunks: Vec<_> = body.chunks(7).map(<[u8]>::to_vec).collect();
            let sized = Sized(chunks.iter().cloned().map(Bytes::from).collect());
            for stream in [streamed(chunks), Body::wrap(sized)] {
                let server = third_time();
                let operation = client.post(server.url("/")).body(stream).idempotent();
                operation.send().await.unwrap();
                server.assert_one_operation(3);
                for arrival in server.arrivals() {
                    assert_eq!(arrival.body, body);
                    assert_framed(&arrival, Some(length));
                }
            }
        }
    }
}

// B14, B17: never an error before sending, and the outcome says why it was sent once.
#[tokio::test(start_paused = true)]
async fn a_stream_over_the_limit_is_sent_once_and_the_outcome_says_so() {
    let running = idempotency::contract::Problem::in_progress().to_bytes();
    for way in Way::ALL {
        let client = way.client(small());
        for (length, sized) in [(101, true), (101, false), (5000, true), (5000, false)] {
            let body = vec![b'x'; length];
            let stream = || {
                let chunks = body.chunks(7).map(Bytes::copy_from_slice);
                if sized {
                    Body::wrap(Sized(chunks.collect()))
                } else {
                    streamed(chunks)
                }
            };
            let limit = "gave up after 1 request: the body can be sent only once; the operation may have been executed";
            for (step, kind, what) in [
                (Step::reply(201, &[], ""), None, ""),
                (
                    Step::reply(503, &[], "why"),
                    Some(ErrorKind::Status),
                    "the server answered 503 Service Unavailable",
                ),
                (
                    Step::reply(409, &[], &running[..]),
                    Some(ErrorKind::InProgress),
                    "the server answered 409 Conflict: the operation is still in progress",
                ),
                (
                    Step::read_then_close(),
                    Some(ErrorKind::Connection),
                    "the connection closed before an answer",
                ),
                (
                    Step::cut_fixed(201, 9, 1),
                    Some(ErrorKind::Connection),
                    "the answer was cut off",
                ),
            ] {
                let server = ScriptedServer::new([step]);
                let operation = client.post(server.url("/")).body(stream()).idempotent();
                match (operation.send().await, kind) {
                    (Ok(response), None) => assert_eq!(response.report().stopped_by(), None),
                    (Err(error), Some(kind)) => {
                        let message = format!("{what}; {limit}");
                        assert_error(
                            &error,
                            kind,
                            Effect::Unknown,
                            StoppedBy::BodyNotRepeatable,
                            &message,
                        );
                        assert_eq!(error.attempts().len(), 1);
                        assert_eq!(error.response().is_some(), error.status().is_some());
                    }
                    other => panic!("{other:?}"),
                }
                let [arrival] = &server.arrivals()[..] else {
                    panic!("one hit")
                };
                assert!(arrival.complete && arrival.body == body);
                assert_framed(arrival, sized.then_some(length));
                assert_used_up(&operation.send().await.unwrap_err());
                server.assert_hits(1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_the_policys_of_the_operation() {
    for way in Way::ALL {
        let client = way.client(small());
        for (bytes, length, hits) in [(0, 0, 3), (0, 1, 1), (4999, 5000, 1), (5000, 5000, 3)] {
            let server = third_time();
            let policy = small().to_builder().request_buffer(bytes).build().unwrap();
            let request = client
                .post(server.url("/"))
                .body(streamed([vec![b'x'; length]]));
            let sent = request.idempotent().policy(policy).send().await;
            assert_eq!(sent.is_ok(), hits == 3);
            server.assert_one_operation(hits);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_got_a_connection_proves_that_nothing_was_executed() {
    for way in Way::ALL {
        let refused = crate::support::Refused::new();
        let body = streamed([vec![b'x'; 101]]);
        let operation = way
            .client(small())
            .post(refused.url("/"))
            .body(body)
            .idempotent();
        let error = operation.send().await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::Connect,
            Effect::NotExecuted,
            StoppedBy::BodyNotRepeatable,
            "the connection was not made; gave up after 1 request: the body can be sent only once; the operation was not executed",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_protection_a_stream_goes_out_as_it_comes() {
    for way in Way::ALL {
        let client = way.client(small());
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let sending = tokio::spawn(
            client
                .post(server.url("/"))
                .body(slow(SECOND, "=100"))
                .send(),
        );
        let (_, took) = timed(server.until_hits(1)).await;
        assert_eq!(took, Duration::ZERO);
        sending.await.unwrap().unwrap();
        assert_framed(&server.arrivals()[0], None);

        // What may be sent again is read first, up to the limit.
        for (rest, length) in [(&b"=100"[..], Some(10)), (&[b'x'; 100], None)] {
            for keyed in [true, false] {
                let server = ScriptedServer::always(Step::reply(201, &[], ""));
                let body = slow(SECOND, rest);
                let sending = match keyed {
                    true => {
                        tokio::spawn(client.post(server.url("/")).body(body).idempotent().send())
                    }
                    false => tokio::spawn(client.put(server.url("/")).body(body).send()),
                };
                let (_, took) = timed(server.until_hits(1)).await;
                assert_eq!(took, SECOND);
                sending.await.unwrap().unwrap();
                let [arrival] = &server.arrivals()[..] else {
                    panic!("one hit")
                };
                assert_eq!(arrival.body, [b"amount", rest].concat());
                assert_framed(arrival, length);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_may_be_repeated_repeats_a_stream_within_the_limit() {
    for way in Way::ALL {
        let server = third_time();
        let request = way
            .client(small())
            .put(server.url("/"))
            .body(streamed(["amount", "=100"]));
        request.send().await.unwrap();
        assert_eq!(server.bodies(), [b"amount=100"; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_before_anything_was_sent_is_final_and_local() {
    for way in Way::ALL {
        for parts in [&[][..], &["amount"]] {
            let server = ScriptedServer::new([]);
            let client = way.client(small());
            let request = || client.post(server.url("/")).body(failing(parts));
            let key = IdempotencyKey::parse("k-1").unwrap();
            for (operation, effect, certain) in [
                (
                    request().idempotent(),
                    Effect::NotExecuted,
                    "the operation was not executed",
                ),
                (
                    request().idempotent_with(key),
                    Effect::Unknown,
                    "the operation may have been executed",
                ),
            ] {
                let error = operation.send().await.unwrap_err();
                let message =
                    format!("the request body failed before anything was sent; {certain}");
                assert_error(
                    &error,
                    ErrorKind::RequestBody,
                    effect,
                    StoppedBy::NotRetryable,
                    &message,
                );
                assert!(error.is_body() && error.attempts().is_empty());
                let mut causes =
                    std::iter::successors(std::error::Error::source(&error), |e| e.source());
                assert!(causes.any(|cause| cause.to_string() == "the file is gone"));
                let again = operation.send().await.unwrap_err();
                assert_eq!(
                    (again.kind(), again.effect()),
                    (ErrorKind::RequestBody, effect)
                );
            }
            assert_eq!((server.hits(), server.connections()), (0, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_while_it_is_sent_leaves_the_outcome_unknown() {
    const PART: &str = "0123456789012345678901234567890123456789012345678901234567890123456789";
    for way in Way::ALL {
        for keyed in [true, false] {
            let server = ScriptedServer::always(Step::reply(201, &[], ""));
            let body = failing(&[PART, PART]);
            let request = way.client(small()).post(server.url("/")).body(body);
            let sent = if keyed {
                request.idempotent().send().await
            } else {
                request.send().await
            };
            let error = sent.unwrap_err();
            assert_eq!(
                error.to_string(),
                "the request body failed while it was being sent; gave up after 1 request: a retry cannot help; the operation may have been executed"
            );
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::RequestBody, Effect::Unknown)
            );
            assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
            assert_eq!(
                story(error.attempts()),
                ["the request body failed while it was being sent, maybe processed"]
            );
            assert_eq!(error.key().is_some(), keyed);
            assert!(server.hits() <= 1 && server.connections() <= 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_while_its_stream_was_read_loses_nothing() {
    for way in Way::ALL {
        let server = third_time();
        let request = way.client(small()).post(server.url("/"));
        let operation = request.body(slow(3 * SECOND, "=100")).idempotent();
        for _ in 0..2 {
            let impatient = tokio::time::timeout(SECOND, operation.send()).await;
            assert!(impatient.is_err());
            server.assert_hits(0);
        }
        let (result, took) = timed(operation.send()).await;
        result.unwrap();
        assert_eq!(took, SECOND);
        assert_eq!(server.bodies(), [b"amount=100"; 3]);
        server.assert_one_operation(3);
    }
}

#[tokio::test(start_paused = true)]
async fn sends_at_the_same_time_share_a_kept_stream() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let request = way.client(RetryPolicy::immediate(1)).post(server.url("/"));
        let operation = request.body(slow(SECOND, "=100")).idempotent();
        let (one, other) = tokio::join!(operation.send(), operation.send());
        one.unwrap();
        other.unwrap();
        assert_eq!(server.bodies(), [b"amount=100"; 2]);
        server.assert_one_operation(2);
    }
}
