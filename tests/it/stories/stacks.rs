//! Other middlewares, before the loop and after it.

use http::Extensions;
use idempotency::{Client, ClientBuilder, Effect, ErrorKind, Replay, StoppedBy};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

use crate::support::{
    Arrivals, ScriptedServer, Step, Tokens, header_lines, hits_at, payment, steady,
};

fn build(builder: ClientBuilder) -> Client {
    let policy = steady().build().unwrap();
    builder.policy(policy).build().unwrap()
}

fn tokens(server: &Arrivals) -> Vec<String> {
    let arrivals = server.arrivals();
    let token = |hit| header_lines(hit, "authorization").concat();
    arrivals.iter().map(token).collect()
}

fn refused() -> Step {
    Step::reply(401, &[], "token expired")
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refreshed_before_the_loop_continues_the_operation() {
    let server = ScriptedServer::new([refused(), Step::reply(201, &[], "")]);
    let client = build(Client::builder().operation_middleware(Tokens::new()));
    let operation = payment(&client, server.url("/payments"));
    let response = operation.send().await.unwrap();
    assert_eq!(response.status(), 201);
    let key = server.assert_one_operation(2);
    assert_eq!(response.idempotency_key().unwrap().as_str(), key);
    assert_eq!(operation.key().unwrap().as_str(), key);
    assert_eq!(tokens(&server), ["token-0", "token-1"]);
    // The report has both calls.
    let numbers: Vec<u32> = response.attempts().iter().map(|a| a.number()).collect();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_runs_out_after_a_lost_attempt_is_refreshed_all_the_same() {
    let server = ScriptedServer::new([
        Step::read_then_reset(),
        refused(),
        Step::reply(201, &[("Idempotent-Replayed", "true")], ""),
    ]);
    let client = build(Client::builder().operation_middleware(Tokens::new()));
    let response = payment(&client, server.url("/payments"))
        .send()
        .await
        .unwrap();
    assert!(response.is_replay());
    server.assert_one_operation(3);
    assert_eq!(tokens(&server), ["token-0", "token-0", "token-1"]);
    assert_eq!(hits_at(&server), [0, 100, 100]);

    // Without the marker the second call still knows of the first one's lost attempt.
    let server = ScriptedServer::new([
        Step::read_then_reset(),
        refused(),
        Step::reply(201, &[], ""),
    ]);
    let client = build(Client::builder().operation_middleware(Tokens::new()));
    let response = payment(&client, server.url("/payments"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.replay(), Replay::Unknown);
    assert!(response.followed_unknown());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refreshed_after_the_loop_is_part_of_one_attempt() {
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        refused(),
        Step::reply(201, &[], ""),
    ]);
    let client = build(Client::builder().attempt_middleware(Tokens::new()));
    let response = payment(&client, server.url("/payments"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.attempts().len(), 2);
    server.assert_one_operation(3);
    assert_eq!(tokens(&server), ["token-0", "token-0", "token-1"]);
    assert_eq!(hits_at(&server), [0, 100, 100]);
}

/// A middleware that calls the rest three times whatever comes of it.
struct ThreeTimes;

#[async_trait::async_trait]
impl Middleware for ThreeTimes {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        for _ in 0..2 {
            let again = request.try_clone().unwrap();
            let _ = next.clone().run(again, extensions).await;
        }
        next.run(request, extensions).await
    }
}

// B76.
#[tokio::test(start_paused = true)]
async fn a_middleware_that_retries_before_the_loop_does_not_multiply_the_attempts() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let client = build(Client::builder().operation_middleware(ThreeTimes));
    let error = payment(&client, server.url("/payments")).send().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
    // Four, and one for each time that somebody insists.
    server.assert_one_operation(4 + 1 + 1);
    assert_eq!(error.attempts().len(), 6);
}

/// A middleware that fails, before or after the rest has run.
struct Broken {
    runs_the_rest: bool,
}

#[async_trait::async_trait]
impl Middleware for Broken {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        if self.runs_the_rest {
            next.run(request, extensions).await?;
        }
        Err(reqwest_middleware::Error::middleware(std::fmt::Error))
    }
}

#[tokio::test(start_paused = true)]
async fn a_middleware_that_fails_before_the_loop_leaves_the_key_in_hand() {
    for runs_the_rest in [false, true] {
        let hits = usize::from(runs_the_rest);
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let broken = Broken { runs_the_rest };
        let client = build(Client::builder().operation_middleware(broken));
        let operation = payment(&client, server.url("/payments"));
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Middleware);
        // What it did with the request, nobody but it knows.
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.key(), operation.key());
        assert_eq!(error.attempts().len(), hits);
        server.assert_hits(hits);
    }
}

#[tokio::test(start_paused = true)]
async fn a_middleware_that_fails_after_the_loop_ends_the_operation() {
    for runs_the_rest in [false, true] {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let broken = Broken { runs_the_rest };
        let client = build(Client::builder().attempt_middleware(broken));
        let operation = payment(&client, server.url("/payments"));
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Middleware);
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
        assert_eq!(error.key(), operation.key());
        assert_eq!(error.attempts().len(), 1);
        server.assert_hits(usize::from(runs_the_rest));
    }
}
