//! The answer is lost; what comes next decides what the caller may believe.

use idempotency::retry::{Failure, Reach};
use idempotency::{Effect, ErrorKind, Replay, StoppedBy};

use crate::support::{ScriptedServer, Step, hits_at, payment, secs, steady_client, timed};

const REPLAYED: &[(&str, &str)] = &[("Idempotent-Replayed", "true")];

#[tokio::test(start_paused = true)]
async fn a_gateway_gives_up_while_the_server_works_on() {
    // 524: the gateway had a connection and no answer in time.
    let server = ScriptedServer::new([
        Step::reply(
            524,
            &[("Content-Type", "text/html")],
            "<html>a timeout</html>",
        ),
        Step::reply(201, REPLAYED, r#"{"id":1}"#),
    ]);
    let response = payment(&steady_client(), server.url("/payments"))
        .send()
        .await
        .unwrap();
    assert!(response.is_replay());
    assert!(!response.followed_unknown());
    assert_eq!(response.attempts()[0].status().unwrap(), 524);
    assert_eq!(response.attempts()[0].reach(), Reach::MaybeProcessed);
    assert_eq!(response.text().await.unwrap(), r#"{"id":1}"#);
    server.assert_one_operation(2);
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_is_lost_and_the_second_is_unauthorized() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::reply(401, &[("WWW-Authenticate", "Bearer")], "token expired"),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
    assert_eq!(error.key(), operation.key());
    let response = error.into_response().unwrap();
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    assert_eq!(response.text().await.unwrap(), "token expired");
    server.assert_one_operation(2);
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_is_lost_and_the_second_is_sent_to_a_login_page() {
    let login = ScriptedServer::always(Step::reply(200, &[], "<html>log in</html>"));
    let location = login.url("/login");
    let server = ScriptedServer::new([
        Step::read_then_reset(),
        Step::reply(302, &[("Location", &location)], ""),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.status().unwrap(), 302);
    let response = error.into_response().unwrap();
    assert_eq!(response.headers()["location"], location);
    server.assert_one_operation(2);
    login.assert_hits(0);
}

#[tokio::test(start_paused = true)]
async fn the_server_is_down() {
    let server = ScriptedServer::new(vec![Step::reply(503, &[], "maintenance"); 4]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server answered 503 Service Unavailable; gave up after 4 requests: \
         all attempts are used up; the operation may have been executed"
    );
    assert_eq!(error.key(), operation.key());
    let response = error.into_response().unwrap();
    assert_eq!(response.text().await.unwrap(), "maintenance");
    assert_eq!(hits_at(&server), [0, 100, 200, 300]);

    // It comes back, and so do we: the same operation.
    let server_key = server.assert_one_operation(4);
    assert_eq!(operation.key().unwrap().as_str(), server_key);
}

// B121.
#[tokio::test(start_paused = true)]
async fn a_stored_500_is_the_answer() {
    for lost in [0, 1] {
        let stored = Step::reply(500, REPLAYED, r#"{"error":"e"}"#);
        let first = std::iter::repeat_n(Step::read_then_reset(), lost);
        let server = ScriptedServer::new(first.chain([stored]));
        let operation = payment(&steady_client(), server.url("/payments"));
        let response = operation.send().await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.replay(), Replay::Replayed);
        server.assert_one_operation(lost + 1);
        let error = response.error_for_status().unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Status, Effect::Answered)
        );
    }
}

// B25.
#[tokio::test(start_paused = true)]
async fn no_byte_of_an_answer_proves_nothing() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::read_then_close(),
        Step::read_then_close(),
        Step::read_then_close(),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    for attempt in error.attempts() {
        assert_eq!(attempt.failure(), Some(Failure::Closed));
        assert_eq!(attempt.reach(), Reach::MaybeProcessed);
    }
}

// B02, B04, B05.
#[tokio::test(start_paused = true)]
async fn the_caller_tries_again_a_minute_later_and_finds_what_the_first_try_did() {
    let server = ScriptedServer::new(
        vec![Step::stall_before_headers(); 4]
            .into_iter()
            .chain([Step::reply(201, REPLAYED, "")]),
    );
    let operation = payment(&steady_client(), server.url("/payments"));
    let (first, took) = timed(operation.send()).await;
    assert_eq!(took.as_millis(), 40_300);
    let error = first.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Timeout, Effect::Unknown)
    );
    tokio::time::sleep(secs(60)).await;
    let response = operation.send().await.unwrap();
    assert!(response.is_replay());
    assert_eq!(response.attempts().len(), 1);
    server.assert_one_operation(5);
}
