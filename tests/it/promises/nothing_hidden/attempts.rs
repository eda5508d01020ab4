//! The list of attempts.

use std::time::Duration;

use idempotency::retry::{Failure, Reach, WaitReason};
use idempotency::{Attempt, Report};

use crate::support::{
    PAUSE, ScriptedServer, Step, Way, client, ms, payment, secs, steady, steady_client,
};

const REPLAYED: &[(&str, &str)] = &[("Idempotent-Replayed", "true")];

/// A run in which nearly everything happens, one after the other.
fn mixed_run() -> [Step; 8] {
    let in_use = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    [
        Step::reply(425, &[], ""),
        Step::after(ms(30), Step::reply(503, &[("Retry-After", "2")], "busy")),
        Step::stall_before_headers(),
        Step::stall_in_body(201, 100, 10),
        Step::after(ms(7), Step::read_then_reset()),
        Step::reply(409, &[], "plain"),
        Step::reply(409, &[("Retry-After", "3")], in_use),
        Step::after(ms(12), Step::reply(201, REPLAYED, r#"{"id":1}"#)),
    ]
}

const MIXED_RUN: [&str; 8] = [
    "attempt 1: 425, not processed, 0ns; waited 100ms (backoff)",
    "attempt 2: 503, maybe processed, 30ms; waited 2s (the server's hint)",
    "attempt 3: no answer within the attempt's time, maybe processed, 10s; waited 100ms (backoff)",
    "attempt 4: 201, the answer did not end within the attempt's time, maybe processed, 10s; waited 100ms (backoff)",
    "attempt 5: the connection was reset before an answer, maybe processed, 7ms; waited 100ms (backoff)",
    "attempt 6: 409, maybe processed, 0ns; waited 500ms (in progress)",
    "poll 7: 409, maybe processed, 0ns; waited 3s (in progress, the server's hint)",
    "poll 8: 201, answered, 12ms",
];

fn shown(attempts: &[Attempt]) -> Vec<String> {
    attempts.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_mixed_run_is_told_attempt_by_attempt() {
    for way in Way::ALL {
        let server = ScriptedServer::new(mixed_run());
        let policy = steady().max_attempts(std::num::NonZeroU32::MAX);
        let client = way.client(policy.build().unwrap());
        let operation = payment(&client, server.url("/payments"));
        let response = operation.send().await.unwrap();
        let attempts = response.attempts();
        assert_eq!(shown(attempts), MIXED_RUN, "{way:?}");

        let numbers: Vec<u32> = attempts.iter().map(Attempt::number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        let polls: Vec<u32> = (attempts.iter().filter(|a| a.is_poll()))
            .map(Attempt::number)
            .collect();
        assert_eq!(polls, [7, 8]);

        // Each begins when the wait before it ends, which is when the server saw it.
        let arrivals = server.arrivals();
        let mut next = Duration::ZERO;
        for (attempt, hit) in attempts.iter().zip(&arrivals) {
            assert_eq!(attempt.began(), next, "{attempt}");
            assert_eq!(hit.at - arrivals[0].at, next, "{attempt}");
            next += attempt.took() + attempt.wait().map_or(Duration::ZERO, |wait| wait.0);
        }

        // Through reqwest's own type, too.
        let response = response.into_reqwest();
        let report = Report::of(&response).unwrap();
        assert_eq!(shown(report.attempts()), MIXED_RUN, "{way:?}");
        assert!(report.replay() == idempotency::Replay::Replayed && report.is_buffered());
        assert_eq!(report.stopped_by(), None);
        assert_eq!(report.idempotency_key(), operation.key());
    }
}

#[tokio::test(start_paused = true)]
async fn the_facts_of_an_attempt_can_be_had_one_by_one() {
    let server = ScriptedServer::new([
        Step::stall_in_body(201, 100, 10),
        Step::reply(503, &[("Retry-After", "2")], ""),
        Step::reply(201, &[], ""),
    ]);
    let response = payment(&steady_client(), server.url("/payments"))
        .send()
        .await
        .unwrap();
    let [stalled, busy, last] = response.attempts() else {
        panic!("three attempts");
    };
    assert_eq!(stalled.status().unwrap(), 201);
    assert_eq!(stalled.failure(), Some(Failure::Stalled));
    assert_eq!(stalled.reach(), Reach::MaybeProcessed);
    assert_eq!(
        (stalled.began(), stalled.took()),
        (Duration::ZERO, secs(10))
    );
    assert_eq!(stalled.wait(), Some((PAUSE, WaitReason::Backoff)));

    assert_eq!(
        (busy.status().unwrap().as_u16(), busy.failure()),
        (503, None)
    );
    assert_eq!(busy.wait(), Some((secs(2), WaitReason::ServerHint)));

    assert_eq!(
        (last.status().unwrap().as_u16(), last.failure()),
        (201, None)
    );
    assert_eq!(last.reach(), Reach::Answered);
    assert_eq!((last.began(), last.took()), (ms(12_100), Duration::ZERO));
    assert_eq!(last.wait(), None);
}

// B79.
#[tokio::test(start_paused = true)]
async fn exhausted_retries_keep_the_last_answer_and_the_whole_history() {
    let server = ScriptedServer::new([
        Step::reply(500, &[], r#"{"e":"x"}"#),
        Step::read_then_reset(),
        Step::reply(503, &[("X-Shop", "1")], r#"{"e":"y"}"#),
    ]);
    let three = std::num::NonZeroU32::MIN.saturating_add(2);
    let client = client(&steady().max_attempts(three).build().unwrap());
    let operation = payment(&client, server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server answered 503 Service Unavailable; gave up after 3 requests: \
         all attempts are used up; the operation may have been executed"
    );
    assert_eq!(
        shown(error.attempts()),
        [
            "attempt 1: 500, maybe processed, 0ns; waited 100ms (backoff)",
            "attempt 2: the connection was reset before an answer, maybe processed, 0ns; waited 100ms (backoff)",
            "attempt 3: 503, maybe processed, 0ns",
        ]
    );
    assert_eq!(error.key(), operation.key());
    let response = error.into_response().unwrap();
    assert_eq!(response.headers()["x-shop"], "1");
    assert_eq!(response.attempts().len(), 3);
    assert_eq!(response.text().await.unwrap(), r#"{"e":"y"}"#);
}

// B79.
#[tokio::test(start_paused = true)]
async fn an_answer_of_an_earlier_attempt_is_no_last_answer() {
    let server = ScriptedServer::new([
        Step::reply(500, &[], r#"{"e":"x"}"#),
        Step::read_then_reset(),
        Step::read_then_reset(),
        Step::read_then_reset(),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert!(error.response().is_none());
    assert_eq!(error.status(), None);
    assert_eq!(error.attempts()[0].status().unwrap(), 500);
}
