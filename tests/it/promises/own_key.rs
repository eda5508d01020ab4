//! The caller's own key is kept as it is, and what cannot be one key is refused before anything is sent.

use std::sync::{Arc, Mutex};

use http::{Extensions, HeaderMap, HeaderValue, Method};
use idempotency::contract::KeyError;
use idempotency::{
    Client, Contract, Effect, Error, ErrorKind, IdempotencyKey, IdempotentRequest, RequestBuilder,
    RetryPolicy,
};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

use crate::support::{ScriptedServer, Step, Way};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

/// A server that answers the second attempt.
fn server() -> ScriptedServer {
    ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[], "")])
}

fn payment(client: &Client, server: &ScriptedServer) -> RequestBuilder {
    client.post(server.url("/payments")).body("amount=100")
}

/// Asserts that a request is refused before anything is sent, as often as it is sent, and that the caller is told why.
async fn assert_refused(
    operation: &IdempotentRequest,
    server: &ScriptedServer,
    (kind, effect, message): (ErrorKind, Effect, &str),
) {
    for _ in 0..2 {
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!((error.kind(), error.effect()), (kind, effect));
        assert!(error.is_builder());
        assert!(error.attempts().is_empty());
        assert_eq!(error.stopped_by(), None);
    }
    server.assert_hits(0);
}

// B08, B09.
#[tokio::test(start_paused = true)]
async fn a_key_header_next_to_idempotent_is_kept_to_the_letter_on_one_line() {
    for way in Way::ALL {
        for (name, text, value) in [
            ("Idempotency-Key", "k-1", "k-1"),
            ("IDEMPOTENCY-KEY", "K-1", "K-1"),
            ("idempotency-key", "k-1", "\"k-1\""),
            ("idempotency-key", "k-1", "\"k-1\";p=1"),
            ("idempotency-key", "a\"b", "\"a\\\"b\""),
        ] {
            let own = key(text);
            let server = server();
            let request = payment(&way.client(RetryPolicy::immediate(4)), &server);
            let operation = request.header(name, value).idempotent();
            assert_eq!(operation.key(), Some(&own));
            let response = operation.send().await.unwrap();
            assert_eq!(response.idempotency_key(), Some(&own));
            assert_eq!(server.keys(), [[value], [value]]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_header_makes_a_plain_send_a_keyed_operation() {
    for way in Way::ALL {
        let server = server();
        let request = payment(&way.client(RetryPolicy::immediate(4)), &server);
        let response = request
            .header("Idempotency-Key", "k-1")
            .send()
            .await
            .unwrap();
        assert_eq!(response.idempotency_key(), Some(&key("k-1")));
        assert_eq!(server.assert_one_operation(2), "k-1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_given_key_that_equals_the_header_is_that_key() {
    for way in Way::ALL {
        let server = server();
        let request = payment(&way.client(RetryPolicy::immediate(4)), &server);
        let operation = request
            .header("Idempotency-Key", "\"k-1\"")
            .idempotent_with(key("k-1"));
        operation.send().await.unwrap();
        assert_eq!(server.keys(), [["\"k-1\""], ["\"k-1\""]]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_given_key_that_contradicts_the_header_is_refused() {
    for way in Way::ALL {
        let server = ScriptedServer::new([]);
        let request = payment(&way.client(RetryPolicy::immediate(4)), &server);
        let operation = request
            .header("Idempotency-Key", "k-1")
            .idempotent_with(key("k-2"));
        let message = format!(
            "the request carries the key #{} and was given #{}: an operation has one key; the operation may have been executed",
            key("k-1").digest(),
            key("k-2").digest(),
        );
        assert_refused(
            &operation,
            &server,
            (ErrorKind::Key, Effect::Unknown, &message),
        )
        .await;
    }
}

// B08, B10.
#[tokio::test(start_paused = true)]
async fn a_header_that_is_not_exactly_one_key_is_refused() {
    let bytes = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
    for way in Way::ALL {
        for (lines, why) in [
            (
                vec![bytes("k-1"), bytes("k-1")],
                "the key header stands in the request more than once: send it once",
            ),
            (
                vec![bytes("k-1"), bytes("k-2")],
                "the key header stands in the request more than once: send it once",
            ),
            (
                vec![bytes("")],
                "an idempotency key has at least 1 character, this one has none: draw one with `IdempotencyKey::random()`",
            ),
            (
                vec![bytes(&"k".repeat(256))],
                "an idempotency key has at most 255 bytes, this one has 256: derive a short one from the long text with `KeyNamespace::derive`",
            ),
            (
                vec![bytes("k-é")],
                "an idempotency key is visible ASCII (0x21 to 0x7E), this one has byte 0xC3 at position 2: remove it or encode the text",
            ),
            (
                vec![bytes("\"k-1")],
                "the key is not quoted correctly: send it bare, or as one string in double quotes (RFC 9651, section 3.3.3)",
            ),
        ] {
            let server = ScriptedServer::new([]);
            let client = way.client(RetryPolicy::immediate(4));
            let with_lines = || {
                let request = payment(&client, &server);
                lines.iter().fold(request, |request, line| {
                    request.header("Idempotency-Key", line.clone())
                })
            };
            let message = format!(
                "the request's own `idempotency-key` header is no usable key: {why}; the operation may have been executed"
            );
            // The key is the caller's, whatever else was asked for, and this call's failure says nothing about it.
            let operation = with_lines().idempotent();
            assert_eq!(operation.key(), None);
            assert_refused(
                &operation,
                &server,
                (ErrorKind::Key, Effect::Unknown, &message),
            )
            .await;
            let plain = with_lines().send().await.unwrap_err();
            assert_eq!(plain.to_string(), message);
            assert_eq!(plain.effect(), Effect::Unknown);
            server.assert_hits(0);
        }
    }
}

// B10.
#[tokio::test(start_paused = true)]
async fn a_text_that_is_no_key_never_gets_as_far_as_a_request() {
    for (text, error) in [
        ("", KeyError::Empty),
        (&*"k".repeat(256), KeyError::TooLong { length: 256 }),
        (
            "k\n1",
            KeyError::NotVisibleAscii {
                position: 1,
                byte: b'\n',
            },
        ),
        (
            "k\u{e9}",
            KeyError::NotVisibleAscii {
                position: 1,
                byte: 0xC3,
            },
        ),
    ] {
        assert_eq!(IdempotencyKey::parse(text), Err(error));
    }
    let server = ScriptedServer::new([]);
    let client = Client::builder().build().unwrap();
    let operation = payment(&client, &server)
        .header("Idempotency-Key", "k\n1")
        .idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Builder);
    server.assert_hits(0);
}

// B08: nothing can be put on every request that belongs to one operation.
#[test]
fn a_key_in_the_default_headers_is_refused_when_the_client_is_built() {
    let shop = Contract::builder("shop")
        .header("X-Shop-Key")
        .build()
        .unwrap();
    for (contract, name) in [
        (Contract::generic(), "idempotency-key"),
        (Contract::ietf_draft(), "idempotency-key"),
        (shop.clone(), "x-shop-key"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static("s3cret"));
        let builder = Client::builder()
            .default_headers(headers)
            .contract(contract);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        assert_eq!(
            error.to_string(),
            format!(
                "the default headers hold `{name}`: a key belongs to one operation, so it cannot be on every request; the operation was not executed"
            )
        );
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_static("k-1"));
    let elsewhere = Client::builder().default_headers(headers).contract(shop);
    assert!(
        elsewhere.build().is_ok(),
        "under this contract it is a header like any other"
    );
}

#[tokio::test(start_paused = true)]
async fn a_method_that_the_contract_does_not_honour_is_refused_with_the_way_out() {
    for way in Way::ALL {
        for (method, contract) in [
            (Method::PUT, Contract::ietf_draft()),
            (Method::DELETE, Contract::ietf_draft()),
            (Method::PATCH, Contract::stripe()),
            (Method::from_bytes(b"PURGE").unwrap(), Contract::generic()),
        ] {
            let server = ScriptedServer::new([]);
            let message = |effect: &str| {
                format!(
                    "the contract `{}` does not honour keys on {method}: send it without `idempotent`; the operation {effect}",
                    contract.name(),
                )
            };
            let client = way.build(Client::builder().contract(contract.clone()));
            let request = || client.request(method.clone(), server.url("/"));
            let drawn = message("was not executed");
            let expected = (ErrorKind::Contract, Effect::NotExecuted, &*drawn);
            assert_refused(&request().idempotent(), &server, expected).await;
            let given = message("may have been executed");
            let expected = (ErrorKind::Contract, Effect::Unknown, &*given);
            assert_refused(&request().idempotent_with(key("k-1")), &server, expected).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_the_operation_counts_and_not_that_of_the_client() {
    for way in Way::ALL {
        let server = server();
        let builder = Client::builder().policy(RetryPolicy::immediate(4));
        let client = way.build(builder.contract(Contract::ietf_draft()));
        let operation = client.put(server.url("/")).idempotent();
        let drawn = operation.key().cloned();
        let operation = operation.contract(Contract::generic());
        assert_eq!(operation.key(), drawn.as_ref());
        operation.send().await.unwrap();
        assert_eq!(
            Some(server.assert_one_operation(2)),
            drawn.map(|key| key.to_string())
        );
    }
}

/// Notes of every attempt whether its key header is marked as sensitive.
#[derive(Clone, Default)]
struct Sensitive(Arc<Mutex<Vec<bool>>>);

#[async_trait::async_trait]
impl Middleware for Sensitive {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let marked = request.headers()["idempotency-key"].is_sensitive();
        self.0.lock().unwrap().push(marked);
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_is_marked_as_sensitive_wherever_it_comes_from() -> Result<(), Error> {
    let noted = Sensitive::default();
    let client = Client::builder()
        .policy(RetryPolicy::immediate(2))
        .attempt_middleware(noted.clone())
        .build()?;
    let server = ScriptedServer::new(
        [0; 4]
            .into_iter()
            .flat_map(|_| [Step::read_then_close(), Step::reply(201, &[], "")]),
    );
    let request = || payment(&client, &server);
    request().idempotent().send().await?;
    request().idempotent_with(key("k-1")).send().await?;
    request()
        .header("Idempotency-Key", "k-1")
        .idempotent()
        .send()
        .await?;
    request().header("Idempotency-Key", "k-1").send().await?;
    assert_eq!(*noted.0.lock().unwrap(), [true; 8]);
    Ok(())
}
