//! Every contract on the wire: where the key goes, and what the answers mean.

mod by_hand;
mod carriers;
mod guards;
mod hostile;
mod middlewares;
mod moves;
mod play;
mod polling;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use idempotency::contract::{Meaning, Reading, Replay};
use idempotency::{Client, Contract, IdempotencyKey, RetryPolicy};

/// A key as an application would save it.
const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

/// A client that retries at once.
fn client(contract: Contract) -> Client {
    Client::builder()
        .contract(contract)
        .policy(RetryPolicy::immediate(4))
        .build()
        .unwrap()
}

fn named(name: &str) -> Contract {
    Contract::named(name).unwrap_or_else(|| panic!("no contract {name}"))
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    headers
}

/// What a contract reads from an answer.
fn reading(contract: &Contract, status: u16, lines: &[(&str, &str)], body: &str) -> Reading {
    let status = StatusCode::from_u16(status).unwrap();
    contract.read(status, &headers(lines), body.as_bytes())
}

/// Asserts what an answer without telling headers means.
#[track_caller]
fn assert_means(contract: &Contract, status: u16, body: &str, meaning: Meaning) {
    let read = reading(contract, status, &[], body);
    assert_eq!(
        (read.meaning, read.marker),
        (meaning, Replay::Unknown),
        "{status} {body}"
    );
}
