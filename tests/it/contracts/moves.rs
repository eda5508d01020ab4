//! An operation that changes its contract, is written down, or has a key made for it.

use idempotency::contract::{Carrier, Companion, Window, named as all_named};
use idempotency::{Client, Contract, Effect, ErrorKind, Pending};
use proptest::prelude::*;

use super::carriers::{form, graphql, json, query};
use super::{KEY, client, key, named};
use crate::support::{ScriptedServer, Step, header_lines};

#[tokio::test]
async fn another_contract_takes_the_key_out_of_where_it_was_put() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let text = r#"{"amount":1}"#;
    let all = [
        json(),
        graphql(),
        query(),
        Contract::generic(),
        Contract::ietf_draft(),
    ]
    .map(|contract| (client(contract.clone()), contract));
    for (client, first) in &all {
        for (direct, second) in &all {
            let operation = client.post(server.url("/x")).body(text).idempotent();
            let drawn = operation.key().cloned().unwrap();
            let operation = operation.contract(second.clone());
            assert_eq!(operation.key(), Some(&drawn));
            let response = operation.send().await.unwrap();
            assert_eq!(response.replay(), idempotency::Replay::Fresh);
            let changed = server.arrivals().pop().unwrap();

            let direct = direct.post(server.url("/x")).body(text);
            let direct = direct.idempotent_with(drawn.clone());
            direct.send().await.unwrap();
            let expected = server.arrivals().pop().unwrap();
            let told = |arrival: &crate::support::Arrival| {
                let key: Vec<_> = header_lines(arrival, "idempotency-key")
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                (arrival.target.clone(), arrival.body.clone(), key)
            };
            assert_eq!(
                told(&changed),
                told(&expected),
                "{} then {}",
                first.name(),
                second.name()
            );
        }
    }
}

#[tokio::test]
async fn another_contract_heals_what_the_clients_own_one_refused() {
    let server = ScriptedServer::new([Step::reply(200, &[], ""), Step::reply(200, &[], "")]);
    let operation = client(json())
        .post(server.url("/x"))
        .body("a=1")
        .idempotent();
    assert_eq!(
        operation.to_pending().unwrap_err().kind(),
        ErrorKind::Contract
    );
    let operation = operation.contract(form());
    operation.send().await.unwrap();
    let arrival = &server.arrivals()[0];
    let key = operation.key().unwrap();
    assert_eq!(arrival.body, format!("a=1&ClientToken={key}").into_bytes());

    let post_only = Contract::builder("post only")
        .methods([http::Method::POST])
        .build()
        .unwrap();
    let operation = client(post_only)
        .put(server.url("/x"))
        .body("{}")
        .idempotent();
    assert_eq!(
        operation.to_pending().unwrap_err().kind(),
        ErrorKind::Contract
    );
    operation
        .contract(Contract::generic())
        .send()
        .await
        .unwrap();
    server.assert_hits(2);
}

#[tokio::test]
async fn a_written_down_operation_is_the_same_request_again() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    for contract in [
        json(),
        graphql(),
        query(),
        named("amazon-pay"),
        Contract::ietf_draft(),
    ] {
        let client = client(contract);
        let operation = client
            .post(server.url("/x?a=1"))
            .body(r#"{"amount":1}"#)
            .idempotent();
        operation.send().await.unwrap();
        let saved = serde_json::to_string(&operation.to_pending().unwrap()).unwrap();
        let pending: Pending = serde_json::from_str(&saved).unwrap();
        let again = client.resume(&pending);
        assert_eq!(again.key(), operation.key());
        again.send().await.unwrap();
        let arrivals = server.arrivals();
        let [.., first, second] = &arrivals[..] else {
            unreachable!("two hits")
        };
        assert_eq!((&first.target, &first.body), (&second.target, &second.body));
        for name in ["idempotency-key", "x-amz-pay-idempotency-key"] {
            assert_eq!(header_lines(first, name), header_lines(second, name));
        }
    }
}

#[tokio::test]
async fn an_operation_with_a_contract_of_its_own_is_taken_up_under_it() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let shop = Contract::builder("shop")
        .header("x-shop-key")
        .build()
        .unwrap();
    let client = client(Contract::generic());
    let operation = client
        .post(server.url("/x"))
        .idempotent_with(key(KEY))
        .contract(shop.clone());
    let saved = serde_json::to_string(&operation.to_pending().unwrap()).unwrap();
    let pending: Pending = serde_json::from_str(&saved).unwrap();
    client.resume(&pending).contract(shop).send().await.unwrap();
    let arrival = &server.arrivals()[0];
    assert_eq!(header_lines(arrival, "x-shop-key"), [KEY]);
    assert_eq!(header_lines(arrival, "idempotency-key"), [""; 0]);
}

#[tokio::test]
async fn a_catalog_that_takes_only_uuids_of_version_7_is_sent_one() {
    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(200, &[], "")]);
    let window = Window::advertised("PT30M").unwrap();
    let iceberg = named("iceberg-rest").with_window(window).unwrap();
    let operation = client(iceberg.clone())
        .post(server.url("/v1/tables"))
        .body("{}")
        .idempotent();
    operation.send().await.unwrap();
    let sent = key(&server.assert_one_operation(2));
    assert_eq!(Some(&sent), operation.key());
    assert_eq!(sent.uuid().unwrap().get_version_num(), 7);
    assert_eq!(
        iceberg.window().bound(),
        Some(std::time::Duration::from_secs(1800))
    );

    // A key that was sent does not change any more.
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    let generic = client(Contract::generic())
        .post(server.url("/x"))
        .idempotent();
    let drawn = generic.key().cloned();
    let unsent = client(Contract::generic())
        .post(server.url("/x"))
        .idempotent()
        .contract(iceberg.clone());
    assert_eq!(unsent.key().unwrap().uuid().unwrap().get_version_num(), 7);
    generic.send().await.unwrap();
    let generic = generic.contract(iceberg);
    assert_eq!(generic.key(), drawn.as_ref());
    assert_eq!(generic.to_pending().unwrap_err().kind(), ErrorKind::Key);
}

/// A `send` that has not begun has the key already, and would be a second operation beside one with another.
#[tokio::test]
async fn a_key_that_a_send_has_does_not_change_any_more() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let iceberg = named("iceberg-rest");
    let request = || client(Contract::generic()).post(server.url("/x"));
    let operation = request().idempotent();
    let drawn = operation.key().cloned();
    let first = operation.send();
    let operation = operation.contract(iceberg.clone());
    assert_eq!(operation.key(), drawn.as_ref());
    // Also by way of a copy that was made before.
    let operation = operation.stream_answer().contract(iceberg.clone());
    assert_eq!(operation.key(), drawn.as_ref());
    assert_eq!(
        operation.send().await.unwrap_err().kind(),
        ErrorKind::Key,
        "this contract takes no such key"
    );
    first.await.unwrap();
    assert_eq!(server.assert_one_operation(1), drawn.unwrap().as_str());

    // Nobody has the key of a `send` that was dropped before it began.
    let operation = request().idempotent();
    let dropped = operation.send();
    let operation = operation.stream_answer();
    drop(dropped);
    let operation = operation.contract(iceberg);
    let key = operation.key().unwrap();
    assert_eq!(key.uuid().unwrap().get_version_num(), 7);
}

/// What `to_pending` refuses is refused as by `send`: the operation may have been sent before.
#[tokio::test(start_paused = true)]
async fn an_operation_that_may_be_done_is_not_said_to_be_undone_when_it_cannot_be_written_down() {
    let server = ScriptedServer::new([Step::stall_before_headers()]);
    let operation = client(Contract::generic())
        .post(server.url("/x"))
        .idempotent();
    let sent = tokio::time::timeout(std::time::Duration::from_secs(1), operation.send());
    assert!(sent.await.is_err());
    let operation = operation.contract(json());
    assert!(operation.to_pending().is_ok());
    let operation = operation.contract(named("iceberg-rest"));
    for error in [
        operation.send().await.unwrap_err(),
        operation.to_pending().unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Key, Effect::Unknown)
        );
    }
}

#[tokio::test]
async fn a_client_chosen_expiration_is_the_same_on_every_attempt() {
    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(200, &[], "")]);
    let day = std::time::Duration::from_secs(86_400);
    let courier = named("courier")
        .to_builder()
        .companion(Companion::ExpiresAt {
            header: "x-idempotency-expiration".into(),
            keep: 7 * day,
        });
    let before = std::time::SystemTime::now() + 7 * day;
    let operation = client(courier.build().unwrap())
        .post(server.url("/send"))
        .idempotent();
    operation.send().await.unwrap();
    let arrivals = server.arrivals();
    let [first, second] =
        [0, 1].map(|index| header_lines(&arrivals[index], "x-idempotency-expiration"));
    assert_eq!(first, second);
    let until: u64 = first[0].parse().unwrap();
    let expected = before
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    assert!(u128::from(until).abs_diff(expected) < 60_000, "{until}");
}

#[test]
fn every_place_is_in_use_by_a_named_contract() {
    let carriers: Vec<_> = all_named::all()
        .map(|named| named.contract().carrier().clone())
        .collect();
    let count = |is: fn(&Carrier) -> bool| carriers.iter().filter(|carrier| is(carrier)).count();
    assert!(count(|carrier| matches!(carrier, Carrier::Header(_))) > 20);
    assert!(count(|carrier| matches!(carrier, Carrier::JsonPointer(_))) > 5);
    assert!(count(|carrier| matches!(carrier, Carrier::FormField(_))) >= 1);
    assert!(count(|carrier| matches!(carrier, Carrier::QueryParameter(_))) >= 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_drawn_key_is_sent_under_every_named_contract(seed: u64) {
        let source = idempotency::KeySource::seeded(seed);
        let client = Client::builder().key_source(source).build().unwrap();
        for found in all_named::all() {
            let contract = found.contract();
            let request = client.post("http://127.0.0.1:9/x");
            let request = match contract.carrier() {
                Carrier::FormField(_) => request.form(&[("a", "1")]),
                _ => request.body("{}"),
            };
            let pending = request.idempotent().contract(contract).to_pending();
            prop_assert!(pending.is_ok(), "{}: {:?}", found.name(), pending.err());
        }
    }
}
