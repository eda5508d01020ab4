//! The deadline: nothing begins after it, nothing outlasts it, and it never takes the place of the cause.

use std::time::Duration;

use idempotency::retry::{Backoff, Failure};
use idempotency::{Client, Effect, ErrorKind, StoppedBy};

use super::assert_fails;
use crate::support::{
    ScriptedServer, Step, Way, client, hits_at, ms, payment, secs, steady, steady_client, timed,
};

// B65.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_to_what_the_deadline_leaves() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::stall_before_headers());
        let client = way.client(steady().deadline(secs(4)).build().unwrap());
        let operation = payment(&client, server.url("/payments"));
        let error =
            assert_fails(&operation, ErrorKind::Timeout, StoppedBy::Deadline, secs(4)).await;
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.is_timeout());
        let attempt = &error.attempts()[0];
        assert_eq!(attempt.failure(), Some(Failure::Timeout));
        assert_eq!((attempt.took(), attempt.wait()), (secs(4), None));
        server.assert_hits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_is_cut_too_and_the_error_keeps_its_own_cause() {
    let server = ScriptedServer::new([
        Step::stall_before_headers(),
        Step::stall_in_body(201, 10, 1),
    ]);
    let client = client(&steady().deadline(secs(12)).build().unwrap());
    let operation = payment(&client, server.url("/payments"));
    let error = assert_fails(
        &operation,
        ErrorKind::Timeout,
        StoppedBy::Deadline,
        secs(12),
    )
    .await;
    let took: Vec<Duration> = error.attempts().iter().map(|a| a.took()).collect();
    assert_eq!(took, [secs(10), ms(1900)]);
    assert_eq!(error.attempts()[1].failure(), Some(Failure::Stalled));
}

// B63.
#[tokio::test(start_paused = true)]
async fn a_wait_that_does_not_fit_is_not_begun() {
    let server = ScriptedServer::always(Step::after(ms(1), Step::reply(503, &[], "busy")));
    let delays = Backoff::from_fn(|retry| [400, 800].get(retry as usize).map(|n| ms(*n)));
    let policy = steady().deadline(secs(1)).backoff(delays);
    let operation = payment(&client(&policy.build().unwrap()), server.url("/payments"));
    let error = assert_fails(
        &operation,
        ErrorKind::Status,
        StoppedBy::Deadline,
        ms(1 + 400 + 1),
    )
    .await;
    assert_eq!(hits_at(&server), [0, 401]);
    assert_eq!(error.status().unwrap(), 503);
    let body = error.into_response().unwrap().text().await.unwrap();
    assert_eq!(body, "busy");
}

// B63.
#[tokio::test(start_paused = true)]
async fn no_fault_makes_an_operation_outlast_its_deadline() {
    let faults = [
        Step::read_then_reset(),
        Step::stall_before_headers(),
        Step::stall_in_body(201, 100, 10),
        Step::stall_in_body(404, 100, 10),
        Step::stall_in_body(503, 100, 10),
        Step::dribble(201, &[b'x'; 1000], ms(333)),
        Step::after(ms(777), Step::reply(503, &[], "")),
        Step::after(ms(777), Step::reply(503, &[("Retry-After", "3")], "")),
        Step::after(ms(777), Step::reply(409, &[("Retry-After", "3")], "")),
    ];
    for deadline in [ms(1), ms(99), ms(100), ms(101), ms(1500), secs(15)] {
        for first in &faults {
            for then in &faults {
                let first_step = first.clone();
                let then_step = then.clone();
                let mut turn = 0;
                let server = ScriptedServer::answering(move |_| {
                    turn += 1;
                    if turn == 1 {
                        first_step.clone()
                    } else {
                        then_step.clone()
                    }
                });
                let operation = payment(shared(), server.url("/payments")).deadline(deadline);
                let (result, took) = timed(operation.send()).await;
                let what = format!("{deadline:?} {first:?} {then:?}");
                assert!(took <= deadline, "{took:?}: {what}");
                match result {
                    Err(error) => {
                        assert_eq!(error.effect(), Effect::Unknown, "{what}");
                        assert!(!error.attempts().is_empty(), "{what}");
                    }
                    // Nobody else can hold a lock under a key that was drawn for this operation.
                    Ok(response) => assert_eq!(response.status(), 409, "{what}"),
                }
            }
        }
    }
}

/// A client that may retry for as long as there is time. Made once, because that takes longer than any of its operations.
fn shared() -> &'static Client {
    static SHARED: std::sync::OnceLock<Client> = std::sync::OnceLock::new();
    SHARED.get_or_init(|| {
        let policy = steady().max_attempts(std::num::NonZeroU32::MAX).no_budget();
        client(&policy.build().unwrap())
    })
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_request_takes_the_place_of_the_policys() {
    let server = ScriptedServer::always(Step::stall_before_headers());
    for deadline in [secs(2), secs(100)] {
        let client = client(&steady().attempt_timeout(secs(500)).build().unwrap());
        let operation = payment(&client, server.url("/payments"));
        assert_fails(
            &operation,
            ErrorKind::Timeout,
            StoppedBy::Deadline,
            secs(60),
        )
        .await;
        let operation = operation.deadline(deadline);
        assert_fails(
            &operation,
            ErrorKind::Timeout,
            StoppedBy::Deadline,
            deadline,
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_send_has_the_whole_deadline() {
    let server = ScriptedServer::always(Step::stall_before_headers());
    let operation = payment(&steady_client(), server.url("/payments")).deadline(secs(7));
    for _ in 0..3 {
        assert_fails(&operation, ErrorKind::Timeout, StoppedBy::Deadline, secs(7)).await;
    }
    server.assert_one_operation(3);
}

// B53.
#[tokio::test(start_paused = true)]
async fn without_a_deadline_an_operation_takes_its_time_within_the_keys_window() {
    let client = client(&steady().no_deadline().build().unwrap());
    let twelve_hours = Step::reply(503, &[("Retry-After", "43200")], "");
    let server = ScriptedServer::new([twelve_hours, Step::reply(201, &[], "")]);
    let (result, took) = timed(payment(&client, server.url("/payments")).send()).await;
    assert_eq!(result.unwrap().status(), 201);
    assert_eq!(took, secs(43_200));

    // By then the server may have forgotten the key.
    let server = ScriptedServer::new([Step::reply(503, &[("Retry-After", "86400")], "")]);
    let operation = payment(&client, server.url("/payments"));
    let error = assert_fails(
        &operation,
        ErrorKind::Status,
        StoppedBy::KeyWindow,
        Duration::ZERO,
    )
    .await;
    assert_eq!(error.retry_after(), Some(secs(86_400)));
}

#[tokio::test(start_paused = true)]
async fn times_beyond_the_clock_are_no_limits() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let policy = steady().deadline(Duration::MAX);
    let policy = policy.attempt_timeout(Duration::MAX).build().unwrap();
    let operation = payment(&client(&policy), server.url("/payments"));
    assert_fails(&operation, ErrorKind::Status, StoppedBy::Attempts, ms(300)).await;
}
