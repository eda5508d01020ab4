//! "Still in progress" has many statuses, and a refused key settles nothing.

use idempotency::contract::{AnswerRule, Condition, FailureStorage, Meaning, Statuses};
use idempotency::retry::WaitReason;
use idempotency::{Contract, Effect, ErrorKind, Replay, StoppedBy};

use super::{client, key, named};
use crate::support::{End, ScriptedServer, Step, timed};

fn shop(status: u16, means: Meaning) -> Contract {
    let rule = AnswerRule {
        statuses: Statuses::one(status),
        when: Condition::Always,
        means,
        resource: None,
    };
    let builder = Contract::builder("shop").answer(rule);
    builder.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_status_can_mean_that_the_operation_is_in_progress() {
    for status in [202, 208, 409, 412, 423, 429, 503] {
        let busy = Step::reply(status, &[("retry-after", "1")], "busy");
        let server = ScriptedServer::new([busy.clone(), busy, Step::reply(201, &[], "{}")]);
        let operation = client(shop(status, Meaning::InProgress)).post(server.url("/x"));
        let (response, took) = timed(operation.body("{}").idempotent().send()).await;
        let response = response.unwrap();
        assert_eq!(response.status(), 201, "{status}");
        server.assert_one_operation(3);
        let waits: Vec<_> = response
            .attempts()
            .iter()
            .filter_map(|attempt| attempt.wait())
            .collect();
        assert!(
            waits
                .iter()
                .all(|(_, why)| *why == WaitReason::InProgressHint),
            "{waits:?}"
        );
        assert_eq!(took.as_secs(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_stays_in_progress_behind_a_success_is_no_answer() {
    let server = ScriptedServer::always(Step::reply(208, &[], ""));
    let operation = client(named("picpay")).post(server.url("/x"));
    let error = operation.body("{}").idempotent().send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress);
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.stopped_by(), Some(StoppedBy::InProgressCap));
    assert_eq!(error.status().map(|status| status.as_u16()), Some(208));
}

// RFC 9110, section 15.2: a client takes a 102 for an interim answer and waits for the final one. Where none comes, the attempt is
// lost and the next one asks again.
#[tokio::test(start_paused = true)]
async fn a_102_that_is_all_there_comes_is_a_lost_answer() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::raw(*b"HTTP/1.1 102 Processing\r\n\r\n", End::Close),
        Step::raw(*b"HTTP/1.1 102 Processing\r\n\r\n", End::Hold),
        Step::reply(409, &[], r#"{"id":"p-1"}"#),
    ]);
    let operation = client(named("interchecks")).post(server.url("/payments"));
    let response = operation.body("{}").idempotent().send().await.unwrap();
    assert!(response.is_already_done());
    assert_eq!(response.replay(), Replay::Replayed);
    server.assert_one_operation(4);
}

#[tokio::test]
async fn a_burned_key_after_a_lost_run_is_no_answer_to_the_operation() {
    let fireblocks = named("fireblocks");
    assert_eq!(fireblocks.failures(), FailureStorage::KeyBurned);
    let refused = Step::reply(
        400,
        &[],
        r#"{"message":"cannot reuse after an internal error"}"#,
    );
    for lost in [Step::read_then_close(), Step::reply(500, &[], "")] {
        let server = ScriptedServer::new([lost, refused.clone()]);
        let operation = client(fireblocks.clone())
            .post(server.url("/x"))
            .body("{}")
            .idempotent();
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Status);
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
        assert_eq!(error.key(), operation.key());
        assert_eq!(error.into_response().unwrap().status(), 400);
        server.assert_one_operation(2);
    }
    // A bad request is one: no earlier attempt can have used the key up.
    let server = ScriptedServer::new([refused]);
    let operation = client(fireblocks)
        .post(server.url("/x"))
        .body("{}")
        .idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.replay()),
        (400, Replay::Fresh)
    );
}

#[tokio::test(start_paused = true)]
async fn a_window_of_minutes_ends_the_waiting() {
    let server = ScriptedServer::always(Step::reply(503, &[("retry-after", "200")], ""));
    let policy = idempotency::RetryPolicy::builder()
        .deadline(std::time::Duration::from_secs(3600))
        .build()
        .unwrap();
    let client = idempotency::Client::builder()
        .contract(named("sqs-fifo"))
        .policy(policy)
        .build()
        .unwrap();
    let operation = client
        .post(server.url("/x"))
        .body("{}")
        .idempotent_with(key("k-1"));
    let (error, took) = timed(operation.send()).await;
    let error = error.unwrap_err();
    // 200 s fit into the 5 minutes, 400 s do not.
    assert_eq!(error.stopped_by(), Some(StoppedBy::KeyWindow));
    assert_eq!((server.hits(), took.as_secs()), (2, 200));
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test(start_paused = true)]
async fn the_hints_of_providers_are_followed() {
    for (name, lines, seconds) in [
        (
            "adyen",
            vec![("transient-error", "true"), ("retry-after", "3")],
            Some(3),
        ),
        ("adyen", vec![("transient-error", "false")], None),
        (
            "stripe",
            vec![("stripe-should-retry", "true"), ("retry-after-ms", "1000")],
            Some(1),
        ),
        (
            "increase",
            vec![("x-should-retry", "true"), ("x-ms-retry-after-ms", "2000")],
            Some(2),
        ),
        ("novu", vec![("ratelimit", "\"default\";r=0;t=7")], None),
    ] {
        let server =
            ScriptedServer::new([Step::reply(422, &lines, "{}"), Step::reply(200, &[], "{}")]);
        let operation = client(named(name))
            .post(server.url("/x"))
            .body("{}")
            .idempotent();
        let (response, took) = timed(operation.send()).await;
        let status = response.unwrap().status().as_u16();
        assert_eq!(
            (status, took.as_secs()),
            match seconds {
                Some(seconds) => (200, seconds),
                None => (422, 0),
            },
            "{name} {lines:?}"
        );
        if seconds.is_none() {
            // The step that was left over.
            let rest = client(Contract::generic()).post(server.url("/rest"));
            rest.send().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_is_waited_for_where_nothing_else_is_said() {
    for (lines, seconds) in [
        (vec![("ratelimit", "\"default\";r=0;t=7")], 7),
        (
            vec![("ratelimit", "\"default\";r=0;t=7"), ("retry-after", "2")],
            2,
        ),
        (vec![("ratelimit", "\"default\";r=5;t=7")], 0),
        (vec![("ratelimit", "remaining=0, reset=7")], 0),
    ] {
        let server =
            ScriptedServer::new([Step::reply(429, &lines, ""), Step::reply(200, &[], "{}")]);
        let operation = client(Contract::generic())
            .post(server.url("/x"))
            .idempotent();
        let (response, took) = timed(operation.send()).await;
        assert_eq!(response.unwrap().status(), 200);
        assert_eq!(took.as_secs(), seconds, "{lines:?}");
    }
}
