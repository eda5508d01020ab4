//! What an operation that waits holds on to: nothing.

use std::time::Duration;

use idempotency::{Client, RetryPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client_over;
use crate::support::{ScriptedServer, Step};

/// B77: a small losing answer is read to its end, so its connection serves the next attempt.
#[tokio::test(start_paused = true)]
async fn losing_answers_leave_their_connection_to_the_next_attempt() {
    let busy = || Step::reply(503, &[], "x".repeat(1024));
    for keyed in [true, false] {
        let server = ScriptedServer::new([busy(), busy(), busy(), Step::reply(200, &[], "ok")]);
        let client = client_over(Client::reqwest_defaults().pool_max_idle_per_host(1), 4);
        let response = if keyed {
            let post = client.post(server.url("/orders")).body("x");
            post.idempotent().send().await.unwrap()
        } else {
            let put = client.put(server.url("/orders/1")).body("x");
            put.send().await.unwrap()
        };
        assert_eq!(response.status(), 200);
        server.assert_hits(4);
        assert_eq!(server.connections(), 1, "keyed: {keyed}");
    }
}

/// A losing answer that is large, or that never ends, is not waited for: its connection is closed before the wait begins.
#[tokio::test(start_paused = true)]
async fn an_operation_that_waits_holds_no_socket() {
    for (sent, closed_after) in [
        (1 << 20, Duration::ZERO),
        // Less than is read of a losing answer, and then silence: that much patience costs a second.
        (1024, Duration::from_secs(1)),
    ] {
        for keyed in [true, false] {
            let (url, closed) = endless_503(sent).await;
            let wait = Duration::from_secs(5);
            let policy = RetryPolicy::builder()
                .backoff(idempotency::Backoff::constant(wait))
                .build();
            let client = Client::builder()
                .reqwest(Client::reqwest_defaults().no_proxy())
                .policy(policy.unwrap())
                .build()
                .unwrap();
            let began = Instant::now();
            let put = client.put(&url).body("x");
            let post = client.post(&url).body("x").idempotent();
            let send = async move {
                if keyed {
                    post.send().await
                } else {
                    put.send().await
                }
            };
            let operation = tokio::spawn(send);
            let closed = closed.await.unwrap();
            assert_eq!(closed - began, closed_after, "{sent} bytes, keyed: {keyed}");
            operation.abort();
        }
    }
}

/// A server whose error page promises ten megabytes and stops after some; tells when the client closed the connection.
async fn endless_503(sent: usize) -> (String, JoinHandle<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 10000000\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&vec![b'x'; sent]).await;
        until_closed(stream).await
    });
    (url, server)
}

async fn until_closed(mut stream: TcpStream) -> Instant {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    Instant::now()
}
