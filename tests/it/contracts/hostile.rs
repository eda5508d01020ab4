//! Answers that are not what the contract expects: no panic, bounded reading, and a definite result only where the contract makes
//! it definite.

use idempotency::contract::{Meaning, Replay, named};
use idempotency::{Contract, Effect, ErrorKind, StoppedBy};
use proptest::prelude::*;

use super::{client, headers, reading};
use crate::support::{ScriptedServer, Step, timed};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn duplicate_and_odd_markers_say_nothing() {
    for lines in [
        vec![
            ("idempotent-replayed", "true"),
            ("idempotent-replayed", "true"),
        ],
        vec![
            ("idempotent-replayed", "true"),
            ("idempotent-replayed", "false"),
        ],
        vec![("idempotent-replayed", "yes")],
        vec![("idempotent-replayed", "")],
        vec![("idempotent-replayed", "true,true")],
        vec![("idempotent-replayed", "\u{e9}")],
        vec![
            ("idempotent-replayed", "true"),
            ("x-idempotency-lookup", "miss"),
        ],
    ] {
        let server = ScriptedServer::new([Step::read_then_close(), Step::reply(200, &lines, "{}")]);
        let operation = client(Contract::generic())
            .post(server.url("/x"))
            .idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(response.replay(), idempotency::Replay::Unknown, "{lines:?}");
        assert!(response.followed_unknown());
    }
}

/// Bodies of a 409 that every contract has to bear.
fn odd_bodies() -> Vec<Vec<u8>> {
    let deep = format!("{}{}", r#"{"error":"#.repeat(20_000), "}".repeat(20_000));
    let many = format!(r#"{{"errors":[{}]}}"#, vec!["{}"; 10_000].join(","));
    [
        "",
        "<html>409</html>",
        r#"{"error":{"code":"idempotency_key_in_use"#,
        r#"{"error":{"code":["idempotency_key_in_use"]}}"#,
        r#"{"error":[],"errors":{},"details":7,"name":null,"type":{"a":1}}"#,
        r#"{"errors":[7,{"code":{"code":"IDEMPOTENCY_KEY_REUSED"}}]}"#,
        r#"[{"name":"concurrent_idempotent_requests"}]"#,
        "\"idempotency_error\"",
        "{\"code\":\"\u{0}\"}",
        "null",
        &deep,
        &many,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into_iter()
    .chain([b"{\"code\":\"\xe9\"}".to_vec(), vec![0xff; 100]])
    .collect()
}

/// Contracts in which a 409 by itself says that the operation was done.
fn takes_any_409_for_done(contract: &Contract) -> bool {
    reading(contract, 409, &[], "").meaning == Meaning::AlreadyDone
}

#[test]
fn no_contract_reads_a_meaning_out_of_a_body_that_is_not_what_it_expects() {
    for found in named::all() {
        let contract = found.contract();
        for body in odd_bodies() {
            let read = contract.read(http::StatusCode::CONFLICT, &headers(&[]), &body);
            let expected = match takes_any_409_for_done(&contract) {
                true => Meaning::AlreadyDone,
                false => Meaning::Plain,
            };
            assert_eq!(
                (read.meaning, read.marker, read.resource),
                (expected, Replay::Unknown, None),
                "{}",
                found.name()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_odd_conflict_after_a_lost_answer_is_no_result() {
    let resend = client(Contract::named("resend").unwrap());
    for body in odd_bodies() {
        let mut first = true;
        let odd = Step::reply(409, &[], body.clone());
        let server = ScriptedServer::answering(move |_| match std::mem::take(&mut first) {
            true => Step::read_then_close(),
            false => odd.clone(),
        });
        let operation = resend.post(server.url("/x")).idempotent();
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InProgress);
        assert_eq!(
            (error.effect(), error.stopped_by()),
            (Effect::Unknown, Some(StoppedBy::InProgressCap))
        );
    }
    // With nothing lost before, it is the drawn key's own answer: nobody else can be running it.
    let server = ScriptedServer::always(Step::reply(409, &[], "<html>409</html>"));
    let operation = resend.post(server.url("/x")).idempotent();
    assert_eq!(operation.send().await.unwrap().status(), 409);
    server.assert_hits(4);
}

#[tokio::test(start_paused = true)]
async fn an_error_page_of_10_mib_is_not_read_to_its_end() {
    let page = vec![b'x'; 10 * MIB];
    for status in [409, 500, 503] {
        let server = ScriptedServer::new([
            Step::reply(status, &[], page.clone()),
            Step::reply(201, &[], "{}"),
        ]);
        let operation = client(Contract::stripe())
            .post(server.url("/x"))
            .body("a=1")
            .idempotent();
        let (response, took) = timed(operation.send()).await;
        assert_eq!(response.unwrap().status(), 201);
        server.assert_one_operation(2);
        // The connection with the rest of the page on it is given up.
        assert_eq!(server.connections(), 2);
        assert!(took.as_secs() <= 1, "{took:?}");
    }
    // A final one is handed on as a stream behind what was read.
    let server = ScriptedServer::new([Step::reply(422, &[], page)]);
    let operation = client(Contract::stripe())
        .post(server.url("/x"))
        .body("a=1")
        .idempotent();
    let response = operation.send().await.unwrap();
    assert!(!response.is_buffered());
    assert_eq!(response.bytes().await.unwrap().len(), 10 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_code_behind_the_part_of_a_page_that_is_read_is_not_there() {
    let page = format!(
        r#"{{"pad":"{}","name":"invalid_idempotent_request"}}"#,
        "x".repeat(300 * 1024)
    );
    let server = ScriptedServer::new([Step::reply(400, &[], page)]);
    let operation = client(Contract::named("resend").unwrap())
        .post(server.url("/x"))
        .idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(!response.is_mismatch());
}

#[tokio::test(start_paused = true)]
async fn a_hostile_hint_is_no_wait() {
    for lines in [
        vec![("retry-after", "-1")],
        vec![("retry-after", "1e9")],
        vec![("retry-after-ms", "nan")],
        vec![("ratelimit", "\"default\";r=0;t=-7")],
        vec![("ratelimit", "\"default;r=0;t=7")],
        vec![
            ("stripe-should-retry", "true"),
            ("stripe-should-retry", "false"),
        ],
    ] {
        let server = ScriptedServer::new([Step::reply(503, &lines, ""), Step::reply(200, &[], "")]);
        let operation = client(Contract::stripe())
            .post(server.url("/x"))
            .body("a=1")
            .idempotent();
        let (response, took) = timed(operation.send()).await;
        assert_eq!(
            (response.unwrap().status().as_u16(), took.as_millis()),
            (200, 0),
            "{lines:?}"
        );
    }
    // A wait of ages is obeyed, by stopping.
    let server = ScriptedServer::new([Step::reply(
        503,
        &[("retry-after", "99999999999999999999")],
        "",
    )]);
    let operation = client(Contract::stripe())
        .post(server.url("/x"))
        .body("a=1")
        .idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.stopped_by(), Some(StoppedBy::Deadline));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_answer_makes_a_contract_panic(
        status in 100_u16..1000,
        name in "[a-z-]{1,20}",
        value in "[ -~]{0,30}",
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            "[\\[\\]{}\":,a-z0-9]{0,60}".prop_map(String::into_bytes),
        ],
    ) {
        let headers = headers(&[(&name, &value)]);
        let status = http::StatusCode::from_u16(status).unwrap();
        for found in named::all() {
            let contract = found.contract();
            let read = contract.read(status, &headers, &body);
            prop_assert_eq!(contract.marker(status, &headers, &body), read.marker);
            let _ = contract.wait_hint(&headers);
        }
    }
}
