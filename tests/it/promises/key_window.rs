//! A key protects only for as long as the server remembers it: nothing is sent with one that may be forgotten.

use std::time::{Duration, SystemTime};

use idempotency::contract::Window;
use idempotency::{Backoff, Client, Contract, Effect, Error, ErrorKind, RetryPolicy, StoppedBy};

use super::story;
use crate::support::{ScriptedServer, Step, Way, timed};

const MINUTE: Duration = Duration::from_secs(60);

fn remembering(window: Window) -> Contract {
    Contract::builder("shop").window(window).build().unwrap()
}

#[track_caller]
fn assert_forgotten(error: &Error, effect: Effect) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Key, effect));
    assert_eq!(error.stopped_by(), Some(StoppedBy::KeyWindow));
    assert!(error.attempts().is_empty());
}

// B12: the first answer is lost, and a repeat after the window would be a second execution.
#[tokio::test(start_paused = true)]
async fn retries_end_before_the_servers_memory_does() {
    let policy = RetryPolicy::builder()
        .deadline(2 * MINUTE)
        .backoff(Backoff::constant(Duration::from_secs(25)))
        .max_attempts(10.try_into().unwrap())
        .build()
        .unwrap();
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::read_then_close());
        let contract = remembering(Window::Exactly(MINUTE));
        let client = way.build(Client::builder().policy(policy.clone()).contract(contract));
        let operation = client.post(server.url("/payments")).idempotent();
        let (result, took) = timed(operation.send()).await;
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the connection closed before an answer; gave up after 3 requests: the server may forget the key before the next attempt; the operation may have been executed"
        );
        assert_eq!(error.kind(), ErrorKind::Connection);
        assert_eq!(error.stopped_by(), Some(StoppedBy::KeyWindow));
        // At 0 s, 25 s and 50 s; 75 s is too late.
        assert_eq!(story(error.attempts()).len(), 3);
        assert_eq!(took, Duration::from_secs(50));
        server.assert_one_operation(3);
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_counts_from_the_first_send_of_the_operation() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::read_then_close());
        let contract = remembering(Window::AtLeast(MINUTE));
        let policy = RetryPolicy::immediate(1);
        let client = way.build(Client::builder().policy(policy).contract(contract));
        let operation = client.post(server.url("/payments")).idempotent();
        // Not from when it was made.
        tokio::time::sleep(2 * MINUTE).await;
        operation.send().await.unwrap_err();
        tokio::time::sleep(MINUTE - Duration::from_millis(1)).await;
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let error = operation.send().await.unwrap_err();
        assert_forgotten(&error, Effect::Unknown);
        assert_eq!(
            error.to_string(),
            "the key was first sent 60s ago and `shop` remembers keys for 60s: look the operation up instead; the operation may have been executed"
        );
        assert_eq!(error.key(), operation.key());
        server.assert_one_operation(2);
    }
}

// B11, B12.
#[tokio::test(start_paused = true)]
async fn an_operation_first_sent_longer_ago_than_the_window_is_not_sent_again() {
    let day = 24 * 60 * MINUTE;
    let second = Duration::from_secs(1);
    for way in Way::ALL {
        for (window, age, forgotten) in [
            (Window::Exactly(MINUTE), MINUTE, true),
            (Window::Exactly(MINUTE), MINUTE / 2, false),
            (Window::AtLeast(MINUTE), MINUTE, true),
            (Window::Advertised(MINUTE), MINUTE, true),
            // Nothing is known: a day is assumed.
            (Window::Unknown, day, true),
            (Window::Unknown, day - MINUTE, false),
            (Window::MerchantSet, day, true),
            (Window::Forever, 1000 * day, false),
        ] {
            let server = ScriptedServer::always(Step::reply(201, &[], ""));
            let policy = RetryPolicy::immediate(2);
            let builder = Client::builder()
                .policy(policy)
                .contract(remembering(window));
            let client = way.build(builder);
            let first_sent = SystemTime::now() - age;
            let operation = client
                .post(server.url("/"))
                .idempotent()
                .first_sent(first_sent);
            let pending = operation.to_pending().unwrap();
            assert_eq!(pending.first_sent(), Some(first_sent));
            for operation in [operation, client.resume(&pending)] {
                match operation.send().await {
                    Ok(response) => assert!(!forgotten && response.followed_unknown()),
                    Err(error) => {
                        assert!(forgotten, "{window:?} {age:?}: {error}");
                        assert_forgotten(&error, Effect::Unknown);
                    }
                }
            }
            server.assert_hits(if forgotten { 0 } else { 2 });
        }
        // A clock that was set back since then makes no key younger than it can be.
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let contract = remembering(Window::Exactly(second));
        let client = way.build(Client::builder().contract(contract));
        let operation = client.post(server.url("/")).idempotent();
        let operation = operation.first_sent(SystemTime::now() + MINUTE);
        operation.send().await.unwrap();
        server.assert_hits(1);
    }
}
