//! Servers that mean harm, or are simply broken: never a panic, never a wait past the deadline, never an answer that was none.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotency::retry::{Failure, Reach};
use idempotency::{Client, Effect, ErrorKind, RetryPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{assert_failed, client};
use crate::support::{End, ScriptedServer, Step, timed};

const DEADLINE: Duration = Duration::from_secs(20);

fn bounded() -> Client {
    let policy = RetryPolicy::immediate(3).to_builder().deadline(DEADLINE);
    Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(policy.build().unwrap())
        .build()
        .unwrap()
}

/// Bytes that are no complete answer, whatever follows.
fn no_answers() -> Vec<(&'static str, Vec<u8>)> {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![
        ("nothing", Vec::new()),
        ("one byte", b"H".to_vec()),
        ("NUL bytes", vec![0; 10_000]),
        ("every byte", (0..=255).collect()),
        ("newlines", b"\r\n".repeat(5000)),
        ("HTTP/0.9", b"<html>ok</html>\r\n".to_vec()),
        ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        ("a TLS alert", vec![21, 3, 3, 0, 2, 2, 40]),
        (
            "a future version",
            b"HTTP/9.9 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec(),
        ),
        (
            "a status of two digits",
            b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok".to_vec(),
        ),
        (
            "a status of four digits",
            b"HTTP/1.1 2000 OK\r\ncontent-length: 2\r\n\r\nok".to_vec(),
        ),
        ("a request", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        (
            "a head without end",
            format!("{ok}{}", "x: y\r\n".repeat(50)).into_bytes(),
        ),
        (
            "a header of a megabyte",
            format!("{ok}x: {}\r\n", "y".repeat(1 << 20)).into_bytes(),
        ),
        (
            "ten thousand headers",
            format!("{ok}{}\r\n", "x: y\r\n".repeat(10_000)).into_bytes(),
        ),
        (
            "a header without a name",
            format!("{ok}: y\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        ),
        (
            "a header without a colon",
            format!("{ok}xyz\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        ),
        (
            "a length of letters",
            format!("{ok}content-length: ten\r\n\r\n0123456789").into_bytes(),
        ),
        (
            "a negative length",
            format!("{ok}content-length: -10\r\n\r\n0123456789").into_bytes(),
        ),
        (
            "a signed length",
            format!("{ok}content-length: +2\r\n\r\nok").into_bytes(),
        ),
        (
            "two lengths in one",
            format!("{ok}content-length: 2, 3\r\n\r\nok").into_bytes(),
        ),
        (
            "two lengths",
            format!("{ok}content-length: 2\r\ncontent-length: 3\r\n\r\nok").into_bytes(),
        ),
        (
            "a length past u64",
            format!("{ok}content-length: 99999999999999999999\r\n\r\nok").into_bytes(),
        ),
        (
            "the greatest length",
            format!("{ok}content-length: 18446744073709551615\r\n\r\nok").into_bytes(),
        ),
        (
            "a huge length",
            format!("{ok}content-length: 9223372036854775807\r\n\r\nok").into_bytes(),
        ),
        (
            "a negative chunk",
            format!("{chunked}-2\r\nok\r\n0\r\n\r\n").into_bytes(),
        ),
        (
            "a chunk past u64",
            format!("{chunked}fffffffffffffffff\r\nok\r\n0\r\n\r\n").into_bytes(),
        ),
        (
            "a huge chunk",
            format!("{chunked}7fffffffffffffff\r\nok\r\n").into_bytes(),
        ),
        (
            "a chunk longer than said",
            format!("{chunked}1\r\nok\r\n0\r\n\r\n").into_bytes(),
        ),
        (
            "a chunk extension without end",
            format!("{chunked}2;{}", "x".repeat(1 << 20)).into_bytes(),
        ),
        (
            "chunk extensions without end",
            format!(
                "{chunked}{}",
                "1;aaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n".repeat(20_000)
            )
            .into_bytes(),
        ),
        (
            "no last chunk",
            format!("{chunked}{}", "1\r\nx\r\n".repeat(1000)).into_bytes(),
        ),
        (
            "trailers without end",
            format!("{chunked}2\r\nok\r\n0\r\n{}", "x: y\r\n".repeat(50_000)).into_bytes(),
        ),
        (
            "interim answers only",
            b"HTTP/1.1 100 Continue\r\n\r\n".repeat(5000),
        ),
        (
            "early hints only",
            b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(500),
        ),
    ]
}

/// Whatever becomes of the connection afterwards.
#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_never_taken_for_one() {
    let client = bounded();
    for (name, bytes) in no_answers() {
        for end in [End::Close, End::Reset, End::Hold] {
            let server = ScriptedServer::always(Step::raw(bytes.clone(), end));
            let operation = client
                .post(server.url("/orders"))
                .body("amount=100")
                .idempotent();
            let (sent, took) = timed(operation.send()).await;
            let error = sent.expect_err(&format!("{name}, {end:?}"));
            assert_eq!(
                error.effect(),
                Effect::Unknown,
                "{name}, {end:?}: {error:?}"
            );
            assert!(took <= DEADLINE, "{name}, {end:?}: {took:?}");
            let hits = server.hits();
            assert!((1..=3).contains(&hits), "{name}, {end:?}: {hits} hits");
            server.assert_one_operation(hits);
        }
    }
}

/// Cut at any byte it is no answer, whatever the cut looks like; whole it is one.
#[tokio::test(start_paused = true)]
async fn no_beginning_of_an_answer_is_taken_for_the_answer() {
    let fixed = "HTTP/1.1 201 Created\r\netag: \"1\"\r\ncontent-length: 4\r\n\r\ndone";
    let interim = format!("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n{fixed}");
    let chunked = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n\
        2\r\ndo\r\n2;x=y\r\nne\r\n0\r\nx-trailer: 1\r\n\r\n";
    let client = client(1);
    for answer in [fixed, &interim, chunked] {
        for length in 0..answer.len() {
            for end in [End::Close, End::Reset] {
                let server = ScriptedServer::new([Step::raw(&answer.as_bytes()[..length], end)]);
                let operation = client.post(server.url("/orders")).body("x").idempotent();
                let what = format!("{length} bytes, {end:?}");
                let error = operation.send().await.expect_err(&what);
                assert_eq!(error.effect(), Effect::Unknown, "{what}: {error:?}");
                server.assert_hits(1);
            }
        }
        let server = ScriptedServer::new([Step::raw(answer, End::Close)]);
        let operation = client.post(server.url("/orders")).body("x").idempotent();
        assert_eq!(
            operation.send().await.unwrap().text().await.unwrap(),
            "done"
        );
    }
}

/// 400 answers with a few bytes changed, left out or put in; the same ones each time.
#[tokio::test(start_paused = true)]
async fn no_damaged_answer_makes_the_loop_panic_or_wait_past_the_deadline() {
    let whole: [&[u8]; 3] = [
        b"HTTP/1.1 201 Created\r\nidempotent-replayed: true\r\ncontent-length: 4\r\n\r\ndone",
        b"HTTP/1.1 503 Busy\r\nretry-after: 1\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n",
        b"HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\ncontent-length: 25\r\n\r\n{\"type\":\"x:in-progress\"}\n",
    ];
    let client = bounded();
    let mut random = fastrand::Rng::with_seed(20);
    for round in 0..400 {
        let mut bytes = whole[round % whole.len()].to_vec();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = random.u8(..),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.u8(..)),
            }
        }
        let end = [End::Close, End::Reset, End::Hold][round % 3];
        let shown = bytes.escape_ascii().to_string();
        let server = ScriptedServer::always(Step::raw(bytes, end));
        let operation = client.post(server.url("/orders")).body("x").idempotent();
        let work = AssertUnwindSafe(operation.send()).catch_unwind();
        let (sent, took) = timed(work).await;
        assert!(sent.is_ok(), "panicked: {shown}");
        assert!(took <= DEADLINE, "{took:?}: {shown}");
        if let Ok(Ok(response)) = sent {
            let status = response.status();
            assert!(shown.contains(status.as_str()), "{status}: {shown}");
        }
    }
}

/// RFC 9110, section 15.2.2: it is only sent to a client that asked for it. An answer to the operation it is not.
#[tokio::test(start_paused = true)]
async fn a_switch_of_protocols_that_nobody_asked_for_is_no_answer() {
    let switch = Step::raw(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chess\r\n\r\n",
        End::Hold,
    );
    let server = ScriptedServer::always(switch);
    let client = client(2);
    let post = || client.post(server.url("/orders")).body("x");
    let error = post().idempotent().send().await.unwrap_err();
    let effect = (ErrorKind::Protocol, Effect::Unknown);
    assert_failed(
        &error,
        2,
        Failure::Malformed,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    server.assert_one_operation(2);
    let asked = post()
        .header("connection", "upgrade")
        .header("upgrade", "chess");
    let response = asked.idempotent().send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.is_buffered()),
        (101, false)
    );
}

/// A server that drips without end: the deadline ends it, and it is not taken for a bad answer.
#[tokio::test(start_paused = true)]
async fn a_server_that_drips_for_ever_is_left_at_the_deadline() {
    for (name, drip) in [
        ("a header", "x: y\r\n"),
        ("an interim answer", "HTTP/1.1 102 Processing\r\n\r\n"),
        ("a chunk", "1\r\nx\r\n"),
    ] {
        let head = match drip.split_once(' ') {
            Some(("x:", _)) => "HTTP/1.1 200 OK\r\n",
            Some(_) => "",
            None => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        };
        let server = Dripping::start(head, drip).await;
        let operation = bounded().post(&server.url).body("x").idempotent();
        let (sent, took) = timed(operation.send()).await;
        let error = sent.unwrap_err();
        let found = (error.kind(), error.effect(), took);
        assert_eq!(
            found,
            (ErrorKind::Timeout, Effect::Unknown, DEADLINE),
            "{name}: {error:?}"
        );
        assert_eq!(
            server.connections.load(Ordering::SeqCst),
            2,
            "{name}: 10 s for each attempt"
        );
    }
}

/// Sends a head once, then the same bytes every 100 ms.
struct Dripping {
    url: String,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Dripping {
    async fn start(head: &'static str, drip: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                streams.spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let mut sent = stream.write_all(head.as_bytes()).await;
                    while sent.is_ok() {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        sent = stream.write_all(drip.as_bytes()).await;
                    }
                });
            }
        });
        Self {
            url,
            connections,
            _tasks: tasks,
        }
    }
}

/// A body that finds no room at the other side is given up with its attempt.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_left_with_the_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let deaf = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    let operation = bounded().post(&url).body(vec![0; 32 << 20]).idempotent();
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
    assert_eq!(took, DEADLINE);
    deaf.abort();
}

/// An answer that nobody has asked for yet must not become the answer to the next operation on the same connection.
#[tokio::test(start_paused = true)]
async fn what_follows_an_answer_on_its_connection_is_not_the_answer_to_the_next_operation() {
    let first = "HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nfirst";
    for surplus in [
        "HTTP/1.1 201 Created\r\ncontent-length: 6\r\n\r\nforged",
        "garbage",
        "\r\n",
        "\0",
        "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ] {
        let server = ScriptedServer::new([
            Step::raw(format!("{first}{surplus}"), End::KeepAlive),
            Step::reply(201, &[], "second"),
        ]);
        let client = client(1);
        let post = || client.post(server.url("/orders")).body("x").idempotent();
        let answer = post().send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "first", "{surplus:?}");
        let answer = post().send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "second", "{surplus:?}");
        server.assert_hits(2);
    }
}

/// Headers that we read ourselves, at their worst.
#[tokio::test(start_paused = true)]
async fn no_header_of_an_answer_makes_the_loop_panic_or_wait_past_the_deadline() {
    let long = "9".repeat(400);
    let values = [
        "",
        " ",
        ",",
        ";",
        "\"",
        "-1",
        "+1",
        "0",
        "00",
        "1e9",
        "nan",
        "inf",
        "1.5.5",
        "0x10",
        "18446744073709551616",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Wed, 99 Xyz 0000 99:99:99 GMT",
        "\u{ff}",
        "true, true",
        "?1;a=b",
        &long,
    ];
    let names = [
        "retry-after",
        "retry-after-ms",
        "x-ms-retry-after-ms",
        "idempotent-replayed",
        "date",
        "content-type",
        "stripe-should-retry",
        "x-should-retry",
        "content-encoding",
        "location",
        "idempotency-key",
    ];
    let client = bounded();
    for name in names {
        for value in values {
            for status in [200, 409, 503] {
                let busy = Step::reply(status, &[(name, value)], "{\"type\":");
                let server = ScriptedServer::always(busy);
                let operation = client.post(server.url("/orders")).body("x").idempotent();
                let (sent, took) = timed(AssertUnwindSafe(operation.send()).catch_unwind()).await;
                assert!(sent.is_ok(), "{status} {name}: {value:?} panicked");
                assert!(took <= DEADLINE, "{status} {name}: {value:?} took {took:?}");
            }
        }
    }
}
