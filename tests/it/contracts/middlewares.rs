//! Middlewares between the loop and the wire: they sign, and they cannot change the operation (B82).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Extensions, HeaderValue, Method};
use idempotency::{
    Client, Contract, Effect, ErrorKind, IdempotencyMiddleware, OperationGuard, Replay,
    RequestBuilderExt as _, RetryPolicy,
};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use super::{KEY, key, named};
use crate::support::{ScriptedServer, Step, header_lines};

/// Does something to the request of every attempt.
#[derive(Clone)]
struct Change(Arc<dyn Fn(&mut Request) + Send + Sync>);

impl Change {
    fn new(change: impl Fn(&mut Request) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }
}

#[async_trait::async_trait]
impl Middleware for Change {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request);
        next.run(request, extensions).await
    }
}

fn with(contract: Contract, middleware: impl Middleware) -> Client {
    Client::builder()
        .contract(contract)
        .policy(RetryPolicy::immediate(4))
        .attempt_middleware(middleware)
        .build()
        .unwrap()
}

fn query_contract() -> Contract {
    named("compute-engine")
}

fn body_contract() -> Contract {
    named("square")
}

#[tokio::test]
async fn a_signature_is_renewed_for_every_attempt_and_the_operation_stays() {
    for contract in [
        Contract::generic(),
        body_contract(),
        query_contract(),
        named("amazon-pay"),
    ] {
        let signed = Arc::new(AtomicU32::new(0));
        let sign = Change::new(move |request| {
            let turn = signed.fetch_add(1, Ordering::SeqCst);
            let signature = HeaderValue::from(turn);
            request.headers_mut().insert("authorization", signature);
            request
                .headers_mut()
                .insert("date", HeaderValue::from_static("now"));
        });
        let server = ScriptedServer::new([
            Step::read_then_close(),
            Step::reply(503, &[], ""),
            Step::reply(201, &[], "{}"),
        ]);
        let client = with(contract.clone(), sign);
        let operation = client.post(server.url("/x")).body("{}").idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(response.status(), 201, "{}", contract.name());
        assert_eq!(response.idempotency_key(), operation.key());
        let arrivals = server.arrivals();
        let signatures: Vec<_> = arrivals
            .iter()
            .map(|arrival| header_lines(arrival, "authorization"))
            .collect();
        assert_eq!(signatures, [["0"], ["1"], ["2"]]);
        for arrival in &arrivals {
            assert_eq!(
                (&arrival.target, &arrival.body),
                (&arrivals[0].target, &arrivals[0].body)
            );
        }
    }
}

// The key was drawn by this call, also where a chain has carried the request to the loop.
#[tokio::test]
async fn a_drawn_key_is_one_behind_middlewares_too() {
    for contract in [
        Contract::generic(),
        Contract::ietf_draft(),
        body_contract(),
        query_contract(),
        named("amazon-pay"),
        named("iceberg-rest"),
    ] {
        let server = ScriptedServer::new([Step::reply(201, &[], "{}")]);
        let client = with(contract.clone(), Change::new(|_| {}));
        let operation = client.post(server.url("/x")).body("{}").idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(response.replay(), Replay::Fresh, "{}", contract.name());
        assert_eq!(response.idempotency_key(), operation.key());
    }
    let server = ScriptedServer::new([Step::reply(201, &[], "{}")]);
    let client = with(named("amazon-pay"), Change::new(|_| {}));
    let given = client
        .post(server.url("/x"))
        .body("{}")
        .idempotent_with(key(KEY));
    let response = given.send().await.unwrap();
    assert_eq!(response.replay(), Replay::Unknown);
    assert_eq!(response.idempotency_key(), Some(&key(KEY)));
}

type Alter = (&'static str, fn(&mut Request));

const ALTER: [Alter; 7] = [
    ("key", |request| {
        request
            .headers_mut()
            .insert("idempotency-key", HeaderValue::from_static("k-2"));
    }),
    ("key", |request| {
        request
            .headers_mut()
            .append("idempotency-key", HeaderValue::from_static("k-2"));
    }),
    ("key", |request| {
        request.headers_mut().remove("idempotency-key");
    }),
    ("body", |request| {
        *request.body_mut() = Some("amount=2".into())
    }),
    ("body", |request| *request.body_mut() = None),
    ("method", |request| *request.method_mut() = Method::PUT),
    ("URL", |request| request.url_mut().set_path("/y")),
];

#[tokio::test]
async fn a_middleware_that_changes_the_operation_stops_it_before_it_is_sent() {
    for (what, alter) in ALTER {
        let server = ScriptedServer::new([]);
        let client = with(Contract::generic(), Change::new(alter));
        let operation = client.post(server.url("/x")).body("amount=1").idempotent();
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Middleware, "{what}");
        assert_eq!(error.effect(), Effect::NotExecuted, "{what}");
        assert_eq!(error.attempts().len(), 1);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(
            source,
            format!(
                "a middleware changed the {what} of the operation; the operation was not executed"
            )
        );
        server.assert_hits(0);
    }
}

#[tokio::test]
async fn a_key_in_the_body_or_in_the_query_is_guarded_with_it() {
    let changes: [(Contract, Alter); 3] = [
        (
            body_contract(),
            ("body", |request| {
                *request.body_mut() = Some(r#"{"idempotency_key":"k-2"}"#.into())
            }),
        ),
        (
            query_contract(),
            ("URL", |request| {
                request.url_mut().set_query(Some("requestId=k-2"))
            }),
        ),
        (
            query_contract(),
            ("URL", |request| {
                request
                    .url_mut()
                    .query_pairs_mut()
                    .append_pair("signature", "s");
            }),
        ),
    ];
    for (contract, (what, alter)) in changes {
        let server = ScriptedServer::new([]);
        let client = with(contract, Change::new(alter));
        let operation = client.post(server.url("/x")).body("{}").idempotent();
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Middleware);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(what), "{source}");
        server.assert_hits(0);
    }
}

#[tokio::test]
async fn what_went_out_before_the_change_is_not_forgotten() {
    let turn = AtomicU32::new(0);
    let from_the_second_on = Change::new(move |request| {
        if turn.fetch_add(1, Ordering::SeqCst) > 0 {
            *request.body_mut() = Some("amount=2".into());
        }
    });
    let server = ScriptedServer::new([Step::read_then_close()]);
    let client = with(Contract::generic(), from_the_second_on);
    let operation = client.post(server.url("/x")).body("amount=1").idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Middleware);
    assert_eq!(error.effect(), Effect::Unknown);
    server.assert_hits(1);
}

/// Fetches a token through the rest of the chain before each attempt.
struct FetchToken(String);

#[async_trait::async_trait]
impl Middleware for FetchToken {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut token = Request::new(Method::POST, self.0.parse().unwrap());
        *token.body_mut() = Some("grant_type=client_credentials".into());
        next.clone().run(token, extensions).await?;
        request
            .headers_mut()
            .insert("authorization", HeaderValue::from_static("Bearer t"));
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn a_middlewares_own_requests_pass() {
    let server = ScriptedServer::always(Step::reply(200, &[], "{}"));
    for contract in [Contract::generic(), body_contract(), query_contract()] {
        let client = with(contract, FetchToken(server.url("/token")));
        let operation = client.post(server.url("/x")).body("{}").idempotent();
        operation.send().await.unwrap();
    }
    let targets: Vec<_> = server
        .arrivals()
        .iter()
        .map(|arrival| arrival.target.clone())
        .collect();
    assert_eq!(
        targets.iter().filter(|target| *target == "/token").count(),
        3
    );
    server.assert_hits(6);
}

#[tokio::test]
async fn a_foreign_stack_has_the_guard_where_it_is_added_last() {
    let (_, alter) = ALTER[3];
    let server = ScriptedServer::new([]);
    let http = reqwest::Client::builder()
        .redirect(idempotency::redirect_policy())
        .build()
        .unwrap();
    let middleware = IdempotencyMiddleware::new()
        .policy(RetryPolicy::immediate(2))
        .trust_redirects();
    let client = reqwest_middleware::ClientBuilder::new(http)
        .with(middleware)
        .with(Change::new(alter))
        .with(OperationGuard::new())
        .build();
    let request = client.post(server.url("/x")).body("amount=1").idempotent();
    let error = request.send().await.unwrap_err();
    let error = idempotency::Error::from_middleware(&error).unwrap();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Middleware, Effect::NotExecuted)
    );
    server.assert_hits(0);

    // Without a loop around it there is no operation to guard.
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    let alone = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(OperationGuard::new())
        .build();
    alone.post(server.url("/x")).send().await.unwrap();
}
