//! Guards that no server gives: one key for one request, an echo of another key, replays that are never marked.

use idempotency::contract::MarkerRule;
use idempotency::{
    Client, Contract, Effect, ErrorKind, IdempotencyMiddleware, Replay, RequestBuilderExt as _,
    RetryPolicy,
};

use super::{KEY, client, key, named};
use crate::support::{Captured, ScriptedServer, Step};

const REUSED: &str = "was used before with a different request: another method, URL or body is another operation and needs another key; the operation may have been executed";

// B11.
#[tokio::test]
async fn a_key_is_not_sent_with_a_second_request() {
    let server = ScriptedServer::always(Step::reply(200, &[], "{}"));
    let client = client(Contract::generic());
    let first = client
        .post(server.url("/x"))
        .body("amount=1")
        .idempotent_with(key(KEY));
    first.send().await.unwrap();
    first.send().await.unwrap();
    let again = client
        .clone()
        .post(server.url("/x"))
        .body("amount=1")
        .idempotent_with(key(KEY));
    again.send().await.unwrap();
    server.assert_one_operation(3);
    for other in [
        client.post(server.url("/x")).body("amount=2"),
        client.post(server.url("/y")).body("amount=1"),
        client.post(server.url("/x?a=1")).body("amount=1"),
        client.patch(server.url("/x")).body("amount=1"),
        client.clone().post(server.url("/x")),
    ] {
        let error = other.idempotent_with(key(KEY)).send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        assert_eq!(error.effect(), Effect::Unknown);
        let text = error.to_string();
        assert_eq!(text, format!("the key #{} {REUSED}", key(KEY).digest()));
        assert!(!format!("{error:?}").contains(KEY));
    }
    let header = client
        .post(server.url("/x"))
        .header("idempotency-key", KEY)
        .body("amount=2");
    assert_eq!(header.send().await.unwrap_err().kind(), ErrorKind::Key);
    server.assert_hits(3);
}

#[tokio::test]
async fn the_check_is_of_one_client_of_one_server_and_of_given_keys() {
    let server = ScriptedServer::always(Step::reply(200, &[], "{}"));
    let elsewhere = ScriptedServer::always(Step::reply(200, &[], "{}"));
    let first = client(Contract::generic());
    let send = |client: &Client, url: String, body: &'static str| {
        client.post(url).body(body).idempotent_with(key(KEY)).send()
    };
    send(&first, server.url("/x"), "amount=1").await.unwrap();
    send(&first, elsewhere.url("/x"), "amount=2").await.unwrap();
    send(&client(Contract::generic()), server.url("/x"), "amount=3")
        .await
        .unwrap();

    let builder = Client::builder().policy(RetryPolicy::immediate(1));
    let careless = builder.allow_key_reuse().build().unwrap();
    send(&careless, server.url("/x"), "amount=4").await.unwrap();
    send(&careless, server.url("/x"), "amount=5").await.unwrap();

    // A drawn key is not looked at, not even one that is no good.
    let source = idempotency::KeySource::fixed(key(KEY));
    let builder = Client::builder().policy(RetryPolicy::immediate(1));
    let drawing = builder.key_source(source).build().unwrap();
    for body in ["amount=6", "amount=7"] {
        drawing
            .post(server.url("/x"))
            .body(body)
            .idempotent()
            .send()
            .await
            .unwrap();
    }
    // What is in a stream nobody knows.
    for body in ["amount=8", "amount=9"] {
        let stream = reqwest::Body::wrap(http_body_util::Full::<bytes::Bytes>::from(body));
        let request = first.post(server.url("/streams")).body(stream);
        request.idempotent_with(key("k-2")).send().await.unwrap();
    }
}

#[tokio::test]
async fn the_check_holds_in_a_foreign_stack_too() {
    let server = ScriptedServer::always(Step::reply(200, &[], "{}"));
    let middleware = IdempotencyMiddleware::new().policy(RetryPolicy::immediate(1));
    let stack = |middleware| {
        reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
            .with(middleware)
            .build()
    };
    let send = |client: &reqwest_middleware::ClientWithMiddleware, body: &'static str| {
        let request = client.post(server.url("/x")).body(body);
        request.idempotent_with(key(KEY)).send()
    };
    let client = stack(middleware.clone());
    send(&client, "amount=1").await.unwrap();
    send(&stack(middleware.clone()), "amount=1").await.unwrap();
    let error = send(&client, "amount=2").await.unwrap_err();
    let error = idempotency::Error::from_middleware(&error).unwrap();
    assert_eq!(error.kind(), ErrorKind::Key);
    server.assert_hits(2);
    let careless = stack(middleware.allow_key_reuse());
    send(&careless, "amount=2").await.unwrap();
}

/// A server's contract with an echo of the key.
fn echoing() -> Contract {
    let echo = MarkerRule::Echo {
        header: "idempotency-key".into(),
    };
    Contract::builder("echo").marker(echo).build().unwrap()
}

#[tokio::test]
async fn an_answer_that_names_another_key_is_said_to_and_called_neither_fresh_nor_replayed() {
    let trace = Captured::start();
    for lines in [
        vec![("idempotency-key", "k-2")],
        vec![
            ("idempotency-key", "\"k-2\""),
            ("idempotent-replayed", "true"),
        ],
    ] {
        let server = ScriptedServer::new([Step::reply(200, &lines, "{}")]);
        let operation = client(echoing()).post(server.url("/x")).idempotent();
        let response = operation.send().await.unwrap();
        assert!(response.report().echo_mismatch());
        assert_eq!(response.replay(), Replay::Unknown);
    }
    let warnings = warnings(&trace);
    assert_eq!(
        warnings,
        ["the server echoed another key: the answer may be that of another operation"; 2]
    );
    trace.assert_absent("k-2");
}

#[tokio::test]
async fn an_echo_of_the_same_key_in_any_form_and_no_echo_are_right() {
    let trace = Captured::start();
    let upper = KEY.to_uppercase();
    let quoted = format!("\"{KEY}\"");
    for lines in [
        vec![],
        vec![("idempotency-key", KEY)],
        vec![("idempotency-key", &*upper)],
        vec![("idempotency-key", &*quoted)],
        vec![("idempotency-key", KEY), ("idempotency-key", "k-2")],
        vec![("idempotency-key", "no key")],
    ] {
        let server = ScriptedServer::new([Step::reply(200, &lines, "{}")]);
        let operation = client(echoing())
            .post(server.url("/x"))
            .idempotent_with(key(KEY));
        let response = operation.send().await.unwrap();
        assert!(!response.report().echo_mismatch(), "{lines:?}");
    }
    // Without an echo in the contract the header is somebody else's.
    let server = ScriptedServer::new([Step::reply(200, &[("idempotency-key", "k-2")], "{}")]);
    let operation = client(Contract::generic())
        .post(server.url("/x"))
        .idempotent();
    let response = operation.send().await.unwrap();
    assert!(!response.report().echo_mismatch());
    assert_eq!(response.replay(), Replay::Fresh);
    assert_eq!(warnings(&trace), [""; 0]);
}

fn warnings(trace: &Captured) -> Vec<String> {
    trace
        .events()
        .iter()
        .filter(|event| event.level == tracing::Level::WARN)
        .map(|event| event.field("message").unwrap_or_default().to_owned())
        .collect()
}

/// Sends operations whose first answer is lost; the second has these headers.
async fn repeats(client: &Client, server: &ScriptedServer, count: usize) {
    for _ in 0..count {
        let operation = client.post(server.url("/x")).body("{}").idempotent();
        operation.send().await.unwrap();
    }
}

fn losing_every_other(lines: Vec<(&'static str, &'static str)>) -> ScriptedServer {
    let mut hits = 0;
    ScriptedServer::answering(move |_| {
        hits += 1;
        if hits % 2 == 1 {
            Step::read_then_close()
        } else {
            Step::reply(200, &lines, "{}")
        }
    })
}

#[tokio::test]
async fn a_server_that_should_mark_its_replays_and_never_does_is_said_once() {
    let trace = Captured::start();
    let (silent, marking) = (
        losing_every_other(vec![]),
        losing_every_other(vec![("idempotent-replayed", "true")]),
    );
    let increase = client(named("increase"));
    repeats(&increase, &silent, 2).await;
    assert_eq!(warnings(&trace), [""; 0]);
    repeats(&increase, &silent, 5).await;
    repeats(&increase, &marking, 5).await;
    let said = warnings(&trace);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("the contract says that replays are marked"),
        "{said:?}"
    );

    // Who says nothing of markers is not expected to have them, and neither is who answered at the first attempt.
    repeats(&client(named("square")), &silent, 5).await;
    let fresh = ScriptedServer::always(Step::reply(200, &[], "{}"));
    repeats(&client(named("increase")), &fresh, 5).await;
    assert_eq!(warnings(&trace).len(), 1);
}
