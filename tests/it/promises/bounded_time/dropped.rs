//! Dropping the future stops everything.

use idempotency::Replay;
use tokio::time::{sleep, timeout};

use crate::support::{
    Captured, ScriptedServer, Step, Way, hits_at, ms, payment, secs, steady, steady_client,
};

// B67.
#[tokio::test(start_paused = true)]
async fn a_send_dropped_while_it_waits_sends_nothing_more() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::reply(429, &[("Retry-After", "3")], "")]);
        let client = way.client(steady().build().unwrap());
        let operation = payment(&client, server.url("/payments"));
        assert!(timeout(ms(100), operation.send()).await.is_err());
        sleep(secs(10)).await;
        server.assert_hits(1);
    }
}

// B67.
#[tokio::test(start_paused = true)]
async fn a_send_dropped_in_flight_sends_nothing_more_and_closes_its_connection() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::stall_before_headers(), Step::reply(201, &[], "")]);
        let client = way.client(steady().build().unwrap());
        let operation = payment(&client, server.url("/payments"));
        let captured = Captured::start();
        assert!(timeout(ms(100), operation.send()).await.is_err());
        let warning = &captured.events().pop().unwrap();
        assert_eq!(
            warning.field("message").unwrap(),
            "dropped with an attempt in flight: its outcome is unknown"
        );
        drop(captured);
        sleep(secs(10)).await;
        server.assert_hits(1);

        // The operation goes on where it was, and remembers that it had begun.
        let response = operation.send().await.unwrap();
        assert_eq!(response.replay(), Replay::Unknown);
        assert!(response.followed_unknown());
        server.assert_one_operation(2);
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_impatient_caller_sends_again_with_the_same_key_and_meets_the_first_attempt() {
    let server = ScriptedServer::new([
        Step::stall_before_headers(),
        Step::reply(409, &[], "try later"),
        Step::reply(201, &[("Idempotent-Replayed", "true")], ""),
    ]);
    let operation = payment(&steady_client(), server.url("/payments"));
    assert!(timeout(secs(1), operation.send()).await.is_err());
    // The plain 409 is taken for "in progress": the first attempt may still be at it.
    let response = operation.send().await.unwrap();
    assert!(response.is_replay());
    assert!(response.attempts()[1].is_poll());
    server.assert_one_operation(3);
    assert_eq!(hits_at(&server), [0, 1000, 1500]);
}

#[tokio::test(start_paused = true)]
async fn a_spawned_send_that_is_aborted_stops_too() {
    let server = ScriptedServer::new([Step::reply(503, &[], "")]);
    let operation = payment(&steady_client(), server.url("/payments"));
    let task = tokio::spawn(operation.send());
    server.until_hits(1).await;
    sleep(ms(50)).await;
    task.abort();
    sleep(secs(10)).await;
    server.assert_hits(1);
}
