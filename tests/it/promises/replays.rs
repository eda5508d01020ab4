//! Replays are reported in three values, never a guess.

use std::time::Duration;

use futures_util::future::join_all;
use idempotency::contract::{MarkerRule, Problem};
use idempotency::{
    Backoff, Client, Contract, Effect, ErrorKind, IdempotencyKey, IdempotentRequest, Replay,
    Report, Response, RetryPolicy, StoppedBy,
};

use super::story;
use crate::support::{Gate, Refused, ScriptedServer, Step, Way};

const SECOND: Duration = Duration::from_secs(1);
const MARKED: (&str, &str) = ("Idempotent-Replayed", "true");

fn client(way: Way) -> Client {
    way.client(RetryPolicy::immediate(4))
}

fn payment(client: &Client, server: &ScriptedServer) -> IdempotentRequest {
    client
        .post(server.url("/payments"))
        .body("amount=100")
        .idempotent()
}

fn done() -> Step {
    Step::reply(201, &[], "")
}

#[track_caller]
fn assert_told(response: &Response, replay: Replay, followed_unknown: bool) {
    assert_eq!(response.replay(), replay);
    assert_eq!(response.is_replay(), replay == Replay::Replayed);
    assert_eq!(response.followed_unknown(), followed_unknown);
    assert_eq!(response.report().replay(), replay);
}

// B09, B123.
#[tokio::test(start_paused = true)]
async fn a_marker_says_what_it_says_and_silence_is_judged_by_the_attempts() {
    use Replay::{Fresh, Replayed, Unknown};
    let silent = (Fresh, Unknown, Unknown);
    for way in Way::ALL {
        let client = client(way);
        // What is said of a drawn key's only attempt, of a given key, and after a lost answer.
        for (headers, (only, given, after)) in [
            (&[][..], silent),
            (&[MARKED], (Replayed, Replayed, Replayed)),
            (
                &[("IDEMPOTENT-REPLAYED", "TRUE")],
                (Replayed, Replayed, Replayed),
            ),
            (
                &[("idempotency-replayed", "1")],
                (Replayed, Replayed, Replayed),
            ),
            (
                &[("x-idempotent-replay", "?1")],
                (Replayed, Replayed, Replayed),
            ),
            (
                &[("x-idempotency-cache", "HIT")],
                (Replayed, Replayed, Replayed),
            ),
            (&[("idempotent-replayed", "false")], (Fresh, Fresh, Fresh)),
            (&[("idempotent-replayed", "0")], (Fresh, Fresh, Fresh)),
            (&[("idempotent-replayed", "?0")], (Fresh, Fresh, Fresh)),
            (&[("idempotent-replayed", "miss")], (Fresh, Fresh, Fresh)),
            (&[("x-idempotency-lookup", "miss")], (Fresh, Fresh, Fresh)),
            (&[("idempotent-replayed", "")], silent),
            (&[("idempotent-replayed", "perhaps")], silent),
            (&[MARKED, MARKED], silent),
            (&[MARKED, ("idempotency-replayed", "false")], silent),
            (&[("idempotency-key", "true")], silent),
        ] {
            let answer = || Step::reply(201, headers, "");
            let server =
                ScriptedServer::new([answer(), answer(), Step::read_then_close(), answer()]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_told(&response, only, false);
            let key = IdempotencyKey::parse("k-1").unwrap();
            let operation = client.post(server.url("/")).idempotent_with(key);
            assert_told(&operation.send().await.unwrap(), given, false);
            let response = payment(&client, &server).send().await.unwrap();
            assert_told(&response, after, after != Replayed);
            server.assert_hits(4);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_attempt_that_may_have_been_processed_silence_is_unknown() {
    for way in Way::ALL {
        let client = client(way);
        for step in [
            Step::read_then_close(),
            Step::read_then_reset(),
            Step::close_before_reading(),
            Step::half_status_line(),
            Step::garbage("\u{1}\u{2}\r\n\r\n"),
            Step::stall_before_headers(),
            Step::cut_fixed(201, 100, 10),
            Step::stall_in_body(201, 100, 10),
            Step::reply(408, &[], ""),
            Step::reply(429, &[], ""),
            Step::reply(500, &[], ""),
            Step::reply(503, &[], ""),
            Step::reply(599, &[], ""),
        ] {
            let server = ScriptedServer::new([step, done()]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_told(&response, Replay::Unknown, true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_certainly_was_not_processed_leaves_the_next_one_fresh() {
    let unavailable = Problem::store_unavailable().to_bytes();
    let problem = [("content-type", "application/problem+json")];
    for way in Way::ALL {
        let client = client(way);
        for step in [
            Step::reply(425, &[], ""),
            Step::reply(503, &problem, unavailable.clone()),
        ] {
            let server = ScriptedServer::new([step, done()]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_eq!(response.attempts().len(), 2);
            assert_told(&response, Replay::Fresh, false);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_were_never_sent_do_not_matter_even_where_their_send_was_dropped() {
    let policy = RetryPolicy::builder()
        .backoff(Backoff::constant(SECOND))
        .build()
        .unwrap();
    for way in Way::ALL {
        let refused = Refused::new();
        let client = way.client(policy.clone());
        let operation = client.post(refused.url("/payments")).idempotent();
        let impatient = tokio::time::timeout(SECOND / 2, operation.send()).await;
        assert!(impatient.is_err(), "dropped in its backoff");
        let sending = tokio::spawn(operation.send());
        tokio::time::sleep(SECOND / 2).await;
        let server = ScriptedServer::rising(refused, [done()]);
        let response = sending.await.unwrap().unwrap();
        assert_eq!(
            story(response.attempts()),
            ["the connection was not made, never sent", "201, answered"]
        );
        assert_told(&response, Replay::Fresh, false);
        server.assert_hits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_send_after_an_answer_is_unknown_where_it_is_not_marked() {
    for way in Way::ALL {
        let server = ScriptedServer::new([done(), done(), Step::reply(201, &[MARKED], "")]);
        let operation = payment(&client(way), &server);
        assert_told(&operation.send().await.unwrap(), Replay::Fresh, false);
        assert_told(&operation.send().await.unwrap(), Replay::Unknown, false);
        assert_told(&operation.send().await.unwrap(), Replay::Replayed, false);
    }
}

#[tokio::test(start_paused = true)]
async fn of_sends_at_the_same_time_none_is_called_fresh() {
    for way in Way::ALL {
        let gate = Gate::new();
        let server = ScriptedServer::always(Step::wait_for(&gate, done()));
        let operation = payment(&client(way), &server);
        let sending = tokio::spawn(join_all([operation.send(), operation.send()]));
        server.until_hits(2).await;
        gate.open();
        for result in sending.await.unwrap() {
            assert_eq!(result.unwrap().replay(), Replay::Unknown);
        }
    }
}

// B04: a dropped future is an attempt of unknown outcome, and the operation remembers it.
#[tokio::test(start_paused = true)]
async fn after_a_send_that_was_dropped_in_mid_flight_silence_is_unknown() {
    for way in Way::ALL {
        for (step, replay) in [
            (done(), Replay::Unknown),
            (Step::reply(201, &[MARKED], ""), Replay::Replayed),
            (
                Step::reply(201, &[("idempotent-replayed", "false")], ""),
                Replay::Fresh,
            ),
        ] {
            let server = ScriptedServer::new([Step::stall_before_headers(), step]);
            let operation = payment(&client(way), &server);
            let impatient = tokio::time::timeout(SECOND, operation.send()).await;
            assert!(impatient.is_err());
            let response = operation.send().await.unwrap();
            assert_told(&response, replay, replay != Replay::Replayed);
            // The report is that of this send.
            assert_eq!(story(response.attempts()), ["201, answered"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_send_that_was_dropped_an_error_is_unknown_too() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::stall_before_headers()]);
        let operation = payment(&client(way), &server);
        let impatient = tokio::time::timeout(SECOND, operation.send()).await;
        assert!(impatient.is_err());
        drop(server);
        let error = operation.send().await.unwrap_err();
        assert_eq!(
            story(error.attempts()),
            ["the connection was not made, never sent"; 4]
        );
        assert_eq!(error.effect(), Effect::Unknown);
    }
}

// B121: the server will repeat a stored failure for ever.
#[tokio::test(start_paused = true)]
async fn a_retryable_status_with_the_marker_is_final_at_once() {
    let insisting = [MARKED, ("retry-after", "1"), ("x-should-retry", "true")];
    for way in Way::ALL {
        let client = client(way);
        for status in [408, 409, 417, 425, 429, 500, 502, 503, 504, 599] {
            for headers in [&[MARKED][..], &insisting] {
                let stored = || Step::reply(status, headers, "stored");
                let server = ScriptedServer::new([stored(), Step::reply(503, &[], ""), stored()]);
                let response = payment(&client, &server).send().await.unwrap();
                assert_eq!(response.status(), status);
                assert_eq!(story(response.attempts()), [format!("{status}, answered")]);
                assert_told(&response, Replay::Replayed, false);
                assert_eq!(response.report().stopped_by(), None);
                assert_eq!(response.text().await.unwrap(), "stored");

                let response = payment(&client, &server).send().await.unwrap();
                assert_eq!(response.attempts().len(), 2);
                assert_told(&response, Replay::Replayed, false);
                let error = response.error_for_status().unwrap_err();
                assert_eq!(error.effect(), Effect::Answered);
                server.assert_hits(3);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retryable_status_that_is_marked_as_fresh_is_retried() {
    for way in Way::ALL {
        let fresh = [("idempotent-replayed", "false")];
        let server = ScriptedServer::new([Step::reply(503, &fresh, ""), done()]);
        let response = payment(&client(way), &server).send().await.unwrap();
        assert_eq!(
            story(response.attempts()),
            ["503, maybe processed", "201, answered"]
        );
        assert_told(&response, Replay::Unknown, true);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_was_done_before_is_a_replay_without_its_answer() {
    let not_kept = Problem::answer_not_kept().to_bytes();
    let gocardless = r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#;
    for way in Way::ALL {
        let client = client(way);
        for body in [&not_kept[..], gocardless.as_bytes()] {
            let server =
                ScriptedServer::new([Step::read_then_close(), Step::reply(409, &[], body)]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_eq!(story(response.attempts())[1], "409, answered");
            assert_told(&response, Replay::Replayed, false);
            assert_eq!(response.bytes().await.unwrap(), body);
        }
    }
}

// B05: a loop that asks again with the key of a stored refusal can notice.
#[tokio::test(start_paused = true)]
async fn a_stored_refusal_is_told_as_a_replay() {
    for way in Way::ALL {
        for status in [400, 402, 404, 422] {
            let server = ScriptedServer::new([
                Step::reply(status, &[], "declined"),
                Step::reply(status, &[MARKED], "declined"),
            ]);
            let operation = payment(&client(way), &server);
            assert_told(&operation.send().await.unwrap(), Replay::Fresh, false);
            let again = operation.send().await.unwrap();
            assert_told(&again, Replay::Replayed, false);
            assert_eq!(
                (again.status().as_u16(), again.attempts().len()),
                (status, 1)
            );
        }
    }
}

// B40: the refusal may speak of what this very operation has made. The caller can look it up.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_attempt_of_unknown_outcome_says_so() {
    let final_conflicts = Contract::builder("shop")
        .conflict_is_final()
        .build()
        .unwrap();
    for way in Way::ALL {
        let builder = Client::builder().policy(RetryPolicy::immediate(4));
        let client = way.build(builder.contract(final_conflicts.clone()));
        for status in [400, 404, 409, 422] {
            let exists = || Step::reply(status, &[], "{\"error\":\"exists\"}");
            let server = ScriptedServer::new([exists(), Step::read_then_reset(), exists()]);
            let response = payment(&client, &server).send().await.unwrap();
            assert_told(&response, Replay::Fresh, false);
            let response = payment(&client, &server).send().await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.attempts().len(), 2);
            assert_told(&response, Replay::Unknown, true);
            let error = response.error_for_status().unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Status, Effect::Answered)
            );
            assert!(error.report().followed_unknown());
        }
    }
}

// B40 where nothing is known of the server: its 409 may as well mean that the lost attempt is still running.
#[tokio::test(start_paused = true)]
async fn a_conflict_after_an_attempt_of_unknown_outcome_is_no_answer() {
    for way in Way::ALL {
        let server = ScriptedServer::answering({
            let mut lost = false;
            move |_| match std::mem::replace(&mut lost, true) {
                false => Step::read_then_reset(),
                true => Step::reply(409, &[], "{\"error\":\"exists\"}"),
            }
        });
        let error = payment(&client(way), &server).send().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::InProgress, Effect::Unknown)
        );
        assert_eq!(error.stopped_by(), Some(StoppedBy::InProgressCap));
        assert!(error.report().followed_unknown());
        assert_eq!(
            error.into_response().unwrap().text().await.unwrap(),
            "{\"error\":\"exists\"}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_marker_of_the_contracts_own_is_read_wherever_it_stands() {
    let shop = |rule| Contract::builder("shop").marker(rule).build().unwrap();
    let in_body = || {
        shop(MarkerRule::BodyFlag {
            pointer: "/meta/reused".into(),
        })
    };
    let yes = "{\"meta\":{\"reused\":true}}";
    for way in Way::ALL {
        for (contract, status, headers, body, replay) in [
            (in_body(), 201, &[][..], yes, Replay::Replayed),
            (in_body(), 503, &[], yes, Replay::Replayed),
            (
                in_body(),
                201,
                &[],
                "{\"meta\":{\"reused\":false}}",
                Replay::Fresh,
            ),
            (in_body(), 201, &[], "{}", Replay::Unknown),
            (
                shop(MarkerRule::Status { status: 200 }),
                200,
                &[],
                "",
                Replay::Replayed,
            ),
            (
                shop(MarkerRule::Status { status: 200 }),
                201,
                &[],
                "",
                Replay::Unknown,
            ),
            (
                shop(MarkerRule::presence("x-first")),
                201,
                &[("x-first", "7")],
                "",
                Replay::Replayed,
            ),
            (
                shop(MarkerRule::words("x-c", ["old"], ["new"])),
                201,
                &[("x-c", "new")],
                "",
                Replay::Fresh,
            ),
        ] {
            let server =
                ScriptedServer::new([Step::read_then_close(), Step::reply(status, headers, body)]);
            let operation = payment(&client(way), &server).contract(contract);
            let response = operation.send().await.unwrap();
            assert_told(&response, replay, replay != Replay::Replayed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_key_is_never_called_anything() {
    for way in Way::ALL {
        let server = ScriptedServer::always(done());
        let response = client(way).post(server.url("/")).send().await.unwrap();
        assert_told(&response, Replay::Unknown, false);
    }
}

#[tokio::test(start_paused = true)]
async fn reqwests_response_carries_the_report_along() {
    for way in Way::ALL {
        let server =
            ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[MARKED], "")]);
        let operation = payment(&client(way), &server);
        let response: reqwest::Response = operation.send().await.unwrap().into();
        let report = Report::of(&response).unwrap();
        assert_eq!(report.replay(), Replay::Replayed);
        assert_eq!(report.attempts().len(), 2);
        assert_eq!(report.idempotency_key(), operation.key());
    }
}
