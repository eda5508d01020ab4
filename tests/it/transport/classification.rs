//! One row per way in which a server can fail, on real sockets: what it is taken for, what is certain afterwards, and whether it
//! is tried again.

use std::time::Duration;

use idempotency::retry::{Failure, Reach, StoppedBy};
use idempotency::{Effect, ErrorKind};

use super::{assert_failed, client};
use crate::support::{End, Refused, ScriptedServer, Step, timed};

/// A fault after which nobody knows what the server did.
struct Fault {
    name: &'static str,
    step: Step,
    failure: Failure,
    kind: ErrorKind,
    /// The status, where a head had come before the fault.
    status: Option<u16>,
}

fn faults() -> Vec<Fault> {
    use ErrorKind::{Connection, Protocol, Timeout};
    let raw = |text: &str| Step::raw(text.as_bytes(), End::Close);
    let fault = |name, step, failure, kind, status| Fault {
        name,
        step,
        failure,
        kind,
        status,
    };
    let headless = |name, step, failure, kind| fault(name, step, failure, kind, None);
    let mut faults = vec![
        headless(
            "closes",
            Step::read_then_close(),
            Failure::Closed,
            Connection,
        ),
        headless(
            "resets",
            Step::read_then_reset(),
            Failure::Reset,
            Connection,
        ),
        headless(
            "half a status line",
            Step::half_status_line(),
            Failure::Closed,
            Connection,
        ),
        headless(
            "half a head",
            raw("HTTP/1.1 200 OK\r\ncontent-le"),
            Failure::Closed,
            Connection,
        ),
        headless(
            "half a head, reset",
            raw("HTTP/1.1 200 OK\r\ncontent-le").resetting(),
            Failure::Reset,
            Connection,
        ),
        headless(
            "an interim answer only",
            raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"),
            Failure::Closed,
            Connection,
        ),
        headless(
            "silence",
            Step::stall_before_headers(),
            Failure::Timeout,
            Timeout,
        ),
        headless(
            "garbage",
            Step::garbage([1, 2, 3, b'\r', b'\n']),
            Failure::Malformed,
            Protocol,
        ),
        headless(
            "HTTP/0.9",
            raw("hello\r\n\r\n"),
            Failure::Malformed,
            Protocol,
        ),
        headless(
            "a status of letters",
            raw("HTTP/1.1 abc OK\r\n\r\n"),
            Failure::Malformed,
            Protocol,
        ),
        headless(
            "a negative length",
            raw("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
            Failure::Malformed,
            Protocol,
        ),
        headless(
            "two lengths",
            raw("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
            Failure::Malformed,
            Protocol,
        ),
        headless(
            "a NUL in a header",
            raw("HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"),
            Failure::Malformed,
            Protocol,
        ),
    ];
    let in_body = [
        ("cut at a length", Step::cut_fixed(201, 100, 10)),
        (
            "cut at a length before the first byte",
            Step::cut_fixed(201, 100, 0),
        ),
        ("cut between chunks", Step::cut_chunked(201, &["ab", "cd"])),
        (
            "cut at a length by a reset",
            Step::cut_fixed(201, 100, 10).resetting(),
        ),
        (
            "cut between chunks by a reset",
            Step::cut_chunked(201, &["ab"]).resetting(),
        ),
        (
            "a chunk size that is no number",
            Step::broken_chunk_framing(201),
        ),
        (
            "a chunk size that overflows",
            raw(
                "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
            ),
        ),
    ];
    for (name, step) in in_body {
        faults.push(fault(name, step, Failure::Truncated, Connection, Some(201)));
    }
    let stalled = Step::stall_in_body(201, 100, 10);
    faults.push(fault(
        "a stall in the body",
        stalled,
        Failure::Stalled,
        Timeout,
        Some(201),
    ));
    faults
}

/// B24, B25, B29, B32: retried with the key, never without end, and never called "not executed".
#[tokio::test(start_paused = true)]
async fn with_a_key_every_fault_of_unknown_outcome_is_retried_within_the_attempts() {
    let client = client(3);
    for Fault {
        name,
        step,
        failure,
        kind,
        status,
    } in faults()
    {
        let server = ScriptedServer::always(step);
        let operation = client
            .post(server.url("/orders"))
            .body("amount=100")
            .idempotent();
        let error = operation.send().await.unwrap_err();
        let effect = (kind, Effect::Unknown);
        assert_failed(&error, 3, failure, Reach::MaybeProcessed, effect, name);
        assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts), "{name}");
        assert_eq!(error.key(), operation.key(), "{name}");
        let statuses: Vec<_> = error
            .attempts()
            .iter()
            .map(|attempt| attempt.status())
            .collect();
        assert_eq!(
            statuses,
            [status.map(|code| code.try_into().unwrap()); 3],
            "{name}"
        );
        assert!(error.response().is_none(), "{name}");
        server.assert_one_operation(3);
    }
}

/// B13, B33: a POST without a key goes out once. What comes after the head is the caller's to read, as in reqwest.
#[tokio::test(start_paused = true)]
async fn without_a_key_no_fault_of_unknown_outcome_is_retried() {
    let client = client(3);
    for Fault {
        name,
        step,
        failure,
        kind,
        status,
    } in faults()
    {
        let server = ScriptedServer::always(step);
        let sent = client
            .post(server.url("/orders"))
            .body("amount=100")
            .send()
            .await;
        match status {
            None => {
                let error = sent.unwrap_err();
                let effect = (kind, Effect::Unknown);
                assert_failed(&error, 1, failure, Reach::MaybeProcessed, effect, name);
                assert_eq!(
                    error.stopped_by(),
                    Some(StoppedBy::UnsafeWithoutKey),
                    "{name}"
                );
                assert_eq!(error.key(), None, "{name}");
            }
            Some(status) => {
                let response = sent.unwrap();
                assert_eq!(response.status(), status, "{name}");
                assert!(!response.is_buffered(), "{name}");
                let error = response.bytes().await.unwrap_err();
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Body, Effect::Answered),
                    "{name}"
                );
            }
        }
        server.assert_hits(1);
    }
}

/// RFC 9110, section 9.2.2: the method alone permits the repeat.
#[tokio::test(start_paused = true)]
async fn methods_that_may_be_repeated_are_retried_without_a_key() {
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        let server = ScriptedServer::new([Step::read_then_reset(), Step::reply(200, &[], "")]);
        let method = method.parse().unwrap();
        let response = client(2)
            .request(method, server.url("/orders/1"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        server.assert_hits(2);
        assert_eq!(server.keys(), [[""; 0]; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_closed_with_the_request_unread_is_of_unknown_outcome() {
    // The bytes were in the server's socket: no client can tell that nobody read them.
    let server = ScriptedServer::always(Step::close_before_reading());
    let error = client(2)
        .post(server.url("/orders"))
        .body("x")
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let effect = (ErrorKind::Connection, Effect::Unknown);
    assert_failed(&error, 2, Failure::Reset, Reach::MaybeProcessed, effect, ());
    assert_eq!((server.hits(), server.connections()), (0, 2));
}

/// Nothing was sent, so even an unkeyed POST is tried again, and the caller may forget the key.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_never_sent() {
    let refused = Refused::new();
    let client = client(3);
    let post = || client.post(refused.url("/orders")).body("amount=100");
    let effect = (ErrorKind::Connect, Effect::NotExecuted);
    for error in [
        post().idempotent().send().await.unwrap_err(),
        post().send().await.unwrap_err(),
    ] {
        assert_failed(&error, 3, Failure::Connect, Reach::NeverSent, effect, ());
        assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
        assert!(error.is_connect() && !error.is_timeout());
    }
}

/// The time of an attempt holds for its head and its body together.
#[tokio::test(start_paused = true)]
async fn a_body_that_comes_byte_by_byte_ends_with_the_attempt() {
    let dribble = Step::dribble(201, b"0123456789abcdef", Duration::from_secs(1));
    let server = ScriptedServer::always(dribble);
    let operation = client(1).post(server.url("/orders")).body("x").idempotent();
    let (sent, took) = timed(operation.send()).await;
    let error = sent.unwrap_err();
    let effect = (ErrorKind::Timeout, Effect::Unknown);
    assert_failed(
        &error,
        1,
        Failure::Stalled,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    assert_eq!(took, Duration::from_secs(10));
    assert!(error.is_timeout());
}
