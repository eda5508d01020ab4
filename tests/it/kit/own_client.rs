//! The crate's own client before the contract server: exactly once, whatever goes wrong.

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use idempotency::testing::Fault::{
    CloseBeforeReading, CommitThenDropReply, CommitThenReset, CommitThenStatus, Crash, CutAnswer,
    CutChunked, Garbage, Pass, RefuseConnections, SlowHandler, StallBeforeHeaders, StallInBody,
    Status,
};
use idempotency::testing::{ContractServer, Fault, Faults};
use idempotency::{Backoff, Client, Contract, Effect, Replay, RetryPolicy};

use http::Method;
use idempotency::contract::Carrier;
use wiremock::ResponseTemplate;
use wiremock::matchers::{method, path};

use super::{in_a_row, payments};

/// Every fault after which the operation can be brought to its end at once.
fn faults() -> Vec<Fault> {
    vec![
        Pass,
        CloseBeforeReading,
        Status(503),
        Status(502).times(2),
        Fault::answer(429)
            .with_header("retry-after", "0")
            .with_body("slow down"),
        SlowHandler(Duration::from_millis(5)),
        CommitThenDropReply,
        CommitThenReset,
        CommitThenStatus(504),
        CutAnswer { after: 0 },
        CutAnswer { after: 3 },
        CutAnswer { after: 9999 },
        CutChunked { after: 0 },
        CutChunked { after: 3 },
        CutChunked { after: 9999 },
        StallBeforeHeaders,
        StallInBody { after: 3 },
        Garbage,
    ]
}

fn client(attempts: u32, attempt_timeout: u64) -> Client {
    let policy = RetryPolicy::immediate(attempts)
        .to_builder()
        .attempt_timeout(Duration::from_millis(attempt_timeout))
        .build()
        .unwrap();
    Client::builder().policy(policy).build().unwrap()
}

async fn pay(
    client: &Client,
    server: &ContractServer,
) -> Result<idempotency::Response, idempotency::Error> {
    let url = format!("{}/payments", server.uri());
    client
        .post(url)
        .body("amount=100")
        .idempotent()
        .send()
        .await
}

#[tokio::test]
async fn every_fault_is_met_and_the_operation_runs_exactly_once() {
    in_a_row(|| async {
        for fault in faults() {
            let server = payments(ContractServer::builder(), [fault.clone()]).await;
            let paid = pay(&client(6, 2000), &server).await;
            let paid = paid.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert_eq!(paid.status(), 201, "{fault:?}");
            assert_eq!(paid.text().await.unwrap(), r#"{"id":1}"#, "{fault:?}");
            server.assert_exactly_once();
        }
    })
    .await;
}

#[tokio::test]
async fn every_pair_of_faults_is_met_and_the_operation_runs_exactly_once() {
    // A stall costs a whole timeout, which a hundred pairs cannot have.
    let quick = |fault: &Fault| !matches!(fault, StallBeforeHeaders | StallInBody { .. });
    let all: Vec<_> = faults().into_iter().filter(quick).collect();
    let server = ContractServer::start().await;
    let payments = server.operation(method("POST")).mount();
    let client = client(8, 10_000);
    for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
        payments.set_faults([a.clone(), b.clone()]);
        let paid = pay(&client, &server).await;
        let paid = paid.unwrap_or_else(|error| panic!("{a:?}, {b:?}: {error}"));
        assert_eq!(paid.status(), 201, "{a:?}, {b:?}");
    }
    assert_eq!(payments.executions(), all.len() * all.len());
    server.assert_exactly_once();
}

#[tokio::test]
async fn random_faults_from_a_seed_are_met_and_every_operation_runs_exactly_once() {
    let mut seed = 20_240_229;
    in_a_row(|| {
        seed += 1;
        soak(seed)
    })
    .await;
}

async fn soak(seed: u64) {
    let rates = faults().into_iter().map(|fault| match fault {
        Pass => (Pass, 0),
        StallBeforeHeaders | StallInBody { .. } => (fault, 2),
        fault => (fault, 25),
    });
    let server = payments(ContractServer::builder(), Faults::random(seed, rates)).await;
    let client = client(20, 3000);
    let url = format!("{}/payments", server.uri());
    let operations = (0..100).map(|order| {
        let order = format!("order={order}");
        client.post(&url).body(order).idempotent().send()
    });
    for paid in join_all(operations).await {
        let paid = paid.unwrap();
        assert_eq!(paid.status(), 201);
        if paid.attempts().len() == 1 {
            assert_eq!(paid.replay(), Replay::Fresh);
        }
    }
    assert_eq!(server.executions().len(), 100);
    server.assert_exactly_once();
}

#[tokio::test]
async fn a_server_that_refuses_connections_for_a_while_is_waited_for() {
    in_a_row(|| async {
        let policy = RetryPolicy::builder()
            .max_attempts(NonZeroU32::new(200).unwrap())
            .backoff(Backoff::constant(Duration::from_millis(10)))
            .no_budget()
            .build()
            .unwrap();
        let client = Client::builder().policy(policy).build().unwrap();
        let refused = || RefuseConnections(Duration::from_millis(300));
        // Before the first attempt, and before the second.
        for (story, came) in [
            ([refused(), Pass], 1),
            ([CommitThenDropReply, refused()], 2),
        ] {
            let server = payments(ContractServer::builder(), story).await;
            let paid = pay(&client, &server).await.unwrap();
            assert_eq!(paid.is_replay(), came == 2);
            assert_eq!(server.arrivals().len(), came);
            assert!(paid.attempts().len() > came, "{:?}", paid.attempts());
            server.assert_exactly_once();
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_every_connection_has_certainly_done_nothing() {
    let server = payments(ContractServer::builder(), Faults::none()).await;
    server.refuse_connections(Duration::from_secs(60));
    let error = pay(&client(4, 500), &server).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotExecuted);
    assert!(server.arrivals().is_empty());
}

// B95.
#[tokio::test]
async fn a_server_that_died_with_the_key_holds_it_until_its_lease_ends() {
    let builder = ContractServer::builder().retry_after(0);
    let server = payments(builder, [Crash]).await;
    let client = client(4, 500);
    let url = format!("{}/payments", server.uri());
    let operation = client.post(url).body("amount=100").idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(server.executions().values().all(|runs| *runs == 0));
    server.advance(Duration::from_secs(60));
    assert_eq!(operation.send().await.unwrap().status(), 201);
    server.assert_exactly_once();
}

// B39.
#[tokio::test]
async fn an_operation_in_progress_is_waited_for() {
    in_a_row(|| async {
        let builder = ContractServer::builder().retry_after(0);
        let server = payments(builder, [SlowHandler(Duration::from_millis(300))]).await;
        let paid = pay(&client(4, 100), &server).await.unwrap();
        assert!(paid.is_replay());
        assert_eq!(server.executions().into_values().collect::<Vec<_>>(), [1]);
        server.assert_exactly_once();
    })
    .await;
}

#[tokio::test]
async fn every_named_contract_is_kept_before_a_server_that_plays_it() {
    for name in Contract::names() {
        let contract = Contract::named(name).unwrap();
        let builder = ContractServer::builder().contract(contract.clone());
        let server = builder.start().await;
        server
            .operation(path("/payments"))
            .respond_with(ResponseTemplate::new(201).set_body_json(serde_json::json!({ "id": 1 })))
            .faults([CommitThenDropReply, Status(503)])
            .mount();
        let client = Client::builder()
            .contract(contract.clone())
            .policy(RetryPolicy::immediate(4))
            .build()
            .unwrap();
        let methods = [Method::POST, Method::PATCH, Method::PUT, Method::DELETE];
        let honoured = methods
            .iter()
            .find(|method| contract.honours(method))
            .unwrap();
        let request = client.request(honoured.clone(), format!("{}/payments", server.uri()));
        let request = match contract.carrier() {
            Carrier::FormField(_) => request.form(&[("amount", "100")]),
            _ => request.json(&serde_json::json!({ "amount": 100 })),
        };
        let paid = request.idempotent().send().await;
        let paid = paid.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(paid.status().is_success(), "{name}: {}", paid.status());
        assert_eq!(server.arrivals().len(), 3, "{name}");
        server.assert_exactly_once();
    }
}
