//! Ten contracts that differ most, written by hand from their sources: the bytes on the wire, and what each documented answer
//! means. Nothing here looks at the contracts' data.

mod messages;
mod payments;
mod payouts;
mod standards;

use idempotency::{Contract, IdempotentRequest};

use super::{KEY, client, key};
use crate::support::{Arrival, ScriptedServer, Step, header_lines};

/// The request that `operation` makes of a client with this contract, as the server receives it.
async fn on_the_wire(
    contract: Contract,
    operation: impl FnOnce(&idempotency::Client, String) -> IdempotentRequest,
) -> Arrival {
    let server = ScriptedServer::new([Step::reply(200, &[], "{}")]);
    let client = client(contract);
    let operation = operation(&client, server.url("/x"));
    operation.send().await.unwrap();
    server.assert_hits(1);
    server.arrivals().remove(0)
}

/// A JSON POST with this body and the key of an earlier life.
fn post(body: &'static str) -> impl FnOnce(&idempotency::Client, String) -> IdempotentRequest {
    move |client, url| {
        let request = client.post(url).header("content-type", "application/json");
        request.body(body).idempotent_with(key(KEY))
    }
}

/// Asserts every byte that carries the key: its header lines, the target and the body.
#[track_caller]
fn assert_wire(arrival: &Arrival, header: Option<(&str, &str)>, target: &str, body: &str) {
    assert_eq!(arrival.method, "POST");
    assert_eq!(arrival.target, target);
    assert_eq!(String::from_utf8_lossy(&arrival.body), body);
    let length = arrival.body.len().to_string();
    assert_eq!(header_lines(arrival, "content-length"), [length.as_str()]);
    let with_the_key: Vec<_> = arrival
        .headers
        .iter()
        .filter(|(_, value)| value.contains(&KEY[24..]))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(with_the_key, Vec::from_iter(header));
}
