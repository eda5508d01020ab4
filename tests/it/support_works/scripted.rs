//! Answers, their order, and what is recorded of the requests.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{Ending, ORDER, assert_seen, exchange, expect, plain_client, read_to_end};
use crate::support::{Arrival, End, Gate, ScriptedServer, Step, header_lines, timed};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn names(arrival: &Arrival) -> Vec<&str> {
    arrival.headers.iter().map(|(name, _)| &**name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_recorded_as_it_was_on_the_wire() {
    let server = ScriptedServer::new([Step::reply(200, &[], "ok"), Step::reply(204, &[], "")]);
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    expect(&mut stream, OK).await;
    let chunked = "PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: 1\r\n\r\n";
    stream.write_all(chunked.as_bytes()).await.unwrap();
    expect(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;

    assert_seen(&server, 2, 1);
    assert_eq!(server.bodies(), [&b"{\"amount\":100}"[..], b"abcde"]);
    assert_eq!(server.keys(), [vec!["k-1".to_owned()], vec![]]);
    let arrivals = server.arrivals();
    let first = &arrivals[0];
    assert_eq!(
        (first.method.as_str(), first.target.as_str()),
        ("POST", "/orders?x=1")
    );
    assert_eq!(
        (first.connection, first.complete, first.at),
        (0, true, Instant::now())
    );
    assert_eq!(names(first), ["Host", "Idempotency-KEY", "content-length"]);
    assert_eq!(header_lines(first, "HOST"), ["shop"]);
}

#[tokio::test(start_paused = true)]
async fn steps_are_played_once_each_in_order_over_all_connections() {
    let server = ScriptedServer::new([
        Step::reply(503, &[("Retry-After", "2"), ("x", "1"), ("x", "2")], "busy"),
        Step::json(201, &json!({"id": 1})),
    ]);
    let client = plain_client().build().unwrap();
    let first = client.post(server.url("/orders")).send().await.unwrap();
    assert_eq!(
        (first.status().as_u16(), &first.headers()["retry-after"]),
        (503, &"2".parse().unwrap())
    );
    assert_eq!(first.headers().get_all("x").iter().count(), 2);
    assert_eq!(first.text().await.unwrap(), "busy");
    let other = plain_client().build().unwrap();
    let second = other.post(server.url("/orders")).send().await.unwrap();
    assert_eq!(second.status().as_u16(), 201);
    assert_eq!(second.headers()["content-type"], "application/json");
    assert_eq!(second.text().await.unwrap(), r#"{"id":1}"#);
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_has_no_body() {
    let server = ScriptedServer::always(Step::reply(200, &[], "ok"));
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    for _ in 0..2 {
        stream.write_all(b"HEAD / HTTP/1.1\r\n\r\n").await.unwrap();
        expect(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
    }
    server.assert_hits(2);
}

#[tokio::test(start_paused = true)]
async fn a_closure_sees_the_request_and_chooses_the_step() {
    let server = ScriptedServer::answering(|arrival| {
        let length = arrival.body.len().to_string();
        Step::raw(length, End::Close)
    });
    assert_eq!(
        exchange(server.addr(), ORDER).await,
        ("14".to_owned(), Ending::Closed)
    );
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "the closure that answers panicked\n1 connections, requests:\n  0: POST /orders?x=1"
)]
async fn a_closure_that_panics_fails_the_test() {
    let server = ScriptedServer::answering(|_| panic!("not what was expected"));
    exchange_one(&server, 599).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "unexpected request: the script had ended")]
async fn a_request_after_the_last_step_fails_the_test() {
    let server = ScriptedServer::new([Step::reply(200, &[], "ok")]);
    exchange_one(&server, 200).await;
    exchange_one(&server, 599).await;
    server.assert_hits(2);
}

async fn exchange_one(server: &ScriptedServer, status: u16) {
    let client = plain_client().build().unwrap();
    let request = client
        .post(server.url("/orders?x=1"))
        .header("idempotency-key", "k-1");
    assert_eq!(request.send().await.unwrap().status().as_u16(), status);
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "1 hits, expected 2\n1 connections, requests:\n  0: POST /orders?x=1 on connection 0\n     idempotency-key: [\"k-1\"]\n     body, 14 bytes, complete: {\\\"amount\\\":100}"
)]
async fn a_wrong_count_is_shown_with_the_requests() {
    let server = ScriptedServer::new([Step::read_then_close()]);
    exchange(server.addr(), ORDER).await;
    server.assert_hits(2);
}

#[tokio::test(start_paused = true)]
async fn attempts_of_one_operation_have_one_key() {
    let server = ScriptedServer::always(Step::read_then_close());
    exchange(server.addr(), ORDER).await;
    exchange(server.addr(), ORDER).await;
    assert_eq!(server.assert_one_operation(2), "k-1");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not one operation")]
async fn attempts_with_different_bodies_are_not_one_operation() {
    let server = ScriptedServer::always(Step::read_then_close());
    exchange(server.addr(), ORDER).await;
    exchange(server.addr(), &ORDER.replace("100", "200")).await;
    server.assert_one_operation(2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_time_and_for_the_test() {
    let gate = Gate::new();
    let late = Step::after(Duration::from_secs(3), Step::read_then_close());
    let server = ScriptedServer::new([late, Step::wait_for(&gate, Step::read_then_close())]);
    let (_, took) = timed(exchange(server.addr(), ORDER)).await;
    assert_eq!(took, Duration::from_secs(3));

    let mut call = Box::pin(exchange(server.addr(), ORDER));
    let held = tokio::time::timeout(Duration::from_secs(60), &mut call).await;
    assert!(held.is_err(), "held until the gate opens");
    gate.reached().await;
    gate.open();
    assert_eq!(call.await.1, Ending::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_continue_comes_before_the_body() {
    let server = ScriptedServer::new([
        Step::continue_then(Step::reply(200, &[], "ok")),
        Step::expectation_failed(),
    ]);
    let (head, body) = ORDER.split_at(ORDER.find('{').unwrap());
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    expect(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
    assert!(!server.arrivals()[0].complete);
    stream.write_all(body.as_bytes()).await.unwrap();
    expect(&mut stream, OK).await;
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    expect(
        &mut stream,
        "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    assert_eq!(server.assert_one_operation(2), "k-1");
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_does_not_wait_for_the_body_and_survives_it() {
    let server = ScriptedServer::new([Step::reply_early(503, &[("retry-after", "1")], "busy")]);
    let head = "POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n";
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy";
    expect(&mut stream, answer).await;
    stream.write_all(&vec![b'x'; 1_000_000]).await.unwrap();
    assert_eq!(
        read_to_end(&mut stream).await,
        (String::new(), Ending::Closed)
    );
    assert_eq!(server.bodies(), [b""]);
    assert!(!server.arrivals()[0].complete);
}

#[tokio::test(start_paused = true)]
async fn everything_ends_with_the_server() {
    let server = ScriptedServer::always(Step::stall_before_headers());
    let addr = server.addr();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(ORDER.as_bytes()).await.unwrap();
    server.until_hits(1).await;
    drop(server);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    let again = TcpStream::connect(addr).await;
    assert_eq!(
        again.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_of_many_threads_does_as_well() {
    let server = ScriptedServer::always(Step::reply(200, &[], "ok"));
    let client = plain_client().build().unwrap();
    let ask = async || client.get(server.url("/")).send().await.unwrap().status();
    let answers = futures_util::future::join_all((0..20).map(|_| ask())).await;
    assert!(answers.iter().all(|status| *status == 200));
    server.assert_hits(20);
}
