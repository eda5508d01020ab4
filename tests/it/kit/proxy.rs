//! The fault proxy before servers that know nothing of it.

use std::time::Duration;

use idempotency::testing::Fault::{
    CloseBeforeReading, CommitThenDropReply, CommitThenReset, Crash, CutAnswer, CutChunked,
    Garbage, Pass, RefuseConnections, SlowHandler, StallBeforeHeaders, StallInBody, Status,
};
use idempotency::testing::{ContractServer, Fault, FaultProxy, Faults, Rule};
use idempotency::{Backoff, Client, RetryPolicy};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::raw::Attempt;
use super::{in_a_row, payments};
use crate::support::{H2Server, H2Step, ScriptedServer, Step};

/// A server of the kit's as the real one: it judges what comes through.
async fn real() -> ContractServer {
    payments(ContractServer::builder().retry_after(0), Faults::none()).await
}

fn patient(timeout: u64) -> Client {
    let policy = RetryPolicy::immediate(12)
        .to_builder()
        .attempt_timeout(Duration::from_millis(timeout))
        .build()
        .unwrap();
    Client::builder().policy(policy).build().unwrap()
}

#[tokio::test]
async fn every_fault_is_acted_out_before_a_real_server() {
    in_a_row(|| async {
        for (fault, ran_before_it) in [
            (CloseBeforeReading, false),
            (Status(503), false),
            (Crash, false),
            (SlowHandler(Duration::from_millis(1)), true),
            (CommitThenDropReply, true),
            (CommitThenReset, true),
            (Fault::CommitThenStatus(502), true),
            (CutAnswer { after: 3 }, true),
            (CutChunked { after: 3 }, true),
            (StallBeforeHeaders, true),
            (StallInBody { after: 3 }, true),
            (Garbage, true),
        ] {
            let server = real().await;
            let proxy = FaultProxy::to(server.address())
                .faults([fault.clone()])
                .start()
                .unwrap();
            let url = format!("{}/payments", proxy.uri());
            let operation = patient(2000).post(url).body("amount=100").idempotent();
            let paid = operation.send().await.unwrap();
            assert_eq!(paid.status(), 201, "{fault:?}");
            let took = paid.attempts().len();
            assert_eq!(proxy.requests(), took, "{fault:?}");
            let saw = took - usize::from(!ran_before_it);
            assert_eq!(server.arrivals().len(), saw, "{fault:?}");
            assert_eq!(paid.text().await.unwrap(), r#"{"id":1}"#);
            // The server thinks that it had answered; only the proxy knows better.
            let report = server.verify();
            let findings = report.unwrap_or_else(|report| report);
            let others = findings
                .findings()
                .iter()
                .filter(|f| f.rule != Rule::RetryAfterAnswer);
            assert_eq!(others.count(), 0, "{fault:?}: {findings}");
            assert_eq!(server.executions().into_values().collect::<Vec<_>>(), [1]);
        }
    })
    .await;
}

#[tokio::test]
async fn only_requests_that_are_meant_meet_faults() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(201))
        .mount(&server)
        .await;
    let proxy = FaultProxy::to(*server.address())
        .on(path("/payments"))
        .faults(Faults::always(Status(503)))
        .start()
        .unwrap();
    let to = |target: &str| Attempt::post(proxy.address(), target).status();
    assert_eq!([to("/payments"), to("/orders")], [503, 201]);
}

#[tokio::test]
async fn each_key_goes_through_the_script_by_itself() {
    let server = real().await;
    let proxy = FaultProxy::to(server.address())
        .faults([Status(503), Status(429), Pass])
        .start()
        .unwrap();
    let status = |key: &str| {
        let attempt = Attempt::post(proxy.address(), "/payments");
        attempt.key(key).status()
    };
    assert_eq!(
        ["a", "b", "a", "a", "b"].map(status),
        [503, 503, 429, 201, 429]
    );
    let unkeyed = Attempt::post(proxy.address(), "/payments");
    assert_eq!(unkeyed.status(), 503);
    server.verify().unwrap();
}

#[tokio::test]
async fn connections_requests_and_bytes_are_counted() {
    let server = ScriptedServer::new([
        Step::reply(200, &[], "hello"),
        Step::reply(200, &[], "hello"),
    ]);
    let proxy = FaultProxy::to(server.addr()).start().unwrap();
    let client = reqwest::Client::new();
    let answer = client.get(proxy.uri()).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "hello");
    let (up, down) = (proxy.bytes_from_clients(), proxy.bytes_to_clients());
    assert!(up > 0 && down > 5);
    client
        .get(proxy.uri())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!((proxy.connections(), proxy.requests()), (1, 2));
    assert_eq!(
        (proxy.bytes_from_clients(), proxy.bytes_to_clients()),
        (2 * up, 2 * down)
    );
}

#[tokio::test]
async fn an_answer_passes_as_it_comes() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Case: Kept\r\n\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n";
    let server = ScriptedServer::new([Step::garbage(chunked)]);
    let proxy = FaultProxy::to(server.addr()).start().unwrap();
    let attempt = Attempt::post(proxy.address(), "/");
    let came = tokio::task::spawn_blocking(move || attempt.send());
    assert_eq!(came.await.unwrap().text.as_bytes(), chunked);
}

#[tokio::test]
async fn http2_passes_an_opaque_proxy() {
    in_a_row(|| async {
        let server = H2Server::new([H2Step::reply(201, &[], "paid")]);
        let proxy = FaultProxy::to(server.addr())
            .opaque()
            .faults([CloseBeforeReading, Pass])
            .start()
            .unwrap();
        let client = Client::builder()
            .reqwest(reqwest::Client::builder().http2_prior_knowledge())
            .policy(RetryPolicy::immediate(4))
            .build()
            .unwrap();
        let paid = client
            .post(proxy.uri())
            .body("amount=100")
            .idempotent()
            .send()
            .await;
        let paid = paid.unwrap();
        assert_eq!(paid.status(), 201);
        assert_eq!((proxy.connections(), proxy.requests()), (2, 0));
        server.assert_hits(1);
    })
    .await;
}

#[tokio::test]
async fn an_opaque_proxy_loses_answers_after_the_work_was_done() {
    in_a_row(|| async {
        for fault in [
            CommitThenDropReply,
            CommitThenReset,
            CutAnswer { after: 20 },
            StallBeforeHeaders,
            StallInBody { after: 20 },
            Garbage,
        ] {
            let server = real().await;
            let proxy = FaultProxy::to(server.address())
                .opaque()
                .faults([fault.clone(), Pass])
                .start()
                .unwrap();
            let url = format!("{}/payments", proxy.uri());
            let paid = patient(2000)
                .post(url)
                .body("amount=100")
                .idempotent()
                .send()
                .await;
            assert!(paid.unwrap().is_replay(), "{fault:?}");
            assert_eq!(proxy.connections(), 2, "{fault:?}");
            assert_eq!(server.arrivals().len(), 2, "{fault:?}");
            let _ = server.verify();
        }
    })
    .await;
}

#[tokio::test]
async fn an_opaque_proxy_refuses_faults_that_need_http() {
    let server = MockServer::start().await;
    let proxy = FaultProxy::to(*server.address())
        .opaque()
        .faults([Pass, Status(503)])
        .start();
    assert_eq!(
        proxy.unwrap_err().to_string(),
        "an opaque proxy does not know HTTP and cannot act out `Status(503)`"
    );
}

#[tokio::test]
async fn a_proxy_refuses_connections_for_a_while() {
    in_a_row(|| async {
        let server = real().await;
        let proxy = FaultProxy::to(server.address())
            .faults([RefuseConnections(Duration::from_millis(300)), Pass])
            .start()
            .unwrap();
        let policy = RetryPolicy::immediate(500)
            .to_builder()
            .backoff(Backoff::constant(Duration::from_millis(5)))
            .build()
            .unwrap();
        let client = Client::builder().policy(policy).build().unwrap();
        let url = format!("{}/payments", proxy.uri());
        let paid = client
            .post(url)
            .body("amount=100")
            .idempotent()
            .send()
            .await
            .unwrap();
        assert!(paid.attempts().len() > 1);
        assert_eq!(proxy.requests(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_proxy_before_nothing_closes() {
    let nobody = crate::support::Refused::new();
    let proxy = FaultProxy::to(nobody.addr()).start().unwrap();
    let came = Attempt::post(proxy.address(), "/payments").send();
    assert_eq!(came.text, "");
}

#[tokio::test]
async fn a_proxy_ends_with_its_value() {
    in_a_row(|| async {
        let server = MockServer::start().await;
        let proxy = FaultProxy::to(*server.address())
            .faults(Faults::always(StallBeforeHeaders))
            .start()
            .unwrap();
        let address = proxy.address();
        let attempt = Attempt::post(address, "/payments");
        let open = std::thread::spawn(move || attempt.send());
        while proxy.requests() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(proxy);
        assert_eq!(open.join().unwrap().text, "");
        std::net::TcpListener::bind(address).unwrap();
    })
    .await;
}
