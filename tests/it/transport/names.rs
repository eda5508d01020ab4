//! Names that do not resolve, and connections that are not made in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency::retry::{Failure, Reach};
use idempotency::{Client, Effect, ErrorKind};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{assert_failed, client_over, facts};
use crate::support::{ScriptedServer, Step, timed};

/// What one look-up of a name comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lookup {
    Fails,
    /// It never ends.
    Hangs,
    Finds(SocketAddr),
}

/// A resolver that does one [`Lookup`] each time it is asked; the last one is repeated.
struct Resolver {
    lookups: Vec<Lookup>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Resolver {
    fn resolve(&self, _: Name) -> Resolving {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let lookup = self.lookups[turn.min(self.lookups.len() - 1)];
        Box::pin(async move {
            match lookup {
                Lookup::Fails => Err(std::io::Error::other("temporary failure").into()),
                Lookup::Hangs => std::future::pending().await,
                Lookup::Finds(address) => Ok(Box::new(std::iter::once(address)) as Addrs),
            }
        })
    }
}

/// A client of three attempts that looks every name up so, and the count of its look-ups.
pub(super) fn resolving(lookups: impl Into<Vec<Lookup>>) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let resolver = Resolver {
        lookups: lookups.into(),
        asked: Arc::clone(&asked),
    };
    let reqwest = Client::reqwest_defaults().dns_resolver(Arc::new(resolver));
    (client_over(reqwest, 3), asked)
}

/// B71: every failure of a resolver may pass, nothing was sent, and the attempts bound it.
#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_resolve_is_never_sent_and_tried_within_the_attempts() {
    let (client, asked) = resolving([Lookup::Fails]);
    let post = || client.post("http://nope.invalid/orders").body("amount=100");
    let effect = (ErrorKind::Connect, Effect::NotExecuted);
    let keyed = post().idempotent().send().await.unwrap_err();
    assert_failed(
        &keyed,
        3,
        Failure::Resolve,
        Reach::NeverSent,
        effect,
        "keyed",
    );
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let unkeyed = post().send().await.unwrap_err();
    assert_failed(
        &unkeyed,
        3,
        Failure::Resolve,
        Reach::NeverSent,
        effect,
        "unkeyed",
    );
    assert_eq!(asked.load(Ordering::SeqCst), 6);
}

/// B71
#[tokio::test(start_paused = true)]
async fn a_resolver_that_fails_once_is_asked_again() {
    let server = ScriptedServer::new([Step::reply(201, &[], "")]);
    let (client, asked) = resolving([Lookup::Fails, Lookup::Finds(server.addr())]);
    let order = client.post("http://shop.invalid/orders").body("amount=100");
    let response = order.send().await.unwrap();
    assert_eq!(
        facts(response.attempts()),
        [
            (Some(Failure::Resolve), Reach::NeverSent),
            (None, Reach::Answered)
        ]
    );
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    server.assert_hits(1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_made_in_time_is_never_sent() {
    let (client, asked) = resolving([Lookup::Hangs]);
    let operation = client
        .post("http://silent.invalid/orders")
        .body("x")
        .idempotent();
    let (sent, took) = timed(operation.send()).await;
    let error = sent.unwrap_err();
    let effect = (ErrorKind::Connect, Effect::NotExecuted);
    assert_failed(
        &error,
        3,
        Failure::ConnectTimeout,
        Reach::NeverSent,
        effect,
        (),
    );
    assert!(error.is_connect() && error.is_timeout());
    assert_eq!(took, 3 * Duration::from_secs(3));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

/// What got through once stays unknown, whatever comes afterwards.
#[tokio::test(start_paused = true)]
async fn an_attempt_of_unknown_outcome_is_not_forgotten_over_later_ones_that_were_never_sent() {
    let server = ScriptedServer::new([Step::read_then_close()]);
    let (client, _) = resolving([Lookup::Finds(server.addr()), Lookup::Fails]);
    let operation = client
        .post("http://shop.invalid/orders")
        .body("x")
        .idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        facts(error.attempts()),
        [
            (Some(Failure::Closed), Reach::MaybeProcessed),
            (Some(Failure::Resolve), Reach::NeverSent),
            (Some(Failure::Resolve), Reach::NeverSent),
        ]
    );
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Connect, Effect::Unknown)
    );
    let again = operation.send().await.unwrap_err();
    assert_eq!(again.effect(), Effect::Unknown, "it is the same operation");
    server.assert_hits(1);
}
