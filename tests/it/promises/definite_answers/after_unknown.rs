//! What an answer is worth after an attempt of unknown outcome.

use std::collections::HashSet;

use idempotency::{Effect, ErrorKind, Replay, RetryPolicy, StoppedBy};

use super::Came;
use crate::support::{ScriptedServer, Step, client, payment};

/// Statuses that speak of the attempt (who sent it, whereto, how large) and not of the operation, besides all of 3xx.
const OF_THE_ATTEMPT: [u16; 14] = [
    401, 403, 407, 413, 421, 431, 501, 505, 506, 507, 508, 509, 510, 511,
];
/// Statuses that are sent again.
const TRANSIENT: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// A server that loses its first answer to each path, and answers `/404` with 404 then.
fn forgetful(headers: &'static [(&'static str, &'static str)]) -> ScriptedServer {
    let mut seen = HashSet::new();
    ScriptedServer::answering(move |arrival| {
        if seen.insert(arrival.target.clone()) {
            return Step::read_then_reset();
        }
        let status = arrival.target[1..].parse().unwrap();
        let body = if matches!(status, 204 | 304) {
            ""
        } else {
            "body"
        };
        Step::reply(status, headers, body)
    })
}

fn expected(status: u16) -> (Came, usize) {
    let error = |kind, limit| Came::Nothing(kind, Effect::Unknown, limit, Some(status));
    if TRANSIENT.contains(&status) || status >= 512 {
        (error(ErrorKind::Status, StoppedBy::Attempts), 4)
    } else if status == 409 {
        (error(ErrorKind::InProgress, StoppedBy::InProgressCap), 2)
    } else if (300..400).contains(&status) || OF_THE_ATTEMPT.contains(&status) {
        (error(ErrorKind::Status, StoppedBy::NotRetryable), 2)
    } else {
        (Came::Answer(status, None), 2)
    }
}

#[tokio::test]
async fn an_answer_that_speaks_of_the_attempt_settles_nothing_after_an_unknown_outcome() {
    let policy = RetryPolicy::immediate(4).to_builder();
    let policy = policy.in_progress_cap(std::time::Duration::ZERO).build();
    let client = client(&policy.unwrap());
    let server = forgetful(&[]);
    for status in 200..=599 {
        let before = server.hits();
        let operation = payment(&client, server.url(&format!("/{status}")));
        let result = operation.send().await;
        let (came, hits) = expected(status);
        assert_eq!(Came::to(&result), came, "{status}");
        assert_eq!(server.hits() - before, hits, "{status}");
        match result {
            Ok(response) => {
                assert!(response.followed_unknown(), "{status}");
                assert_eq!(response.replay(), Replay::Unknown, "{status}");
            }
            Err(error) => {
                assert_eq!(error.key(), operation.key(), "{status}");
                let response = error.into_response().unwrap();
                let body = if status == 304 { "" } else { "body" };
                assert_eq!(response.text().await.unwrap(), body, "{status}");
            }
        }
    }
}

// B121.
#[tokio::test]
async fn an_answer_with_the_replay_marker_is_the_stored_one_whatever_its_status() {
    let client = client(&RetryPolicy::immediate(4));
    let server = forgetful(&[("Idempotent-Replayed", "true")]);
    for status in 200..=599 {
        let before = server.hits();
        let result = payment(&client, server.url(&format!("/{status}")))
            .send()
            .await;
        assert_eq!(Came::to(&result), Came::Answer(status, None));
        assert_eq!(server.hits() - before, 2, "{status}");
        let response = result.unwrap();
        assert_eq!(response.replay(), Replay::Replayed, "{status}");
        assert!(!response.followed_unknown(), "{status}");
    }
}

#[tokio::test]
async fn a_marker_that_says_no_replay_leaves_the_doubt() {
    let client = client(&RetryPolicy::immediate(4));
    let server = forgetful(&[("Idempotent-Replayed", "false")]);
    let created = payment(&client, server.url("/201")).send().await.unwrap();
    assert_eq!(created.replay(), Replay::Fresh);
    assert!(created.followed_unknown());
    let error = payment(&client, server.url("/401")).send().await;
    assert_eq!(error.unwrap_err().effect(), Effect::Unknown);
}
