//! Waiting for an operation that runs under our key.

use std::num::NonZeroU32;
use std::time::Duration;

use idempotency::retry::{RetryBudget, WaitReason};
use idempotency::{Effect, ErrorKind, IdempotentRequest, Replay, RetryPolicy, StoppedBy};

use super::Came;
use crate::support::{
    ScriptedServer, Step, client, hits_at, ms, payment, secs, steady, steady_client, timed,
};

/// What a server says that knows the key and names the reason.
fn in_use(headers: &[(&str, &str)]) -> Step {
    let body = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    Step::reply(409, headers, body)
}

fn created() -> Step {
    Step::reply(201, &[("Idempotent-Replayed", "true")], r#"{"id":1}"#)
}

fn gave_up(limit: StoppedBy) -> Came {
    Came::Nothing(ErrorKind::InProgress, Effect::Unknown, limit, Some(409))
}

/// Asserts what the operation came to, and how long that took.
async fn assert_ends(operation: &IdempotentRequest, expected: Came, after: Duration) {
    let (result, took) = timed(operation.send()).await;
    assert_eq!((Came::to(&result), took), (expected, after));
}

#[tokio::test(start_paused = true)]
async fn polls_come_after_half_a_second_doubling_to_five_until_thirty_have_passed() {
    let server = ScriptedServer::always(in_use(&[]));
    let operation = payment(&steady_client(), server.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    assert_eq!(Came::to(&result), gave_up(StoppedBy::InProgressCap));
    assert_eq!(took, ms(27_500));
    server.assert_one_operation(9);
    assert_eq!(
        hits_at(&server),
        [0, 500, 1500, 3500, 7500, 12_500, 17_500, 22_500, 27_500]
    );
    let error = result.unwrap_err();
    let polls: Vec<bool> = error.attempts().iter().map(|a| a.is_poll()).collect();
    assert_eq!(
        polls,
        [false, true, true, true, true, true, true, true, true]
    );
    let (_, why) = error.attempts()[0].wait().unwrap();
    assert_eq!(why, WaitReason::InProgress);
    let body = error.into_response().unwrap().text().await.unwrap();
    assert_eq!(body, r#"{"error":{"code":"idempotency_key_in_use"}}"#);
}

#[tokio::test(start_paused = true)]
async fn polls_cost_neither_attempts_nor_budget() {
    let policy = steady()
        .max_attempts(NonZeroU32::MIN)
        .budget(RetryBudget::new(0, 0));
    let client = client(&policy.build().unwrap());
    let steps = std::iter::repeat_n(in_use(&[]), 5).chain([created()]);
    let server = ScriptedServer::new(steps);
    let operation = payment(&client, server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(response.replay(), Replay::Replayed);
    server.assert_one_operation(6);
}

#[tokio::test(start_paused = true)]
async fn the_servers_hint_says_when_to_ask_again() {
    let server = ScriptedServer::new([
        in_use(&[("Retry-After", "7")]),
        in_use(&[("retry-after-ms", "250")]),
        // Zero is no time to wait: our own interval is the floor.
        in_use(&[("Retry-After", "0")]),
        created(),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(hits_at(&server), [0, 7000, 7250, 9250]);
    let waits: Vec<_> = response
        .attempts()
        .iter()
        .filter_map(|a| a.wait())
        .collect();
    assert_eq!(
        waits,
        [
            (secs(7), WaitReason::InProgressHint),
            (ms(250), WaitReason::InProgressHint),
            (secs(2), WaitReason::InProgress),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_no_limit_leaves_room_for_ends_the_wait_at_once() {
    let hour = || ScriptedServer::always(in_use(&[("Retry-After", "3600")]));
    let capped = steady().max_wait(secs(60)).build().unwrap();
    let patient = steady().in_progress_cap(secs(7200)).build().unwrap();
    for (policy, limit) in [
        (steady().build().unwrap(), StoppedBy::InProgressCap),
        (capped, StoppedBy::WaitTooLong),
        (patient, StoppedBy::Deadline),
    ] {
        let server = hour();
        let operation = payment(&client(&policy), server.url("/payments"));
        let (result, took) = timed(operation.send()).await;
        assert_eq!(Came::to(&result), gave_up(limit));
        assert_eq!(took, Duration::ZERO);
        assert_eq!(result.unwrap_err().retry_after(), Some(secs(3600)));
        server.assert_hits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_exactly_the_cap_is_obeyed() {
    let server = ScriptedServer::new([in_use(&[("Retry-After", "30")]), created()]);
    let operation = payment(&steady_client(), server.url("/payments"));
    assert_ends(&operation, Came::Answer(201, None), secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_for_the_wait_too() {
    let server = ScriptedServer::always(in_use(&[]));
    let operation = payment(&steady_client(), server.url("/payments")).deadline(secs(5));
    assert_ends(&operation, gave_up(StoppedBy::Deadline), ms(3500)).await;
    assert_eq!(hits_at(&server), [0, 500, 1500, 3500]);
}

#[tokio::test(start_paused = true)]
async fn the_cap_counts_from_the_first_such_answer() {
    // The first attempt is lost after ten seconds: they are no waiting for an operation in progress.
    let slow = Step::stall_before_headers();
    let steps = [slow].into_iter().chain(vec![in_use(&[]); 9]);
    let server = ScriptedServer::new(steps);
    let operation = payment(&steady_client(), server.url("/payments"));
    assert_ends(
        &operation,
        gave_up(StoppedBy::InProgressCap),
        ms(10_000 + 100 + 27_500),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cap_of_zero_does_not_wait() {
    let server = ScriptedServer::new([in_use(&[])]);
    let client = client(&RetryPolicy::never());
    let operation = payment(&client, server.url("/payments"));
    assert_ends(
        &operation,
        gave_up(StoppedBy::InProgressCap),
        Duration::ZERO,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_lost_is_followed_by_a_retry() {
    let server = ScriptedServer::new([
        in_use(&[]),
        Step::read_then_reset(),
        Step::reply(503, &[], ""),
        in_use(&[]),
        created(),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert!(response.is_replay());
    // Half a second for the first poll, two backoffs, one second for the second poll.
    assert_eq!(hits_at(&server), [0, 500, 600, 700, 1700]);
    let polls: Vec<bool> = response.attempts().iter().map(|a| a.is_poll()).collect();
    assert_eq!(polls, [false, true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn polls_and_lost_polls_for_ever_come_to_an_end() {
    let mut turn = false;
    let server = ScriptedServer::answering(move |_| {
        turn = !turn;
        if turn {
            in_use(&[])
        } else {
            Step::reply(503, &[], "")
        }
    });
    let operation = payment(&steady_client(), server.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    let expected = Came::Nothing(
        ErrorKind::Status,
        Effect::Unknown,
        StoppedBy::Attempts,
        Some(503),
    );
    assert_eq!(Came::to(&result), expected);
    assert_eq!(took, ms(500 + 100 + 1000 + 100 + 2000 + 100 + 4000));
    server.assert_one_operation(8);
}
