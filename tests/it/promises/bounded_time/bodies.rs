//! The time that the caller's own body takes counts, too.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::{Effect, ErrorKind, StoppedBy};
use reqwest::Body;

use super::assert_fails;
use crate::support::{ScriptedServer, Step, Way, hits_at, ms, secs, steady, timed};

/// A body of one byte every second, `length` of them.
fn slow_body(length: usize) -> Body {
    let frames = stream::iter(0..length).then(async |_| {
        tokio::time::sleep(secs(1)).await;
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")))
    });
    Body::wrap(StreamBody::new(Box::pin(frames)))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_before_the_deadline_was_never_sent() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let client = way.client(steady().build().unwrap());
        let operation = client
            .post(server.url("/upload"))
            .body(slow_body(usize::MAX))
            .idempotent()
            .deadline(ms(4500));
        let error = assert_fails(
            &operation,
            ErrorKind::Timeout,
            StoppedBy::Deadline,
            ms(4500),
        )
        .await;
        assert_eq!(error.effect(), Effect::NotExecuted, "{way:?}");
        assert_eq!(error.key(), operation.key(), "{way:?}");
        assert!(error.attempts().is_empty(), "{way:?}");
        server.assert_hits(0);
    }
}

#[tokio::test(start_paused = true)]
async fn reading_the_body_ahead_takes_from_the_deadline() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::stall_before_headers());
        let client = way.client(steady().build().unwrap());
        let operation = client
            .post(server.url("/upload"))
            .body(slow_body(4))
            .idempotent()
            .deadline(secs(6));
        let error =
            assert_fails(&operation, ErrorKind::Timeout, StoppedBy::Deadline, secs(6)).await;
        let attempt = &error.attempts()[0];
        assert_eq!(
            (attempt.began(), attempt.took()),
            (secs(4), secs(2)),
            "{way:?}"
        );
        server.assert_one_operation(1);
        assert_eq!(server.bodies(), [b"xxxx"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_read_ahead_is_not_read_again() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::reply(503, &[], ""),
            Step::reply(503, &[], ""),
            Step::reply(201, &[], ""),
        ]);
        let client = way.client(steady().build().unwrap());
        let request = client.post(server.url("/upload")).body(slow_body(4));
        let (result, took) = timed(request.idempotent().send()).await;
        assert_eq!(result.unwrap().status(), 201, "{way:?}");
        assert_eq!(took, ms(4200), "{way:?}");
        server.assert_one_operation(3);
        assert_eq!(hits_at(&server), [0, 100, 200]);
        assert_eq!(server.bodies(), [b"xxxx"; 3]);
    }
}

/// A `send` that was given up while the body was being read has lost nothing of it.
#[tokio::test(start_paused = true)]
async fn a_send_dropped_while_the_body_is_read_can_be_sent_again() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::reply(201, &[], "")]);
        let client = way.client(steady().build().unwrap());
        let operation = client.post(server.url("/upload")).body(slow_body(4));
        let operation = operation.idempotent();
        let patience = tokio::time::timeout(ms(2500), operation.send()).await;
        assert!(patience.is_err(), "{way:?}");
        let (result, took) = timed(operation.send()).await;
        assert_eq!(result.unwrap().status(), 201, "{way:?}");
        assert!(took <= secs(2), "{way:?}: {took:?}");
        server.assert_one_operation(1);
        assert_eq!(server.bodies(), [b"xxxx"]);
    }
}
