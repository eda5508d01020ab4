//! How many attempts there are: exactly as many as the policy says, the first included.

use std::num::NonZeroU32;

use idempotency::retry::Backoff;
use idempotency::{Client, ErrorKind, RetryPolicy, StoppedBy};

use super::assert_fails;
use crate::support::{ScriptedServer, Step, client, hits_at, ms, payment, steady};

async fn assert_attempts(policy: &RetryPolicy, attempts: u64) {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let operation = payment(&client(policy), server.url("/payments"));
    let error = assert_fails(
        &operation,
        ErrorKind::Status,
        StoppedBy::Attempts,
        ms(100) * u32::try_from(attempts - 1).unwrap(),
    )
    .await;
    assert_eq!(error.attempts().len() as u64, attempts);
    server.assert_one_operation(usize::try_from(attempts).unwrap());
}

// B69.
#[tokio::test(start_paused = true)]
async fn the_number_of_attempts_includes_the_first() {
    for attempts in [1, 2, 3, 7] {
        let policy = steady().max_attempts(NonZeroU32::new(attempts).unwrap());
        assert_attempts(&policy.build().unwrap(), attempts.into()).await;
    }
}

// B69.
#[tokio::test(start_paused = true)]
async fn the_default_is_four() {
    assert_attempts(&steady().build().unwrap(), 4).await;
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let client = Client::builder().build().unwrap();
    let error = payment(&client, server.url("/payments")).send().await;
    assert_eq!(error.unwrap_err().stopped_by(), Some(StoppedBy::Attempts));
    server.assert_one_operation(4);
}

// B69.
#[tokio::test(start_paused = true)]
async fn the_policy_that_never_retries_sends_once() {
    assert_attempts(&RetryPolicy::never(), 1).await;
}

// B69.
#[tokio::test(start_paused = true)]
async fn four_billion_attempts_end_at_the_deadline() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let policy = steady().max_attempts(NonZeroU32::MAX).no_budget();
    let operation = payment(&client(&policy.build().unwrap()), server.url("/payments"));
    assert_fails(
        &operation,
        ErrorKind::Status,
        StoppedBy::Deadline,
        ms(59_900),
    )
    .await;
    server.assert_hits(600);
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_gives_up_says_so() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let backoff = Backoff::from_fn(|retry| [20, 30].get(retry as usize).map(|n| ms(*n)));
    let policy = steady().backoff(backoff).build().unwrap();
    let operation = payment(&client(&policy), server.url("/payments"));
    assert_fails(&operation, ErrorKind::Status, StoppedBy::Backoff, ms(50)).await;
    assert_eq!(hits_at(&server), [0, 20, 50]);
}
