//! A server may answer before it has read the request (RFC 9112, section 9.5; RFC 9113, section 8.1).

use http::StatusCode;
use idempotency::RetryPolicy;

use super::streamed;
use crate::support::{ScriptedServer, Step, Way};

/// Larger than what the sockets of both sides hold.
const LARGE: usize = 16 << 20;

// B21: the body of the second attempt is whole, although the first one's was left in mid-sending.
#[tokio::test(start_paused = true)]
async fn an_attempt_after_an_early_answer_sends_the_whole_body() {
    let body = vec![b'x'; LARGE];
    let policy = RetryPolicy::immediate(3)
        .to_builder()
        .request_buffer(LARGE)
        .build()
        .unwrap();
    for way in Way::ALL {
        for stream in [false, true] {
            let early = || Step::reply_early(503, &[], "busy");
            let server = ScriptedServer::new([early(), early(), Step::reply(201, &[], "")]);
            let request = way.client(policy.clone()).post(server.url("/"));
            let operation = match stream {
                true => request.body(streamed([body.clone()])).idempotent(),
                false => request.body(body.clone()).idempotent(),
            };
            let response = operation.send().await.unwrap();
            let statuses: Vec<_> = response.attempts().iter().map(|a| a.status()).collect();
            assert_eq!(
                statuses,
                [503, 503, 201].map(|s| StatusCode::from_u16(s).ok())
            );
            server.assert_hits(3);
            assert!(server.bodies()[2] == body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_early_refusal_is_the_answer() {
    let body = vec![b'x'; LARGE];
    for way in Way::ALL {
        for keyed in [true, false] {
            for status in [413, 422] {
                let server = ScriptedServer::new([Step::reply_early(status, &[], "too much")]);
                let request = way.client(RetryPolicy::immediate(3)).post(server.url("/"));
                let request = request.body(body.clone());
                let sent = if keyed {
                    request.idempotent().send().await
                } else {
                    request.send().await
                };
                let response = sent.unwrap();
                assert_eq!(response.status(), status);
                assert_eq!(response.text().await.unwrap(), "too much");
                server.assert_hits(1);
            }
        }
    }
}
