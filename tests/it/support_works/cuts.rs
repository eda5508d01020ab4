//! Connections that end, stall or break in the middle of an answer.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{Ending, ORDER, assert_seen, exchange, expect, read_to_end};
use crate::support::{End, Refused, ScriptedServer, Step, timed};

const SECOND: Duration = Duration::from_secs(1);

/// Plays one step to one request that was read; asserts all that the client gets, and how it ends.
async fn assert_wire(step: Step, answer: &str, ending: Ending) {
    let server = ScriptedServer::new([step]);
    assert_eq!(
        exchange(server.addr(), ORDER).await,
        (answer.to_owned(), ending)
    );
    assert_eq!(server.assert_one_operation(1), "k-1");
}

/// As `assert_wire`, for a step after which the connection is open and silent.
async fn assert_silence_after(step: Step, answer: &str) {
    let server = ScriptedServer::new([step]);
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    expect(&mut stream, answer).await;
    let more = tokio::time::timeout(3600 * SECOND, read_to_end(&mut stream)).await;
    assert!(more.is_err(), "open and silent for an hour");
    assert_eq!(server.assert_one_operation(1), "k-1");
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_missing() {
    assert_wire(Step::read_then_close(), "", Ending::Closed).await;
    assert_wire(Step::read_then_reset(), "", Ending::Reset).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_no_http() {
    assert_wire(Step::half_status_line(), "HTTP/1.1 20", Ending::Closed).await;
    assert_wire(Step::garbage("\u{1}\u{2}"), "\u{1}\u{2}", Ending::Closed).await;
    assert_wire(Step::raw("x", End::Reset), "x", Ending::Reset).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_can_be_cut() {
    let fixed = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nxxxxx";
    assert_wire(Step::cut_fixed(200, 100, 5), fixed, Ending::Closed).await;
    assert_wire(
        Step::cut_fixed(200, 100, 5).resetting(),
        fixed,
        Ending::Reset,
    )
    .await;
    let chunked =
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\na\r\n0123456789\r\n";
    let cut = Step::cut_chunked(201, &["ab", "0123456789"]);
    assert_wire(cut.clone(), chunked, Ending::Closed).await;
    assert_wire(cut.resetting(), chunked, Ending::Reset).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_stall() {
    assert_silence_after(Step::stall_before_headers(), "").await;
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nxx";
    assert_silence_after(Step::stall_in_body(200, 9, 2), part).await;
    let broken = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ngood\r\nzz\r\nbad\r\n";
    assert_silence_after(Step::broken_chunk_framing(200), broken).await;
    let kept = "HTTP/1.1 204 No Content\r\n\r\n";
    assert_silence_after(Step::reply(204, &[], ""), kept).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_can_come_byte_by_byte() {
    let server = ScriptedServer::new([Step::dribble(200, b"abc", SECOND)]);
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
    assert_eq!(timed(expect(&mut stream, head)).await.1, Duration::ZERO);
    for byte in ["a", "b", "c"] {
        assert_eq!(timed(expect(&mut stream, byte)).await.1, SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_closed_unread_is_a_connection_and_no_hit() {
    let server = ScriptedServer::new([Step::close_before_reading()]);
    let (answer, ending) = exchange(server.addr(), ORDER).await;
    assert_eq!((answer.as_str(), ending), ("", Ending::Reset));
    assert_seen(&server, 0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_can_die_with_its_next_request() {
    let kept = Step::keep_alive_then_close_on_next(200, &[], "ok");
    let server = ScriptedServer::new([kept, Step::read_then_reset()]);
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    expect(
        &mut stream,
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    )
    .await;
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    assert_eq!(
        read_to_end(&mut stream).await,
        (String::new(), Ending::Closed)
    );
    let (_, third) = exchange(server.addr(), ORDER).await;
    assert_eq!(third, Ending::Reset, "the second request took no step");
    assert_eq!(server.assert_one_operation(3), "k-1");
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_at_a_refused_address() {
    let refused = Refused::new();
    for _ in 0..2 {
        let error = TcpStream::connect(refused.addr()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    assert_eq!(refused.url("/x"), format!("http://{}/x", refused.addr()));
}
