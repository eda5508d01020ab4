//! The edge of the client: what the transport's errors, streams, handshakes and redirects are taken for.

mod classification;
mod heads;
mod hostile;
mod http2;
mod names;
mod pool;
mod redirects;
mod tls;

use std::fmt::Debug;

use idempotency::retry::{Failure, Reach};
use idempotency::{Attempt, Client, Effect, Error, ErrorKind, RetryPolicy};

/// A client that retries without waiting, `attempts` attempts.
fn client(attempts: u32) -> Client {
    client_over(Client::reqwest_defaults(), attempts)
}

/// The same over settings of reqwest.
fn client_over(reqwest: reqwest::ClientBuilder, attempts: u32) -> Client {
    Client::builder()
        .reqwest(reqwest.no_proxy())
        .policy(RetryPolicy::immediate(attempts))
        .build()
        .unwrap()
}

/// How each attempt failed, and how far it got.
fn facts(attempts: &[Attempt]) -> Vec<(Option<Failure>, Reach)> {
    let fact = |attempt: &Attempt| (attempt.failure(), attempt.reach());
    attempts.iter().map(fact).collect()
}

/// Asserts that every one of `hits` attempts met the same failure, and what the error makes of it.
#[track_caller]
fn assert_failed(
    error: &Error,
    hits: usize,
    failure: Failure,
    reach: Reach,
    (kind, effect): (ErrorKind, Effect),
    what: impl Debug,
) {
    let expected = vec![(Some(failure), reach); hits];
    assert_eq!(facts(error.attempts()), expected, "{what:?}: {error:?}");
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{what:?}");
}
