//! One key per operation: nothing after `.idempotent()` can draw another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use idempotency::contract::Window;
use idempotency::{
    Client, Contract, IdempotencyKey, IdempotentRequest, KeyNamespace, KeySource, Replay,
    RetryPolicy,
};

use super::story;
use crate::support::{Gate, ScriptedServer, Step, Way, header_lines};

const SECOND: Duration = Duration::from_secs(1);

fn patient() -> RetryPolicy {
    RetryPolicy::immediate(4)
}

fn payment(client: &Client, server: &ScriptedServer) -> IdempotentRequest {
    let request = client.post(server.url("/payments?currency=EUR"));
    request.body("amount=100").idempotent()
}

fn text(operation: &IdempotentRequest) -> &str {
    operation.key().unwrap().as_str()
}

// B01, B29.
#[tokio::test(start_paused = true)]
async fn a_reply_lost_mid_body_is_retried_with_the_same_key() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::read_then_close(),
            Step::cut_fixed(200, 100, 10),
            Step::reply(503, &[], "busy"),
            Step::reply(201, &[("Idempotent-Replayed", "true")], "{\"id\":1}"),
        ]);
        let operation = payment(&way.client(patient()), &server);
        let response = operation.send().await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.replay(), Replay::Replayed);
        assert_eq!(
            story(response.attempts()),
            [
                "the connection closed before an answer, maybe processed",
                "200, the answer was cut off, maybe processed",
                "503, maybe processed",
                "201, answered",
            ]
        );
        assert_eq!(response.text().await.unwrap(), "{\"id\":1}");
        assert_eq!(server.assert_one_operation(4), text(&operation));
    }
}

// B01.
#[tokio::test(start_paused = true)]
async fn every_attempt_is_the_same_request_to_the_byte() {
    for way in Way::ALL {
        let busy = |status| Step::reply(status, &[], "");
        let done = Step::reply(201, &[], "");
        let server = ScriptedServer::new([busy(429), busy(500), Step::read_then_reset(), done]);
        let client = way.client(patient());
        let operation = client
            .post(server.url("/payments?b=2&a=1&a=%20"))
            .header("x-trace", "one")
            .header("x-trace", "two")
            .bearer_auth("token")
            .body(vec![0_u8, 255, 13, 10])
            .idempotent();
        operation.send().await.unwrap();
        server.assert_one_operation(4);
        let arrivals = server.arrivals();
        for arrival in &arrivals {
            assert_eq!(arrival.headers, arrivals[0].headers);
            assert_eq!(arrival.target, "/payments?b=2&a=1&a=%20");
            assert_eq!(arrival.body, [0, 255, 13, 10]);
            assert_eq!(header_lines(arrival, "x-trace"), ["one", "two"]);
            assert_eq!(header_lines(arrival, "authorization"), ["Bearer token"]);
            assert_eq!(header_lines(arrival, "content-length"), ["4"]);
        }
    }
}

// B06.
#[tokio::test(start_paused = true)]
async fn the_key_can_be_read_before_the_first_byte_leaves_and_is_a_random_uuid() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let client = way.client(patient());
        let operations = [payment(&client, &server), payment(&client, &server)];
        server.assert_hits(0);
        let mut announced = Vec::new();
        for operation in &operations {
            let key = operation.key().unwrap();
            assert_eq!(key.as_str().len(), 36);
            assert_eq!(key.uuid().unwrap().get_version_num(), 4);
            announced.push(vec![key.to_string()]);
            let response = operation.send().await.unwrap();
            assert_eq!(response.idempotency_key(), Some(key));
        }
        assert_ne!(announced[0], announced[1]);
        assert_eq!(server.keys(), announced);
    }
}

// B02.
#[tokio::test(start_paused = true)]
async fn another_send_is_the_same_operation() {
    for way in Way::ALL {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let operation = payment(&way.client(patient()), &server);
        for _ in 0..3 {
            operation.send().await.unwrap();
        }
        assert_eq!(server.assert_one_operation(3), text(&operation));
    }
}

// B02, B04.
#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_is_taken_up_with_the_same_key() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::stall_before_headers(), Step::reply(201, &[], "")]);
        let operation = payment(&way.client(patient()), &server);
        let impatient = tokio::time::timeout(SECOND, operation.send()).await;
        assert!(impatient.is_err());
        server.assert_hits(1);
        operation.send().await.unwrap();
        assert_eq!(server.assert_one_operation(2), text(&operation));
    }
}

// B67.
#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_in_its_backoff_sends_nothing_more_by_itself() {
    for way in Way::ALL {
        let busy = Step::reply(503, &[("retry-after", "3")], "");
        let server = ScriptedServer::new([busy, Step::reply(201, &[], "")]);
        let operation = payment(&way.client(patient()), &server);
        let impatient = tokio::time::timeout(SECOND, operation.send()).await;
        assert!(impatient.is_err());
        tokio::time::sleep(10 * SECOND).await;
        server.assert_hits(1);
        operation.send().await.unwrap();
        server.assert_one_operation(2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_can_be_spawned_and_outlives_its_operation() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[], "")]);
        let operation = payment(&way.client(patient()), &server);
        let key = operation.key().cloned();
        let sending = tokio::spawn(operation.send());
        drop(operation);
        let response = sending.await.unwrap().unwrap();
        assert_eq!(response.idempotency_key(), key.as_ref());
        assert_eq!(
            Some(server.assert_one_operation(2)),
            key.map(|key| key.to_string())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn sends_at_the_same_time_carry_one_key() {
    for way in Way::ALL {
        let gate = Gate::new();
        let server = ScriptedServer::always(Step::wait_for(&gate, Step::reply(201, &[], "")));
        let operation = payment(&way.client(patient()), &server);
        let sending = tokio::spawn(join_all((0..3).map(|_| operation.send())));
        server.until_hits(3).await;
        gate.open();
        for result in sending.await.unwrap() {
            assert_eq!(result.unwrap().status(), 201);
        }
        assert_eq!(server.assert_one_operation(3), text(&operation));
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_made_before_idempotent_is_another_operation() {
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let client = Client::builder().build().unwrap();
    let request = client.post(server.url("/payments")).body("amount=100");
    let copy = request.try_clone().unwrap();
    let (one, other) = (request.idempotent(), copy.idempotent());
    assert_ne!(one.key(), other.key());
    one.send().await.unwrap();
    other.send().await.unwrap();
    assert_eq!(server.keys(), [[text(&one)], [text(&other)]]);
}

#[tokio::test(start_paused = true)]
async fn keys_come_from_the_clients_key_source() {
    let fixed = IdempotencyKey::parse("order-1").unwrap();
    let drawn = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&drawn);
    let own = KeySource::from_fn(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        IdempotencyKey::parse(format!("own-{number}")).unwrap()
    });
    let seeded = KeySource::seeded(7);
    let expected: Vec<String> = (0..2).map(|_| seeded.draw().to_string()).collect();
    for way in Way::ALL {
        drawn.store(0, Ordering::Relaxed);
        for (source, keys) in [
            (KeySource::fixed(fixed.clone()), ["order-1", "order-1"]),
            (own.clone(), ["own-0", "own-1"]),
            (KeySource::seeded(7), [&expected[0], &expected[1]]),
        ] {
            let lost = Step::read_then_close;
            let done = || Step::reply(201, &[], "");
            let server = ScriptedServer::new([lost(), done(), lost(), done()]);
            let client = way.build(Client::builder().policy(patient()).key_source(source));
            // One draw for each operation, however many attempts it takes.
            for _ in 0..2 {
                payment(&client, &server).send().await.unwrap();
            }
            let [one, other] = keys;
            assert_eq!(server.keys(), [[one], [one], [other], [other]]);
        }
    }
}

// B01, B03, B06.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_saved_parsed_or_derived_is_the_one_on_the_wire() {
    let namespace = KeyNamespace::parse("7c9a3a0e-6d0f-4f5b-9c5e-3f1f1f0a6b11").unwrap();
    let derived = || namespace.derive(["invoice", "2026-0042", "capture"]);
    assert_eq!(derived().uuid().unwrap().get_version_num(), 5);
    let saved = serde_json::to_string(&IdempotencyKey::random()).unwrap();
    for way in Way::ALL {
        for key in [
            derived(),
            serde_json::from_str(&saved).unwrap(),
            IdempotencyKey::parse("k-1").unwrap(),
            IdempotencyKey::parse("k".repeat(255)).unwrap(),
        ] {
            let server = ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[], "")]);
            let client = way.client(patient());
            let request = client.post(server.url("/payments"));
            let operation = request.idempotent_with(key.clone());
            assert_eq!(operation.key(), Some(&key));
            operation.send().await.unwrap();
            assert_eq!(server.assert_one_operation(2), key.as_str());
        }
    }
    // Derived again after a restart it is the same one.
    assert_eq!(derived(), derived());
}

// B109.
#[tokio::test(start_paused = true)]
async fn a_safe_method_is_sent_without_a_key_and_repeated() {
    for way in Way::ALL {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
            let server = ScriptedServer::new([Step::read_then_close(), Step::reply(200, &[], "")]);
            let client = way.client(patient());
            let operation = client.request(method.clone(), server.url("/")).idempotent();
            assert_eq!(operation.key(), None);
            let response = operation.send().await.unwrap();
            assert_eq!(response.idempotency_key(), None);
            assert_eq!(server.keys(), [[""; 0], []], "{method}");
        }
    }
}

// B111.
#[tokio::test(start_paused = true)]
async fn a_contract_changes_how_the_key_is_written_and_never_the_key() {
    let shop = Contract::builder("shop")
        .header("X-Shop-Key")
        .window(Window::Forever)
        .build()
        .unwrap();
    for way in Way::ALL {
        for (contract, header, quote) in [
            (Contract::ietf_draft(), "idempotency-key", "\""),
            (shop.clone(), "x-shop-key", ""),
        ] {
            let lost = Step::read_then_close;
            let server = ScriptedServer::new([lost(), lost(), Step::reply(201, &[], "")]);
            let operation = payment(&way.client(patient()), &server);
            let key = operation.key().unwrap().clone();
            let operation = operation.contract(contract);
            assert_eq!(operation.key(), Some(&key));
            operation.send().await.unwrap();
            server.assert_hits(3);
            let sent = format!("{quote}{key}{quote}");
            for arrival in server.arrivals() {
                assert_eq!(header_lines(&arrival, header), [&sent]);
                let lines = arrival.headers.iter();
                assert_eq!(
                    lines
                        .filter(|(_, value)| value.contains(key.as_str()))
                        .count(),
                    1
                );
            }
        }
    }
}

/// A change of the operation while a `send` of it is held makes a copy of it, which has the same past.
#[tokio::test(start_paused = true)]
async fn an_operation_that_is_changed_while_it_is_sent_remembers_what_was_sent() {
    let server = ScriptedServer::new([Step::stall_before_headers(), Step::reply(201, &[], "")]);
    let client = Client::builder().policy(patient()).build().unwrap();
    let operation = payment(&client, &server);
    let held = operation.send();
    let given_up = tokio::time::timeout(SECOND, operation.send()).await;
    assert!(given_up.is_err());
    let operation = operation.deadline(SECOND * 30);
    let response = operation.send().await.unwrap();
    assert_eq!(response.replay(), Replay::Unknown);
    assert!(response.followed_unknown());
    drop(held);
    server.assert_one_operation(2);
}

/// The client's own headers belong to the operation too, where the request does not set them itself.
#[tokio::test(start_paused = true)]
async fn the_default_headers_are_on_every_attempt_unless_the_request_has_its_own() {
    let server = ScriptedServer::new([Step::reply(503, &[], ""), Step::reply(201, &[], "")]);
    let mut defaults = http::HeaderMap::new();
    for (name, value) in [("x-tenant", "a"), ("x-tenant", "b"), ("x-plan", "basic")] {
        defaults.append(name, http::HeaderValue::from_static(value));
    }
    let client = Client::builder()
        .policy(patient())
        .default_headers(defaults)
        .build()
        .unwrap();
    let request = client.post(server.url("/orders")).header("x-plan", "gold");
    request.body("x").idempotent().send().await.unwrap();
    server.assert_one_operation(2);
    for arrival in server.arrivals() {
        assert_eq!(header_lines(&arrival, "x-tenant"), ["a", "b"]);
        assert_eq!(header_lines(&arrival, "x-plan"), ["gold"]);
    }
}
