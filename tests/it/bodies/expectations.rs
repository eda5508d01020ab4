//! `Expect: 100-continue` is the caller's affair. Refused with 417, the request is sent once more without it (RFC 9110,
//! section 10.1.1).

use std::time::Duration;

use idempotency::{Client, Effect, ErrorKind, RequestBuilder, RetryPolicy, StoppedBy};

use crate::promises::story;
use crate::support::{ScriptedServer, Step, Way, header_lines, timed};

fn client(way: Way) -> Client {
    way.client(RetryPolicy::immediate(4))
}

fn expecting(client: &Client, server: &ScriptedServer) -> RequestBuilder {
    let request = client.post(server.url("/payments")).body("amount=100");
    request.header("expect", "100-continue")
}

/// The `Expect` lines of every attempt.
fn expected(server: &ScriptedServer) -> Vec<Vec<String>> {
    let lines = |arrival| {
        let lines = header_lines(&arrival, "expect");
        lines.into_iter().map(str::to_owned).collect()
    };
    server.arrivals().into_iter().map(lines).collect()
}

// B23.
#[tokio::test(start_paused = true)]
async fn a_refused_expectation_is_left_out_and_the_operation_goes_on() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::expectation_failed(),
            Step::reply(503, &[], ""),
            Step::reply(201, &[], ""),
        ]);
        let response = expecting(&client(way), &server)
            .idempotent()
            .send()
            .await
            .unwrap();
        assert_eq!(
            story(response.attempts()),
            ["417, answered", "503, maybe processed", "201, answered"]
        );
        assert_eq!(expected(&server), [&["100-continue"][..], &[], &[]]);
        server.assert_one_operation(3);
    }
}

// B23.
#[tokio::test(start_paused = true)]
async fn the_expectation_is_left_out_once() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::expectation_failed());
        let response = expecting(&client(way), &server)
            .idempotent()
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 417);
        assert_eq!(expected(&server), [&["100-continue"][..], &[]]);
        server.assert_one_operation(2);
    }
}

// B23.
#[tokio::test(start_paused = true)]
async fn without_an_expectation_of_the_callers_417_is_an_answer() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::expectation_failed());
        let client = client(way);
        let response = client
            .post(server.url("/"))
            .idempotent()
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 417);
        assert_eq!(
            client.put(server.url("/")).send().await.unwrap().status(),
            417
        );
        assert_eq!(expected(&server), [[""; 0]; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_expectation_repeats_no_unsafe_request_without_a_key() {
    for way in Way::ALL {
        let client = client(way);
        let server = ScriptedServer::always(Step::expectation_failed());
        let response = expecting(&client, &server).send().await.unwrap();
        assert_eq!(response.status(), 417);
        assert_eq!(
            response.report().stopped_by(),
            Some(StoppedBy::UnsafeWithoutKey)
        );
        server.assert_hits(1);

        let server = ScriptedServer::new([Step::expectation_failed(), Step::reply(200, &[], "")]);
        let request = client.put(server.url("/")).header("expect", "100-continue");
        assert_eq!(request.send().await.unwrap().status(), 200);
        assert_eq!(expected(&server), [&["100-continue"][..], &[]]);
    }
}

// B23.
#[tokio::test(start_paused = true)]
async fn an_expectation_that_is_met_or_passed_over_changes_nothing() {
    for way in Way::ALL {
        let client = client(way);
        for step in [
            Step::continue_then(Step::reply(201, &[], "")),
            Step::reply(201, &[], ""),
            Step::reply_early(422, &[], ""),
        ] {
            let server = ScriptedServer::new([step]);
            let (result, took) = timed(expecting(&client, &server).idempotent().send()).await;
            assert!(result.unwrap().status().as_u16() > 200);
            assert_eq!(took, Duration::ZERO);
            assert_eq!(expected(&server), [["100-continue"]]);
        }
    }
}

// B23.
#[tokio::test(start_paused = true)]
async fn a_server_that_meets_the_expectation_with_silence_has_the_attempts_time() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::stall_before_headers());
        let operation = expecting(&client(way), &server).idempotent();
        let (result, took) = timed(operation.send()).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Unknown)
        );
        assert_eq!(took, Duration::from_secs(40));
        assert_eq!(expected(&server), [["100-continue"]; 4]);
        server.assert_one_operation(4);
    }
}
