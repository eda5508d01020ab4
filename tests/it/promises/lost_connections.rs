//! A connection that is lost is one lost attempt: bounded, reported, and repeated with the key.

use std::time::Duration;

use http::{Response, StatusCode};
use idempotency::{Client, Effect, ErrorKind, Replay, RetryPolicy};
use tokio::net::TcpListener;

use super::story;
use crate::support::{End, ScriptedServer, Step, Way, timed};

const SECOND: Duration = Duration::from_secs(1);

// B24.
#[tokio::test(start_paused = true)]
async fn a_keyed_operation_on_a_connection_that_dies_goes_on_with_its_key_on_another() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::keep_alive_then_close_on_next(200, &[], "ok"),
            Step::reply(201, &[], ""),
        ]);
        let client = way.client(RetryPolicy::immediate(4));
        let first = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(first.text().await.unwrap(), "ok");
        let operation = client.post(server.url("/payments")).idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(
            story(response.attempts()),
            [
                "the connection closed before an answer, maybe processed",
                "201, answered"
            ]
        );
        assert_eq!(response.replay(), Replay::Unknown);
        let key = operation.key().unwrap().as_str();
        assert_eq!(server.keys(), [vec![], vec![key], vec![key]]);
        let connections: Vec<_> = server.arrivals().iter().map(|hit| hit.connection).collect();
        assert_eq!(connections, [0, 0, 1]);
    }
}

// B24: what the pool notices before a request was begun is no attempt.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_while_idle_costs_no_attempt() {
    for way in Way::ALL {
        let answer = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
        let server = ScriptedServer::always(Step::raw(answer, End::Close));
        let client = way.client(RetryPolicy::immediate(4));
        for keyed in [true, false, true] {
            let request = client.post(server.url("/payments"));
            let sent = if keyed {
                request.idempotent().send().await
            } else {
                request.send().await
            };
            assert_eq!(sent.unwrap().attempts().len(), 1);
            // Until the end of the connection has arrived.
            tokio::time::sleep(SECOND).await;
        }
        assert_eq!((server.hits(), server.connections()), (3, 3));
    }
}

// B25: that no byte of an answer came proves nothing.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_read_and_not_answered_is_never_called_not_executed() {
    for way in Way::ALL {
        for step in [
            Step::read_then_close(),
            Step::read_then_reset(),
            Step::close_before_reading(),
        ] {
            let server = ScriptedServer::always(step);
            let client = way.client(RetryPolicy::immediate(2));
            let error = client
                .post(server.url("/"))
                .idempotent()
                .send()
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Connection, Effect::Unknown)
            );
            assert_eq!(server.connections(), 2);
        }
    }
}

// B28: below what servers and balancers grant.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_given_up_after_twenty_seconds() {
    for way in Way::ALL {
        for (idle, connections) in [(19 * SECOND, 1), (21 * SECOND, 2)] {
            let server = ScriptedServer::always(Step::reply(201, &[], ""));
            let client = way.client(RetryPolicy::immediate(1));
            client
                .post(server.url("/"))
                .idempotent()
                .send()
                .await
                .unwrap();
            tokio::time::sleep(idle).await;
            client
                .post(server.url("/"))
                .idempotent()
                .send()
                .await
                .unwrap();
            assert_eq!(server.connections(), connections, "{idle:?}");
        }
    }
}

/// HTTP/2 whose first connection falls silent for ever once it has a request: no answer, no end, not even to a ping.
async fn silent_then_well(listener: TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut silent = h2::server::handshake(stream).await.unwrap();
    let _request = silent.accept().await.unwrap().unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut well = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = well.accept().await.unwrap().unwrap();
        let answer = Response::builder().status(StatusCode::CREATED);
        respond
            .send_response(answer.body(()).unwrap(), true)
            .unwrap();
        assert!(well.accept().await.is_none());
    }
}

// B28: a retry over the same dead connection is none.
#[cfg(feature = "http2")]
#[tokio::test(start_paused = true)]
async fn a_dead_http2_connection_is_found_out_and_left() {
    for way in Way::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/payments", listener.local_addr().unwrap());
        let server = tokio::spawn(silent_then_well(listener));
        let policy = RetryPolicy::immediate(2).to_builder();
        let builder = Client::builder()
            .policy(policy.attempt_timeout(60 * SECOND).build().unwrap())
            .reqwest(Client::reqwest_defaults().http2_prior_knowledge());
        let operation = way.build(builder).post(url).idempotent();
        let (result, took) = timed(operation.send()).await;
        let response = result.unwrap();
        assert_eq!(
            story(response.attempts()),
            [
                "no answer within the attempt's time, maybe processed",
                "201, answered"
            ]
        );
        assert_eq!(took, 15 * SECOND);
        server.abort();
    }
}
