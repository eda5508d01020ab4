//! Which timeout is it? One for connecting, one for an attempt, one for silence in a stream, one for everything.

use std::fmt::Debug;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use idempotency::retry::{Failure, Reach};
use idempotency::{Client, Effect, Error, ErrorKind, Replay, RetryPolicy, StoppedBy};

use super::assert_fails;
use crate::support::{
    ScriptedServer, Step, Way, client, hits_at, ms, payment, secs, steady, timed,
};

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_ends_after_ten_seconds_and_is_retried_with_the_key() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::stall_before_headers(),
            Step::reply(201, &[("Idempotent-Replayed", "true")], ""),
        ]);
        let client = way.client(steady().build().unwrap());
        let (result, took) = timed(payment(&client, server.url("/payments")).send()).await;
        let response = result.unwrap();
        assert!(response.is_replay());
        assert_eq!(took, ms(10_100));
        let lost = &response.attempts()[0];
        assert_eq!((lost.took(), lost.status()), (secs(10), None));
        assert_eq!(lost.failure(), Some(Failure::Timeout));
        server.assert_one_operation(2);
        assert_eq!(hits_at(&server), [0, 10_100]);
    }
}

// B66.
#[tokio::test(start_paused = true)]
async fn the_attempts_time_does_not_end_at_the_headers() {
    for (step, what) in [
        (Step::stall_in_body(201, 100, 10), "stalls"),
        (Step::dribble(201, &[b'x'; 60], secs(1)), "dribbles"),
    ] {
        let server = ScriptedServer::new([step, Step::reply(201, &[], "")]);
        let client = client(&steady().attempt_timeout(secs(30)).build().unwrap());
        let (result, took) = timed(payment(&client, server.url("/payments")).send()).await;
        let response = result.unwrap();
        assert_eq!(took, ms(30_100), "{what}");
        let lost = &response.attempts()[0];
        assert_eq!(lost.status().unwrap(), 201, "{what}");
        assert_eq!(lost.failure(), Some(Failure::Stalled), "{what}");
        assert_eq!(lost.reach(), Reach::MaybeProcessed, "{what}");
        assert_eq!(response.replay(), Replay::Unknown, "{what}");
        server.assert_one_operation(2);
    }
}

// B66.
#[tokio::test(start_paused = true)]
async fn a_long_healthy_download_lives_longer_than_any_attempt_where_it_is_streamed() {
    let body = [b'x'; 60];
    let short = || steady().attempt_timeout(secs(5)).stall_timeout(secs(2));
    // Either because the caller asked for it, or because the buffer was full in time.
    let streamed = client(&short().build().unwrap());
    let spilled = client(&short().response_buffer(3).build().unwrap());
    for (client, stream) in [(streamed, true), (spilled, false)] {
        let server = ScriptedServer::new([Step::dribble(200, &body, secs(1))]);
        let operation = payment(&client, server.url("/report"));
        let operation = if stream {
            operation.stream_answer()
        } else {
            operation
        };
        let (read, took) = timed(async { operation.send().await?.bytes().await }).await;
        assert_eq!(read.unwrap(), &body[..]);
        assert_eq!(took, secs(60));
    }
}

// B66.
#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_ends_after_the_stall_timeout() {
    for way in Way::ALL {
        let policy = steady().response_buffer(20).stall_timeout(secs(4));
        let client = way.client(policy.build().unwrap());
        let server = ScriptedServer::new([Step::stall_in_body(200, 100, 40)]);
        let operation = payment(&client, server.url("/report"));
        let response = operation.send().await.unwrap();
        assert!(!response.is_buffered());
        let (result, took) = timed(response.bytes()).await;
        assert_eq!(took, secs(4));
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Body, Effect::Answered)
        );
        assert_eq!(error.stopped_by(), None);
    }
}

// B66.
#[tokio::test(start_paused = true)]
async fn every_way_to_read_a_streamed_body_ends_after_the_stall_timeout() {
    let policy = steady().stall_timeout(secs(4)).build().unwrap();
    let stalled = Step::stall_in_body(200, 100, 40);
    for way in Way::ALL {
        for keyed in [true, false] {
            let client = way.client(policy.clone());
            let answer = async || {
                let server = ScriptedServer::new([stalled.clone()]);
                let request = client.post(server.url("/report"));
                let sent = if keyed {
                    request.idempotent().stream_answer().send().await
                } else {
                    request.send().await
                };
                (sent.unwrap(), server)
            };
            let what = format!("{way:?}, keyed: {keyed}");
            let (response, _server) = answer().await;
            assert_eq!(stalls(response.text()).await, secs(4), "{what}");
            let (response, _server) = answer().await;
            assert_eq!(stalls(response.bytes()).await, secs(4), "{what}");
            let (response, _server) = answer().await;
            let json = response.json::<serde_json::Value>();
            assert_eq!(stalls(json).await, secs(4), "{what}");
            let (response, _server) = answer().await;
            let chunks = response.bytes_stream().try_collect::<Vec<_>>();
            assert_eq!(stalls(chunks).await, secs(4), "{what}");
        }
    }
}

/// How long a read takes that fails because of silence.
async fn stalls<T: Debug>(read: impl Future<Output = Result<T, Error>>) -> Duration {
    let read = tokio::time::timeout(secs(1000), read);
    let (result, took) = timed(read).await;
    let error = result.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Body);
    took
}

// B66.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_reqwests_own_holds_for_each_attempt() {
    let server = ScriptedServer::new([
        Step::stall_before_headers(),
        Step::stall_in_body(201, 100, 10),
        Step::reply(201, &[], ""),
    ]);
    let client = Client::builder()
        .reqwest(Client::reqwest_defaults().timeout(secs(1)))
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    let operation = payment(&client, server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(hits_at(&server), [0, 1100, 2200]);
    let failures: Vec<_> = response.attempts().iter().map(|a| a.failure()).collect();
    assert_eq!(
        failures,
        [Some(Failure::Timeout), Some(Failure::Stalled), None]
    );
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_nobody_answers_ends_after_the_connect_timeout() {
    // The system accepts the connection; nobody reads from it.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}/payments", silent.local_addr().unwrap());
    let policy = steady().max_attempts(NonZeroU32::MIN.saturating_add(1));
    let operation = payment(&client(&policy.build().unwrap()), url);
    let error = assert_fails(
        &operation,
        ErrorKind::Connect,
        StoppedBy::Attempts,
        ms(3000 + 100 + 3000),
    )
    .await;
    assert!(error.is_timeout());
    assert_eq!(error.effect(), Effect::NotExecuted);
    for attempt in error.attempts() {
        assert_eq!(attempt.failure(), Some(Failure::ConnectTimeout));
        assert_eq!(attempt.reach(), Reach::NeverSent);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_page_that_never_ends_costs_one_second() {
    let server = ScriptedServer::new([
        Step::stall_in_body(503, 1000, 10),
        Step::reply(201, &[], ""),
    ]);
    let client = client(&steady().build().unwrap());
    let (result, took) = timed(payment(&client, server.url("/payments")).send()).await;
    assert_eq!(result.unwrap().status(), 201);
    assert_eq!(took, ms(1100));
}

/// A task that uses up its budget of cooperation on other things is late, and not for ever.
#[tokio::test]
async fn an_attempts_time_ends_in_a_task_that_never_rests() {
    use std::task::Poll;

    use tokio::task::coop;

    let server = ScriptedServer::always(Step::stall_before_headers());
    let policy = RetryPolicy::immediate(1)
        .to_builder()
        .attempt_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let client = Client::builder().policy(policy).build().unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let restless = std::future::poll_fn(|context| {
        while let Poll::Ready(step) = coop::poll_proceed(context) {
            step.made_progress();
        }
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let both = async {
        tokio::select! {
            biased;
            () = restless => unreachable!("it never ends"),
            result = operation.send() => result,
        }
    };
    let result = tokio::time::timeout(Duration::from_secs(10), both).await;
    let error = result.expect("the attempt ends by itself").unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}
