//! The retry meets the first attempt, or what it left behind.

use idempotency::{Client, Contract, Effect, ErrorKind, Replay, StoppedBy};

use crate::support::{
    ScriptedServer, Step, client, hits_at, ms, payment, secs, steady, steady_client, timed,
};

const REPLAYED: &[(&str, &str)] = &[("Idempotent-Replayed", "true")];

/// A server that works for some time, says 409 in plain text to whoever asks meanwhile, and keeps its answer.
fn plain_server(works_for: std::time::Duration) -> ScriptedServer {
    let mut begun = None;
    ScriptedServer::answering(move |arrival| match begun {
        None => {
            begun = Some(arrival.at);
            Step::after(works_for, Step::reply(201, &[], r#"{"id":1}"#))
        }
        Some(begun) if arrival.at < begun + works_for => {
            let text = [("Content-Type", "text/plain")];
            Step::reply(409, &text, "request is being processed")
        }
        Some(_) => Step::reply(201, REPLAYED, r#"{"id":1}"#),
    })
}

// B39.
#[tokio::test(start_paused = true)]
async fn a_time_out_then_409_in_plain_text_for_five_seconds_then_the_stored_201() {
    let server = plain_server(secs(15));
    let operation = payment(&steady_client(), server.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    let response = result.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.replay(), Replay::Replayed);
    assert!(!response.followed_unknown());
    assert_eq!(took, ms(17_600));
    assert_eq!(
        hits_at(&server),
        [0, 10_100, 10_600, 11_600, 13_600, 17_600]
    );
    server.assert_one_operation(6);
    assert_eq!(
        shown(response.attempts()),
        [
            "attempt 1: no answer within the attempt's time, maybe processed, 10s; waited 100ms (backoff)",
            "attempt 2: 409, maybe processed, 0ns; waited 500ms (in progress)",
            "poll 3: 409, maybe processed, 0ns; waited 1s (in progress)",
            "poll 4: 409, maybe processed, 0ns; waited 2s (in progress)",
            "poll 5: 409, maybe processed, 0ns; waited 4s (in progress)",
            "poll 6: 201, answered, 0ns",
        ]
    );
    assert_eq!(response.text().await.unwrap(), r#"{"id":1}"#);
}

fn shown(attempts: &[idempotency::Attempt]) -> Vec<String> {
    attempts.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn two_sends_of_one_operation_at_the_same_time_come_to_the_same_answer() {
    let server = plain_server(secs(4));
    let operation = payment(&steady_client(), server.url("/payments"));
    let slow = tokio::spawn(operation.send());
    server.until_hits(1).await;
    let second = operation.send().await.unwrap();
    let first = slow.await.unwrap().unwrap();
    assert_eq!(
        (first.status(), second.status()),
        (201.try_into().unwrap(), 201.try_into().unwrap())
    );
    // Each is marked as what the server says of it; without a word neither is called fresh.
    assert_eq!(first.replay(), Replay::Unknown);
    assert_eq!(second.replay(), Replay::Replayed);
    server.assert_one_operation(6);
    assert_eq!(hits_at(&server), [0, 0, 500, 1500, 3500, 7500]);
}

// B39.
#[tokio::test(start_paused = true)]
async fn a_time_out_then_a_problem_document_that_says_in_progress_then_the_stored_201() {
    let problem = [
        ("Content-Type", "application/problem+json"),
        ("Retry-After", "1"),
    ];
    let in_progress = r#"{"type":"https://shop.example/problems/idempotency-in-progress"}"#;
    let server = ScriptedServer::new([
        Step::after(secs(3), Step::reply(201, &[], "")),
        Step::reply(409, &problem, in_progress),
        Step::reply(201, REPLAYED, ""),
    ]);
    let impatient = steady().attempt_timeout(secs(1)).build().unwrap();
    let operation = payment(&client(&impatient), server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert!(response.is_replay());
    server.assert_one_operation(3);
    assert_eq!(hits_at(&server), [0, 1100, 2100]);
}

// B38.
#[tokio::test(start_paused = true)]
async fn a_business_conflict_at_once() {
    let taken = r#"{"error":"email already registered"}"#;
    let server = ScriptedServer::always(Step::reply(409, &[], taken));
    let response = payment(&steady_client(), server.url("/users"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 409);
    assert!(!response.followed_unknown());
    assert_eq!(hits_at(&server), [0, 100, 200, 300]);
    assert_eq!(response.text().await.unwrap(), taken);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_attempt_409_for_ever() {
    let mut first = true;
    let server = ScriptedServer::answering(move |_| {
        if std::mem::take(&mut first) {
            Step::read_then_reset()
        } else {
            Step::reply(409, &[], "conflict")
        }
    });
    let operation = payment(&steady_client(), server.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress);
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.stopped_by(), Some(StoppedBy::InProgressCap));
    assert_eq!(took, ms(100 + 27_500));
    assert_eq!(
        error.to_string(),
        "the server answered 409 Conflict: the operation is still in progress; \
         gave up after 10 requests: the time for waiting is up; the operation may have been executed"
    );
    server.assert_one_operation(10);
}

// B40.
#[tokio::test(start_paused = true)]
async fn a_create_meets_its_own_already_exists() {
    let final_conflicts = Contract::builder("shop").conflict_is_final().build();
    let shop = Client::builder()
        .contract(final_conflicts.unwrap())
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    for (client, status) in [(steady_client(), 422), (shop, 409)] {
        let exists = r#"{"error":"exists"}"#;
        let server =
            ScriptedServer::new([Step::read_then_reset(), Step::reply(status, &[], exists)]);
        let response = payment(&client, server.url("/orders"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), status);
        assert!(response.followed_unknown());
        assert_eq!(response.replay(), Replay::Unknown);
        assert!(!response.is_mismatch());
        server.assert_one_operation(2);
    }

    // Without a lost attempt before it, somebody else made what exists.
    let server = ScriptedServer::new([Step::reply(422, &[], r#"{"error":"exists"}"#)]);
    let response = payment(&steady_client(), server.url("/orders"))
        .send()
        .await
        .unwrap();
    assert!(!response.followed_unknown());
    assert_eq!(response.replay(), Replay::Fresh);
}
