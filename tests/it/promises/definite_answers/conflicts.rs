//! 409 means four things in the field. Which one it is, the contract, the marker and the past decide.

use idempotency::{
    Client, Contract, Effect, ErrorKind, IdempotencyKey, Replay, Response, StoppedBy,
};

use super::Came;
use crate::support::{ScriptedServer, Step, hits_at, payment, steady, steady_client};

const PLAIN: &str = r#"{"error":"email already registered"}"#;

fn conflict(body: &str) -> Step {
    Step::reply(409, &[], body)
}

async fn answer_to_a_payment(client: &Client, server: &ScriptedServer) -> Response {
    payment(client, server.url("/payments"))
        .send()
        .await
        .unwrap()
}

// B38.
#[tokio::test(start_paused = true)]
async fn a_plain_409_that_persists_is_the_answer_where_the_key_was_drawn() {
    let server = ScriptedServer::always(conflict(PLAIN));
    let response = answer_to_a_payment(&steady_client(), &server).await;
    assert_eq!(response.status(), 409);
    assert_eq!(response.report().stopped_by(), Some(StoppedBy::Attempts));
    assert!(!response.followed_unknown());
    server.assert_one_operation(4);
    assert_eq!(hits_at(&server), [0, 100, 200, 300]);
    assert_eq!(response.text().await.unwrap(), PLAIN);
}

#[tokio::test(start_paused = true)]
async fn a_plain_409_that_persists_settles_nothing_where_the_key_was_brought() {
    let server = ScriptedServer::always(conflict(PLAIN));
    let key: IdempotencyKey = "order-17".parse().unwrap();
    let operation = steady_client().post(server.url("/payments"));
    let result = operation.idempotent_with(key).send().await;
    let expected = Came::Nothing(
        ErrorKind::Status,
        Effect::Unknown,
        StoppedBy::Attempts,
        Some(409),
    );
    assert_eq!(Came::to(&result), expected);
    server.assert_one_operation(4);
}

#[tokio::test(start_paused = true)]
async fn a_plain_409_that_passes_costs_an_attempt_like_a_503() {
    let server = ScriptedServer::new([
        conflict("locked"),
        conflict("locked"),
        Step::reply(201, &[], ""),
    ]);
    let response = answer_to_a_payment(&steady_client(), &server).await;
    assert_eq!(response.status(), 201);
    assert!(!response.attempts().iter().any(|attempt| attempt.is_poll()));
    // The 409 spoke of the operation, so something may have been done before this answer.
    assert_eq!(response.replay(), Replay::Unknown);
    assert!(!response.followed_unknown());
    assert_eq!(hits_at(&server), [0, 100, 200]);
}

// B41, B42.
#[tokio::test(start_paused = true)]
async fn a_recognised_mismatch_is_final_whatever_its_status() {
    let reused = r#"{"type":"https://shop.example/errors/idempotency_key_reused"}"#;
    let stripe = r#"{"error":{"type":"idempotency_error"}}"#;
    for (status, body) in [(400, stripe), (409, reused), (422, reused), (422, stripe)] {
        for lost in [false, true] {
            let answer = Step::reply(status, &[("Retry-After", "1")], body);
            let first = lost.then(Step::read_then_reset);
            let server = ScriptedServer::new(first.into_iter().chain([answer]));
            let response = answer_to_a_payment(&steady_client(), &server).await;
            assert_eq!(response.status(), status);
            assert!(response.is_mismatch(), "{status} {body}");
            assert_eq!(response.followed_unknown(), lost);
            server.assert_one_operation(if lost { 2 } else { 1 });
            let error = response.error_for_status().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert_eq!(error.effect(), Effect::Answered);
            let response = error.into_response().unwrap();
            assert_eq!(response.text().await.unwrap(), body);
        }
    }
}

// B121.
#[tokio::test(start_paused = true)]
async fn a_409_with_the_replay_marker_is_the_stored_answer() {
    for lost in [false, true] {
        let stored = Step::reply(409, &[("Idempotent-Replayed", "true")], PLAIN);
        let first = lost.then(Step::read_then_reset);
        let server = ScriptedServer::new(first.into_iter().chain([stored]));
        let response = answer_to_a_payment(&steady_client(), &server).await;
        assert_eq!(response.status(), 409);
        assert!(response.is_replay());
    }
}

#[tokio::test(start_paused = true)]
async fn a_409_that_says_already_done_is_a_replay_without_its_answer() {
    let done = r#"{"error":{"code":"idempotency_replay_unavailable"}}"#;
    let server = ScriptedServer::new([Step::read_then_reset(), conflict(done)]);
    let response = answer_to_a_payment(&steady_client(), &server).await;
    assert_eq!(response.status(), 409);
    assert!(response.is_replay());
    assert!(!response.followed_unknown());
}

// B38, B40.
#[tokio::test(start_paused = true)]
async fn one_line_on_the_contract_makes_409_final() {
    let shop = Contract::builder("shop").conflict_is_final().build();
    let client = Client::builder()
        .contract(shop.unwrap())
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    for lost in [false, true] {
        let first = lost.then(Step::read_then_reset);
        let server = ScriptedServer::new(first.into_iter().chain([conflict(PLAIN)]));
        let response = answer_to_a_payment(&client, &server).await;
        assert_eq!(response.status(), 409);
        assert_eq!(response.followed_unknown(), lost);
        assert_eq!(response.report().stopped_by(), None);
    }
}
