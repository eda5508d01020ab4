//! Past the buffer, and where the caller wants it so, an answer is a stream: the attempt's time is over, a stall timeout holds,
//! and no retry can bring back what is lost.

use std::time::Duration;

use futures_util::StreamExt as _;
use http::Method;
use idempotency::contract::Problem;
use idempotency::{
    Client, Effect, Error, ErrorKind, IdempotencyKey, IdempotentRequest, Replay, Response,
    RetryPolicy,
};
use tokio::io::AsyncReadExt as _;

use super::story;
use crate::support::{End, ScriptedServer, Step, Way, timed};

const SECOND: Duration = Duration::from_secs(1);

/// Four attempts, answers of up to 100 bytes buffered, 10 s for an attempt, 20 s for all, 30 s of silence.
fn small() -> RetryPolicy {
    let policy = RetryPolicy::immediate(4).to_builder();
    policy
        .response_buffer(100)
        .deadline(20 * SECOND)
        .build()
        .unwrap()
}

fn payment(client: &Client, server: &ScriptedServer) -> IdempotentRequest {
    client
        .post(server.url("/payments"))
        .body("amount=100")
        .idempotent()
}

fn text_of(length: usize) -> String {
    "0123456789".repeat(length.div_ceil(10))[..length].to_owned()
}

fn head(content_type: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n")
}

/// All ways to read a body to its end, in order.
const READERS: usize = 5;

async fn read(response: Response, reader: usize) -> Result<Vec<u8>, Error> {
    match reader {
        0 => Ok(response.bytes().await?.to_vec()),
        1 => Ok(response.text().await?.into_bytes()),
        2 => Ok(response
            .json::<serde_json::Value>()
            .await?
            .to_string()
            .into_bytes()),
        3 => {
            let mut chunks = std::pin::pin!(response.bytes_stream());
            let mut all = Vec::new();
            while let Some(chunk) = chunks.next().await {
                all.extend_from_slice(&chunk?);
            }
            Ok(all)
        }
        _ => Ok(response.error_for_status()?.bytes().await?.to_vec()),
    }
}

#[track_caller]
fn assert_tail_lost(error: &Error, effect: Effect, why: &str) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Body, effect));
    let unless_answered = match effect {
        Effect::Answered => "",
        _ => "; the operation may have been executed",
    };
    let message = "the body of the answer could not be read to its end";
    assert_eq!(error.to_string(), format!("{message}{unless_answered}"));
    assert_eq!(error.stopped_by(), None);
    assert!(error.is_body());
    let mut causes = std::iter::successors(std::error::Error::source(error), |e| e.source());
    assert!(causes.any(|cause| cause.to_string() == why), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_just_the_buffers_size_is_buffered_and_a_larger_one_is_not() {
    for way in Way::ALL {
        let client = way.client(small());
        for (length, buffered) in [
            (0, true),
            (1, true),
            (99, true),
            (100, true),
            (101, false),
            (5000, false),
        ] {
            let body = text_of(length);
            let chunks = match length {
                0 => String::new(),
                _ => format!("{length:x}\r\n{body}\r\n"),
            };
            for step in [
                Step::reply(200, &[], body.clone()),
                Step::raw(
                    format!("{}{chunks}0\r\n\r\n", head("text/plain")),
                    End::KeepAlive,
                ),
                Step::raw(format!("HTTP/1.1 200 OK\r\n\r\n{body}"), End::Close),
            ] {
                let server = ScriptedServer::new([step]);
                let response = payment(&client, &server).send().await.unwrap();
                assert_eq!(
                    (response.is_buffered(), response.report().is_buffered()),
                    (buffered, buffered),
                    "{length}"
                );
                assert_eq!(response.text().await.unwrap(), body);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_buffer_is_the_policys_of_the_operation() {
    for way in Way::ALL {
        let client = way.client(small());
        let policy = |bytes| small().to_builder().response_buffer(bytes).build().unwrap();
        for (bytes, buffered) in [(0, false), (4999, false), (5000, true)] {
            let server = ScriptedServer::new([Step::reply(200, &[], text_of(5000))]);
            let operation = payment(&client, &server).policy(policy(bytes));
            let response = operation.send().await.unwrap();
            assert_eq!(response.is_buffered(), buffered);
            assert_eq!(response.text().await.unwrap(), text_of(5000));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn once_the_buffer_is_full_the_time_of_the_attempt_is_over() {
    let policy = small().to_builder().response_buffer(4).build().unwrap();
    for way in Way::ALL {
        for reader in [0, 1, 3, 4] {
            let body = text_of(60);
            let server = ScriptedServer::new([Step::dribble(200, body.as_bytes(), SECOND)]);
            let operation = payment(&way.client(policy.clone()), &server);
            // The fifth byte is one too many for the buffer.
            let (response, took) = timed(operation.send()).await;
            let response = response.unwrap();
            assert_eq!((took, response.is_buffered()), (5 * SECOND, false));
            assert_eq!(response.content_length(), Some(60));
            assert_eq!(response.attempts()[0].took(), 5 * SECOND);
            // Past the attempt's 10 s and the operation's 20 s.
            let (read, took) = timed(read(response, reader)).await;
            assert_eq!((read.unwrap(), took), (body.into_bytes(), 55 * SECOND));
            server.assert_hits(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_is_cut_off_is_an_error_after_the_answer_and_no_retry() {
    let chunk = format!("{}c8\r\n{}\r\n", head("text/plain"), text_of(200));
    for way in Way::ALL {
        let client = way.client(small());
        for reader in 0..READERS {
            for step in [
                Step::cut_fixed(200, 1000, 500),
                Step::raw(chunk.clone(), End::Close),
            ] {
                let server = ScriptedServer::new([step]);
                let operation = payment(&client, &server);
                let response = operation.send().await.unwrap();
                assert!(!response.is_buffered());
                assert_eq!(response.replay(), Replay::Fresh);
                let error = read(response, reader).await.unwrap_err();
                assert_tail_lost(&error, Effect::Answered, "the rest of the answer was lost");
                assert_eq!(error.key(), operation.key());
                assert_eq!(story(error.attempts()), ["200, answered"]);
                server.assert_hits(1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_is_silent_is_given_up_after_the_stall_timeout() {
    for way in Way::ALL {
        let client = way.client(small());
        for reader in 0..READERS {
            let server = ScriptedServer::new([Step::stall_in_body(200, 1000, 500)]);
            let response = payment(&client, &server).send().await.unwrap();
            let (result, took) = timed(read(response, reader)).await;
            assert_tail_lost(
                &result.unwrap_err(),
                Effect::Answered,
                "the answer was silent for 30s",
            );
            assert_eq!(took, 30 * SECOND);
            server.assert_hits(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_may_be_silent_again_and_again_for_less_than_the_stall_timeout() {
    let policy = small().to_builder().response_buffer(2).build().unwrap();
    for way in Way::ALL {
        for reader in [0, 1, 3, 4] {
            let silence = 30 * SECOND - Duration::from_millis(1);
            let first = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n012";
            let mut step = Step::raw(first, End::KeepAlive);
            for piece in ["34", "56", "78"] {
                step = step.then_after(silence, piece);
            }
            let server = ScriptedServer::new([step]);
            let response = payment(&way.client(policy.clone()), &server)
                .send()
                .await
                .unwrap();
            let (read, took) = timed(read(response, reader)).await;
            assert_eq!((read.unwrap(), took), (b"012345678".to_vec(), 3 * silence));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_handed_out_as_they_come() {
    for way in Way::ALL {
        let client = way.client(RetryPolicy::immediate(4));
        for content_type in [
            "text/event-stream",
            "text/event-stream; charset=utf-8",
            "Text/Event-Stream",
        ] {
            let step = Step::raw(format!("{}3\r\na\n\n\r\n", head(content_type)), End::Hold);
            let server = ScriptedServer::new([Step::read_then_close(), step]);
            let (result, took) = timed(payment(&client, &server).send()).await;
            let response = result.unwrap();
            assert_eq!((took, response.is_buffered()), (Duration::ZERO, false));
            assert_eq!(response.attempts().len(), 2);
            let mut events = std::pin::pin!(response.bytes_stream());
            assert_eq!(events.next().await.unwrap().unwrap(), "a\n\n");
            let (next, took) = timed(events.next()).await;
            let error = next.unwrap().unwrap_err();
            assert_tail_lost(&error, Effect::Answered, "the answer was silent for 30s");
            assert_eq!(took, 30 * SECOND);
            server.assert_hits(2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_changes_its_protocol_is_handed_out_at_once() {
    for way in Way::ALL {
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: own\r\n\r\n";
        let server = ScriptedServer::new([Step::raw(format!("{switch}hello"), End::Hold)]);
        let client = way.client(RetryPolicy::immediate(4));
        let request = client.post(server.url("/")).header("connection", "upgrade");
        let operation = request.header("upgrade", "own").idempotent();
        let (result, took) = timed(operation.send()).await;
        let response = result.unwrap();
        assert_eq!((response.status().as_u16(), took), (101, Duration::ZERO));
        assert!(!response.is_buffered());
        let mut upgraded = response.into_reqwest().upgrade().await.unwrap();
        let mut read = [0; 5];
        upgraded.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_wanted_as_a_stream_is_handed_out_at_its_head() {
    for way in Way::ALL {
        let client = way.client(RetryPolicy::immediate(4));
        for status in [200, 201, 202] {
            let lost = Step::read_then_close();
            let server = ScriptedServer::new([lost, Step::stall_in_body(status, 100, 10)]);
            let operation = payment(&client, &server).stream_answer();
            let (result, took) = timed(operation.send()).await;
            let response = result.unwrap();
            assert_eq!((response.status().as_u16(), took), (status, Duration::ZERO));
            assert!(!response.is_buffered());
            assert_eq!(
                story(response.attempts())[0],
                "the connection closed before an answer, maybe processed"
            );
            let (result, took) = timed(response.text()).await;
            assert_tail_lost(
                &result.unwrap_err(),
                Effect::Answered,
                "the answer was silent for 30s",
            );
            assert_eq!(took, 30 * SECOND);
            server.assert_one_operation(2);

            let server = ScriptedServer::new([Step::cut_fixed(status, 100, 10)]);
            let response = payment(&client, &server)
                .stream_answer()
                .send()
                .await
                .unwrap();
            let error = response.bytes().await.unwrap_err();
            assert_tail_lost(&error, Effect::Answered, "the rest of the answer was lost");
            server.assert_hits(1);
        }
    }
}

// B39, B41: what an error means is in its body.
#[tokio::test(start_paused = true)]
async fn an_error_is_understood_although_the_answer_is_wanted_as_a_stream_or_the_buffer_is_small() {
    let running = Problem::in_progress().to_bytes();
    let reused = Problem::key_reused().to_bytes();
    assert!(
        running.len() > 100 && reused.len() > 100,
        "larger than the buffer"
    );
    let in_pieces = |status: u16, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status} Conflict\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let (one, other) = body.split_at(101);
        Step::raw([head.as_bytes(), one].concat(), End::KeepAlive)
            .then_after(Duration::from_millis(1), other)
    };
    for way in Way::ALL {
        for streamed in [false, true] {
            let key = IdempotencyKey::parse("k-1").unwrap();
            let client = way.client(small());
            let send = |server: &ScriptedServer| {
                let operation = client.post(server.url("/")).idempotent_with(key.clone());
                let operation = if streamed {
                    operation.stream_answer()
                } else {
                    operation
                };
                operation.send()
            };
            let polled = || in_pieces(409, &running);
            let server =
                ScriptedServer::new((0..6).map(|_| polled()).chain([Step::reply(201, &[], "")]));
            let response = send(&server).await.unwrap();
            assert_eq!(response.status(), 201);
            assert!(
                response.attempts()[1..]
                    .iter()
                    .all(idempotency::Attempt::is_poll)
            );
            server.assert_one_operation(7);

            let server = ScriptedServer::new([in_pieces(409, &reused)]);
            let response = send(&server).await.unwrap();
            assert!(response.is_mismatch());
            assert_eq!(
                response.error_for_status().unwrap_err().kind(),
                ErrorKind::Mismatch
            );

            let server = ScriptedServer::new([
                Step::reply(503, &[], text_of(5000)),
                Step::reply(201, &[], ""),
            ]);
            assert_eq!(send(&server).await.unwrap().status(), 201);
            assert_eq!(server.connections(), 1);
        }
    }
}

// B29: a response without a key gets no such retry.
#[tokio::test(start_paused = true)]
async fn without_a_key_an_answer_is_handed_out_at_its_head() {
    for way in Way::ALL {
        let client = way.client(RetryPolicy::immediate(4));
        for method in [Method::POST, Method::GET, Method::PUT] {
            for (step, why, silence) in [
                (
                    Step::stall_in_body(200, 100, 10),
                    "the answer was silent for 30s",
                    30 * SECOND,
                ),
                (
                    Step::cut_fixed(200, 100, 10),
                    "the rest of the answer was lost",
                    Duration::ZERO,
                ),
            ] {
                for reader in 0..READERS {
                    let server = ScriptedServer::new([step.clone()]);
                    let request = client.request(method.clone(), server.url("/"));
                    let (result, took) = timed(request.send()).await;
                    let response = result.unwrap();
                    assert_eq!((took, response.is_buffered()), (Duration::ZERO, false));
                    let (result, took) = timed(read(response, reader)).await;
                    assert_tail_lost(&result.unwrap_err(), Effect::Answered, why);
                    assert_eq!(took, silence);
                    server.assert_hits(1);
                }
            }
        }
    }
}
