//! A name that does not resolve: nothing was sent, and another attempt may find it.

use std::net::SocketAddr;
use std::sync::Mutex;

use idempotency::retry::{Failure, Reach};
use idempotency::{Client, Effect, ErrorKind, Replay, StoppedBy};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Came;
use crate::support::{ScriptedServer, Step, payment, steady, steady_client};

/// A resolver that fails some times before it knows the server.
struct Flaky {
    failures: Mutex<u32>,
    addr: SocketAddr,
}

impl Resolve for Flaky {
    fn resolve(&self, _: Name) -> Resolving {
        let mut failures = self.failures.lock().unwrap();
        let answer = if *failures > 0 {
            *failures -= 1;
            Err("temporary failure in name resolution".into())
        } else {
            Ok(Box::new([self.addr].into_iter()) as Addrs)
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A client that finds the server under every name, after so many failures. It keeps no connection, so it asks anew.
fn flaky(failures: u32, server: &ScriptedServer) -> Client {
    let resolver = Flaky {
        failures: Mutex::new(failures),
        addr: server.addr(),
    };
    Client::builder()
        .reqwest(
            Client::reqwest_defaults()
                .dns_resolver(resolver)
                .pool_max_idle_per_host(0),
        )
        .policy(steady().build().unwrap())
        .build()
        .unwrap()
}

fn at_shop(server: &ScriptedServer) -> String {
    format!("http://shop.example:{}/payments", server.addr().port())
}

// B71.
#[tokio::test(start_paused = true)]
async fn an_unknown_host_is_tried_within_the_limits_and_proves_that_nothing_was_sent() {
    let operation = payment(&steady_client(), "http://nope.invalid/".to_owned());
    let result = operation.send().await;
    let expected = Came::Nothing(
        ErrorKind::Connect,
        Effect::NotExecuted,
        StoppedBy::Attempts,
        None,
    );
    assert_eq!(Came::to(&result), expected);
    let error = result.unwrap_err();
    assert_eq!(error.attempts().len(), 4);
    for attempt in error.attempts() {
        assert_eq!(attempt.failure(), Some(Failure::Resolve));
        assert_eq!(attempt.reach(), Reach::NeverSent);
    }
}

// B71.
#[tokio::test(start_paused = true)]
async fn a_resolver_that_fails_once_costs_one_attempt_with_or_without_a_key() {
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let keyed = payment(&flaky(1, &server), at_shop(&server)).send().await;
    let keyed = keyed.unwrap();
    assert_eq!(keyed.attempts().len(), 2);
    assert_eq!(keyed.attempts()[0].failure(), Some(Failure::Resolve));
    // The other attempt is the only one that can have done it.
    assert_eq!(keyed.replay(), Replay::Fresh);
    assert!(!keyed.followed_unknown());

    let plain = flaky(1, &server).post(at_shop(&server)).send().await;
    assert_eq!(plain.unwrap().attempts().len(), 2);
    server.assert_hits(2);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_did_not_resolve_mixes_with_other_proofs_and_not_with_doubt() {
    let early = || Step::reply(425, &[], "");
    for (steps, effect) in [
        ([early(), early()], Effect::NotExecuted),
        ([Step::read_then_close(), early()], Effect::Unknown),
    ] {
        let server = ScriptedServer::new(steps);
        let result = payment(&flaky(2, &server), at_shop(&server)).send().await;
        let expected = Came::Nothing(ErrorKind::Status, effect, StoppedBy::Attempts, Some(425));
        assert_eq!(Came::to(&result), expected);
        assert_eq!(result.unwrap_err().attempts().len(), 4);
    }
}
