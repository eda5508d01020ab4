//! Which key a request of somebody else's stack carries.

use std::collections::BTreeSet;
use std::time::Duration;

use idempotency::{
    Contract, Effect, ErrorKind, IdempotencyKey, KeySource, Replay, Report, RequestBuilderExt as _,
    StoppedBy,
};

use super::{foreign, our_error, ours, stack};
use crate::support::{ScriptedServer, Step, timed};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

/// The first attempt is the request that came, the others are made from what was kept of it: on the wire they are the same, to the
/// order of the header lines.
#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_same_head_wherever_the_callers_key_stands() {
    for key_first in [true, false] {
        let server = ScriptedServer::new([
            Step::reply(503, &[], ""),
            Step::reply(503, &[], ""),
            Step::reply(201, &[], ""),
        ]);
        let mut headers = [
            ("idempotency-key", "k-1"),
            ("x-one", "1"),
            ("x-two", "a"),
            ("x-two", "b"),
        ];
        if !key_first {
            headers.reverse();
        }
        let mut request = foreign(3).post(server.url("/orders")).body("x");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send().await.unwrap();
        server.assert_one_operation(3);
        let heads: BTreeSet<_> = server
            .arrivals()
            .into_iter()
            .map(|arrival| arrival.headers)
            .collect();
        assert_eq!(heads.len(), 1, "{heads:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_request_carries_one_drawn_key_through_every_attempt() {
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::reply(429, &[], ""),
        Step::reply(201, &[], "done"),
    ]);
    let request = foreign(3)
        .post(server.url("/orders"))
        .body("amount=100")
        .idempotent();
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.url().as_str(), server.url("/orders"));
    let report = Report::of(&response).unwrap().clone();
    assert_eq!(report.attempts().len(), 3);
    let sent = server.assert_one_operation(3);
    assert_eq!(
        report.idempotency_key().map(|key| key.as_str()),
        Some(&*sent)
    );
    assert_eq!(response.text().await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_drawn_key_proves_what_a_given_one_cannot() {
    for (given, replay) in [(false, Replay::Fresh), (true, Replay::Unknown)] {
        let server = ScriptedServer::new([Step::reply(201, &[], "")]);
        let request = foreign(3).post(server.url("/orders"));
        let request = if given {
            request.idempotent_with(key("k-1"))
        } else {
            request.idempotent()
        };
        let response = request.send().await.unwrap();
        assert_eq!(Report::of(&response).unwrap().replay(), replay);
        if given {
            assert_eq!(server.assert_one_operation(1), "k-1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_key_a_post_is_not_repeated_and_the_last_answer_is_the_answer() {
    let server = ScriptedServer::new([Step::reply(503, &[], "busy")]);
    let response = foreign(3).post(server.url("/orders")).send().await.unwrap();
    assert_eq!(response.status(), 503);
    let report = Report::of(&response).unwrap();
    assert_eq!(report.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
    assert_eq!(report.idempotency_key(), None);
    assert_eq!(server.keys(), [[""; 0]]);
}

/// B01, B03: one key for each operation, and it comes from the source.
#[tokio::test(start_paused = true)]
async fn every_post_and_patch_can_be_keyed_and_nothing_else_is() {
    let client = stack()
        .with(
            ours(2)
                .key_posts_and_patches()
                .key_source(KeySource::seeded(7)),
        )
        .build();
    let mut seen = BTreeSet::new();
    let expected = KeySource::seeded(7);
    for method in ["POST", "PATCH", "POST"] {
        let server = ScriptedServer::new([Step::reply(503, &[], ""), Step::reply(200, &[], "")]);
        let request = client.request(method.parse().unwrap(), server.url("/orders"));
        request.body("x").send().await.unwrap();
        let sent = server.assert_one_operation(2);
        assert_eq!(sent, expected.draw().as_str(), "{method}");
        seen.insert(sent);
    }
    assert_eq!(seen.len(), 3);
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PURGE"] {
        let server = ScriptedServer::new([Step::reply(200, &[], "")]);
        let request = client.request(method.parse().unwrap(), server.url("/orders"));
        request.send().await.unwrap();
        assert_eq!(server.keys(), [[""; 0]], "{method}");
    }
}

/// The contract's word goes before the option's.
#[tokio::test(start_paused = true)]
async fn a_method_that_the_contract_does_not_honour_is_not_keyed() {
    let contract = Contract::builder("posts")
        .methods([http::Method::POST])
        .build()
        .unwrap();
    let client = stack()
        .with(ours(2).contract(contract).key_posts_and_patches())
        .build();
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    client.patch(server.url("/orders/1")).send().await.unwrap();
    assert_eq!(server.keys(), [[""; 0]]);
    let error = client
        .patch(server.url("/orders/1"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let error = our_error(&error);
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Contract, Effect::NotExecuted)
    );
    server.assert_hits(1);
}

/// B08: the caller's header is the key, to the letter, and there is never a second line.
#[tokio::test(start_paused = true)]
async fn a_key_that_the_request_carries_already_is_kept() {
    for everything in [false, true] {
        let middleware = if everything {
            ours(2).key_posts_and_patches()
        } else {
            ours(2)
        };
        let client = stack().with(middleware).build();
        let server = ScriptedServer::new([Step::reply(503, &[], ""), Step::reply(200, &[], "")]);
        let request = client
            .post(server.url("/orders"))
            .header("Idempotency-Key", "\"mine\"");
        let response = request.send().await.unwrap();
        assert_eq!(server.assert_one_operation(2), "\"mine\"");
        let report = Report::of(&response).unwrap();
        assert_eq!(report.idempotency_key(), Some(&key("mine")));
        assert_eq!(
            report.replay(),
            Replay::Unknown,
            "nobody knows who else has sent it"
        );
    }
}

/// B08, B10
#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_used_is_refused_before_sending() {
    let server = ScriptedServer::new([]);
    let client = foreign(3);
    let post = || client.post(server.url("/orders")).body("x");
    let name = "idempotency-key";
    for request in [
        post().header(name, "a").header(name, "a"),
        post().header(name, "a").header(name, "b").idempotent(),
        post().header(name, ""),
        post().header(name, "\"open"),
        post().header(name, "x".repeat(256)),
        post().header(name, "a").idempotent_with(key("b")),
    ] {
        let error = request.send().await.unwrap_err();
        let error = our_error(&error);
        assert_eq!(error.kind(), ErrorKind::Key, "{error:?}");
        assert!(error.attempts().is_empty());
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_safe_method_stays_without_a_key() {
    let server = ScriptedServer::new([Step::reply(503, &[], ""), Step::reply(200, &[], "")]);
    let response = foreign(3)
        .get(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap();
    assert_eq!(Report::of(&response).unwrap().idempotency_key(), None);
    assert_eq!(server.keys(), [[""; 0]; 2]);
}

/// B02: a copy is the same operation. It has a deadline of its own: it may be sent long after the first one was given up.
#[tokio::test(start_paused = true)]
async fn a_copied_request_keeps_its_key_and_has_its_own_deadline() {
    let server = ScriptedServer::new([
        Step::stall_before_headers(),
        Step::reply(201, &[("idempotent-replayed", "true")], ""),
    ]);
    let minute = Duration::from_secs(60);
    let policy = idempotency::RetryPolicy::immediate(1).to_builder();
    let policy = policy
        .attempt_timeout(2 * minute)
        .deadline(minute)
        .build()
        .unwrap();
    let client = stack().with(ours(1).policy(policy)).build();
    let first = client.post(server.url("/orders")).body("x").idempotent();
    let second = first.try_clone().unwrap();
    let (sent, took) = timed(first.send()).await;
    let error = sent.unwrap_err();
    assert_eq!(
        (our_error(&error).kind(), took),
        (ErrorKind::Timeout, minute)
    );
    tokio::time::sleep(minute).await;
    let response = second.send().await.unwrap();
    let report = Report::of(&response).unwrap();
    assert_eq!(
        (report.replay(), report.attempts().len()),
        (Replay::Replayed, 1)
    );
    server.assert_one_operation(2);
}

/// What one copy left in flight, the other one knows.
#[tokio::test(start_paused = true)]
async fn a_copied_request_knows_what_became_of_the_first() {
    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[], "")]);
    let first = foreign(1)
        .post(server.url("/orders"))
        .body("x")
        .idempotent();
    let second = first.try_clone().unwrap();
    assert_eq!(
        our_error(&first.send().await.unwrap_err()).effect(),
        Effect::Unknown
    );
    let response = second.send().await.unwrap();
    let report = Report::of(&response).unwrap();
    assert_eq!(report.replay(), Replay::Unknown);
    assert!(report.followed_unknown());
    server.assert_one_operation(2);
}

/// B01: the key comes from the middleware's source, and copies of a request are the same operation.
#[tokio::test(start_paused = true)]
async fn a_key_comes_from_the_middlewares_source_once_for_all_copies() {
    let source = KeySource::seeded(7);
    let expected = KeySource::seeded(7).draw().to_string();
    let client = stack().with(ours(2).key_source(source)).build();
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::reply(201, &[], ""),
        Step::reply(201, &[], ""),
    ]);
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let copy = request.try_clone().unwrap();
    request.send().await.unwrap();
    copy.send().await.unwrap();
    assert_eq!(server.assert_one_operation(3), expected);
}
