//! Every named contract is played by a server that keeps to its data, against a client that loses answers. Whatever is lost, the
//! operation is done once.

mod server;

use http::StatusCode;
use idempotency::contract::{Carrier, FailureStorage, Meaning, MismatchDetection, named};
use idempotency::{Client, Contract, Effect, ErrorKind, IdempotentRequest, Replay, RequestBuilder};
use serde_json::json;

use self::server::{First, key_in, own, server};
use super::{client, headers};

/// A payment under the contract. One client has all of them: building one for each takes its time.
fn pay(client: &Client, contract: &Contract, url: String, amount: u32) -> IdempotentRequest {
    payment(client, contract, url, amount)
        .idempotent()
        .contract(contract.clone())
}

fn payment(client: &Client, contract: &Contract, url: String, amount: u32) -> RequestBuilder {
    let request = client.post(url);
    match contract.carrier() {
        Carrier::FormField(_) => request.form(&[("amount", amount)]),
        _ => request.json(&json!({ "amount": amount })),
    }
}

fn all() -> impl Iterator<Item = Contract> {
    let named = named::all().map(|named| named.contract());
    std::iter::once(Contract::generic()).chain(named)
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_had_without_a_second_execution() {
    let client = client(Contract::generic());
    for contract in all() {
        let (server, store) = server(&contract, First::Lost);
        let operation = pay(&client, &contract, server.url("/x"), 100);
        let response = operation
            .send()
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", contract.name()));
        let name = contract.name();
        assert_eq!(store.lock().unwrap().executed, 1, "{name}");
        server.assert_hits(2);
        let sent = contract
            .key_text(operation.key().unwrap())
            .unwrap()
            .into_owned();
        for arrival in server.arrivals() {
            assert_eq!(key_in(&contract, &arrival), sent, "{name}");
        }
        let already_done = own(&contract, Meaning::AlreadyDone);
        let told = contract.marks_replays() || already_done.is_some();
        let expected = if told {
            Replay::Replayed
        } else {
            Replay::Unknown
        };
        assert_eq!(response.replay(), expected, "{name}");
        assert_eq!(response.is_already_done(), already_done.is_some(), "{name}");
        let names_it = already_done.is_some_and(|sent| sent.body.contains("existing-1"));
        assert_eq!(
            response.existing_resource(),
            names_it.then_some("existing-1"),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_progress_is_waited_for_without_a_second_execution() {
    let client = client(Contract::generic());
    for contract in all() {
        let (server, store) = server(&contract, First::Running);
        let operation = pay(&client, &contract, server.url("/x"), 100);
        let response = operation
            .send()
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", contract.name()));
        let name = contract.name();
        // Servers that block a repeat with a bare 409 cannot say that it still runs: there it is the answer at once.
        let blocks = own(&contract, Meaning::InProgress).is_none()
            && contract
                .read(StatusCode::CONFLICT, &headers(&[]), b"{}")
                .meaning
                == Meaning::AlreadyDone;
        let expected = if blocks { 2 } else { 4 };
        assert_eq!(
            (store.lock().unwrap().executed, server.hits()),
            (1, expected),
            "{name}"
        );
        let success = response.status() == 201;
        assert!(
            success || response.is_already_done(),
            "{name}: {response:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_first_run_is_what_the_contract_says() {
    let client = client(Contract::generic());
    for contract in all() {
        let (server, store) = server(&contract, First::Fails);
        let operation = pay(&client, &contract, server.url("/x"), 100);
        let result = operation.send().await;
        let name = contract.name();
        match contract.failures() {
            // The stored failure is final where it is marked, and otherwise nobody can tell it from another failure.
            FailureStorage::Everything if contract.marks_replays() => {
                let response = result.unwrap();
                assert_eq!(
                    (response.status().as_u16(), response.replay()),
                    (500, Replay::Replayed),
                    "{name}"
                );
                server.assert_hits(2);
            }
            FailureStorage::Everything => {
                let error = result.unwrap_err();
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Status, Effect::Unknown),
                    "{name}"
                );
                server.assert_hits(4);
            }
            FailureStorage::KeyBurned => {
                let error = result.unwrap_err();
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Status, Effect::Unknown),
                    "{name}"
                );
                server.assert_hits(2);
                assert_eq!(store.lock().unwrap().executed, 0, "{name}");
                continue;
            }
            _ => {
                assert_eq!(result.unwrap().status(), 201, "{name}");
                server.assert_hits(2);
            }
        }
        assert_eq!(store.lock().unwrap().executed, 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_with_another_request_executes_nothing() {
    let (first, second) = (client(Contract::generic()), client(Contract::generic()));
    for contract in all() {
        let (server, store) = server(&contract, First::Lost);
        let name = contract.name();
        // A key that the contract takes.
        let drawn = pay(&first, &contract, server.url("/x"), 1);
        let key = drawn.key().unwrap();
        let pay = |client: &Client, amount| {
            let payment = payment(client, &contract, server.url("/x"), amount);
            payment
                .idempotent_with(key.clone())
                .contract(contract.clone())
        };
        pay(&first, 100).send().await.unwrap();
        // This process remembers, whatever the server does.
        let error = pay(&first, 200).send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key, "{name}");
        server.assert_hits(2);
        // Another one does not.
        let response = pay(&second, 200).send().await.unwrap();
        assert_eq!(store.lock().unwrap().executed, 1, "{name}");
        let named = own(&contract, Meaning::Mismatch).is_some();
        let noticed = contract.mismatch() != MismatchDetection::NotDetected;
        assert_eq!(response.is_mismatch(), named && noticed, "{name}");
        assert_ne!(response.replay(), Replay::Fresh, "{name}");
    }
}
