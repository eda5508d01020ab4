//! What is certain after every kind of failure, and after mixtures of them.

use std::time::Duration;

use idempotency::contract::{AnswerRule, Condition, Meaning, Statuses};
use idempotency::{Client, Contract, Effect, ErrorKind, IdempotentRequest, RetryPolicy, StoppedBy};

use super::Came;
use crate::support::{
    H2Server, H2Step, Refused, ScriptedServer, Step, client, ms, payment, secs, steady,
    steady_client, timed,
};

fn early() -> Step {
    Step::reply(425, &[], "too early")
}

fn no_answer(kind: ErrorKind, effect: Effect) -> Came {
    Came::Nothing(kind, effect, StoppedBy::Attempts, None)
}

fn status(status: u16, effect: Effect) -> Came {
    Came::Nothing(ErrorKind::Status, effect, StoppedBy::Attempts, Some(status))
}

/// Four attempts, and what they come to under a drawn key.
async fn assert_comes_to(contract: &Contract, steps: [Step; 4], expected: Came) {
    let story = format!("{steps:?}");
    let server = ScriptedServer::new(steps);
    let client = Client::builder()
        .contract(contract.clone())
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    let operation = payment(&client, server.url("/payments"));
    let result = operation.send().await;
    assert_eq!(Came::to(&result), expected, "{story}");
    let key = server.assert_one_operation(4);
    let in_hand = match &result {
        Ok(response) => response.idempotency_key(),
        Err(error) => error.key(),
    };
    assert_eq!(in_hand, operation.key(), "{story}");
    assert_eq!(in_hand.map(|key| key.as_str()), Some(&*key), "{story}");
}

#[tokio::test(start_paused = true)]
async fn an_error_proves_that_nothing_happened_only_where_every_attempt_does() {
    use Effect::{NotExecuted, Unknown};
    let again = |step: Step| [step.clone(), step.clone(), step.clone(), step];
    let busy = || Step::reply(503, &[], "busy");
    let generic = Contract::generic();
    for (steps, expected) in [
        (again(early()), status(425, NotExecuted)),
        (again(busy()), status(503, Unknown)),
        (
            again(Step::read_then_close()),
            no_answer(ErrorKind::Connection, Unknown),
        ),
        (
            again(Step::read_then_reset()),
            no_answer(ErrorKind::Connection, Unknown),
        ),
        (
            again(Step::half_status_line()),
            no_answer(ErrorKind::Connection, Unknown),
        ),
        (
            again(Step::cut_fixed(201, 100, 10)),
            no_answer(ErrorKind::Connection, Unknown),
        ),
        (
            again(Step::garbage("SSH-2.0-server\r\n\r\n")),
            no_answer(ErrorKind::Protocol, Unknown),
        ),
        (
            again(Step::stall_before_headers()),
            no_answer(ErrorKind::Timeout, Unknown),
        ),
        (
            again(Step::stall_in_body(201, 100, 10)),
            no_answer(ErrorKind::Timeout, Unknown),
        ),
        // One attempt of unknown outcome anywhere, and no later one takes that back.
        ([busy(), early(), early(), early()], status(425, Unknown)),
        (
            [early(), Step::read_then_reset(), early(), early()],
            status(425, Unknown),
        ),
        (
            [early(), early(), Step::stall_before_headers(), early()],
            status(425, Unknown),
        ),
        ([early(), early(), early(), busy()], status(503, Unknown)),
        // A 409 that names no reason speaks of the operation, so something was looked at.
        (
            [Step::reply(409, &[], "no"), early(), early(), early()],
            status(425, Unknown),
        ),
        // And an answer ends every doubt.
        (
            [
                busy(),
                early(),
                Step::read_then_close(),
                Step::reply(201, &[], ""),
            ],
            Came::Answer(201, None),
        ),
    ] {
        assert_comes_to(&generic, steps, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_contract_can_say_that_an_answer_means_not_executed() {
    use Effect::{NotExecuted, Unknown};
    let stripe = Contract::stripe();
    let limited = || Step::reply(429, &[], r#"{"error":{"code":"rate_limit"}}"#);
    let locked = || Step::reply(429, &[], r#"{"error":{"code":"lock_timeout"}}"#);
    let shop = Contract::builder("shop")
        .answer(AnswerRule {
            statuses: Statuses::one(503),
            when: Condition::Header {
                name: "x-shed".into(),
                value: None,
            },
            means: Meaning::NotExecuted,
            resource: None,
        })
        .build()
        .unwrap();
    let shed = || Step::reply(503, &[("X-Shed", "1")], "");
    for (contract, steps, expected) in [
        (
            &stripe,
            [limited(), limited(), limited(), limited()],
            status(429, NotExecuted),
        ),
        (
            &stripe,
            [limited(), early(), limited(), early()],
            status(425, NotExecuted),
        ),
        (
            &stripe,
            [limited(), locked(), limited(), limited()],
            status(429, Unknown),
        ),
        (
            &shop,
            [shed(), early(), shed(), shed()],
            status(503, NotExecuted),
        ),
        (
            &shop,
            [shed(), Step::reply(503, &[], ""), shed(), shed()],
            status(503, Unknown),
        ),
        // The generic contract knows no such promise.
        (
            &Contract::generic(),
            [limited(), limited(), limited(), limited()],
            status(429, Unknown),
        ),
    ] {
        assert_comes_to(contract, steps, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_proves_that_nothing_was_sent() {
    let nobody = Refused::new();
    let operation = payment(&steady_client(), nobody.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    assert_eq!(
        Came::to(&result),
        no_answer(ErrorKind::Connect, Effect::NotExecuted)
    );
    let error = result.unwrap_err();
    assert_eq!(error.key(), operation.key());
    assert_eq!((error.attempts().len(), took), (4, ms(300)));
}

// B26, B27.
#[tokio::test(start_paused = true)]
async fn http2_says_what_it_did_not_process() {
    use Effect::{NotExecuted, Unknown};
    let refused = H2Step::refuse_stream;
    let gone = || H2Step::goaway_below(h2::Reason::NO_ERROR);
    let reset = || H2Step::reset(h2::Reason::INTERNAL_ERROR);
    for (steps, kind, effect) in [
        (
            [refused(), refused(), refused(), refused()],
            ErrorKind::Refused,
            NotExecuted,
        ),
        (
            [gone(), refused(), gone(), gone()],
            ErrorKind::Refused,
            NotExecuted,
        ),
        (
            [refused(), reset(), refused(), refused()],
            ErrorKind::Refused,
            Unknown,
        ),
        (
            [refused(), refused(), refused(), reset()],
            ErrorKind::Connection,
            Unknown,
        ),
    ] {
        let story = format!("{steps:?}");
        let server = H2Server::new(steps);
        let client = Client::builder()
            .reqwest(Client::reqwest_defaults().http2_prior_knowledge())
            .policy(steady().build().unwrap())
            .build()
            .unwrap();
        let result = payment(&client, server.url("/payments")).send().await;
        assert_eq!(Came::to(&result), no_answer(kind, effect), "{story}");
        let keys = server.keys();
        assert!(keys.iter().all(|key| *key == keys[0]), "{story}");
        assert_eq!((keys.len(), keys[0].len()), (4, 1), "{story}");
    }
}

/// The next `send` of an operation whose server only says "too early".
async fn effect_of_the_next(operation: &IdempotentRequest) -> Effect {
    operation.send().await.unwrap_err().effect()
}

fn one_attempt() -> RetryPolicy {
    RetryPolicy::immediate(1)
}

#[tokio::test(start_paused = true)]
async fn an_earlier_send_of_the_same_value_counts() {
    for (first, expected) in [
        (early(), Effect::NotExecuted),
        (Step::reply(503, &[], ""), Effect::Unknown),
        (Step::read_then_reset(), Effect::Unknown),
        (Step::reply(201, &[], ""), Effect::Unknown),
    ] {
        let story = format!("{first:?}");
        let server = ScriptedServer::new([first, early()]);
        let operation = payment(&client(&one_attempt()), server.url("/payments"));
        let _ = operation.send().await;
        assert_eq!(effect_of_the_next(&operation).await, expected, "{story}");
        server.assert_one_operation(2);
    }
}

async fn give_up_after(patience: Duration, operation: &IdempotentRequest) {
    assert!(
        tokio::time::timeout(patience, operation.send())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_in_flight_counts_and_one_dropped_before_or_between_attempts_does_not()
 {
    let server = ScriptedServer::new([Step::stall_before_headers(), early()]);
    let operation = payment(&client(&one_attempt()), server.url("/payments"));
    drop(operation.send());
    give_up_after(ms(50), &operation).await;
    assert_eq!(effect_of_the_next(&operation).await, Effect::Unknown);
    server.assert_one_operation(2);

    let server = ScriptedServer::always(early());
    let operation = payment(&steady_client(), server.url("/payments"));
    drop(operation.send());
    give_up_after(ms(150), &operation).await;
    server.assert_one_operation(2);
    assert_eq!(effect_of_the_next(&operation).await, Effect::NotExecuted);
    server.assert_one_operation(6);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_still_under_way_counts() {
    let server = ScriptedServer::new([
        Step::after(secs(5), early()),
        early(),
        Step::after(secs(5), early()),
    ]);
    let operation = payment(&client(&one_attempt()), server.url("/payments"));
    let slow = tokio::spawn(operation.send());
    server.until_hits(1).await;
    assert_eq!(effect_of_the_next(&operation).await, Effect::Unknown);
    // The slow one ended as proof, too: nothing is left in doubt.
    assert_eq!(
        slow.await.unwrap().unwrap_err().effect(),
        Effect::NotExecuted
    );
    assert_eq!(effect_of_the_next(&operation).await, Effect::NotExecuted);
}
