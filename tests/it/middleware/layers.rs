//! Which middlewares run how often, and whose failures count for what.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use idempotency::retry::{Failure, Reach};
use idempotency::{
    Effect, ErrorKind, IdempotencyMiddleware, Replay, Report, RequestBuilderExt as _, StoppedBy,
};
use reqwest_middleware::Middleware;

use super::{Answer, builder, count, counting, foreign, layer, our_error, ours, stack};
use crate::support::{H2Server, H2Step, Refused, ScriptedServer, Step};

fn busy_twice() -> ScriptedServer {
    ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::read_then_close(),
        Step::reply(201, &[], ""),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_middleware_before_ours_runs_once_and_one_after_it_in_every_attempt() {
    let (before, after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let server = busy_twice();
    let client = stack()
        .with(counting(&before))
        .with(ours(3))
        .with(counting(&after))
        .build();
    client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap();
    assert_eq!((count(&before), count(&after)), (1, 3));

    let (before, after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let server = busy_twice();
    let client = builder(3)
        .attempt_middleware(counting(&after))
        .operation_middleware(counting(&before))
        .build()
        .unwrap();
    client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap();
    assert_eq!((count(&before), count(&after)), (1, 3));
    server.assert_one_operation(3);
}

/// Per-attempt headers vary, the key does not (B81).
#[tokio::test(start_paused = true)]
async fn a_middleware_after_ours_can_sign_every_attempt_anew() {
    let turn = Arc::new(AtomicUsize::new(0));
    let signing = {
        let turn = Arc::clone(&turn);
        layer(move |mut request, extensions, next| {
            let signature = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert!(
                !request.headers().contains_key("signature"),
                "attempts share nothing"
            );
            assert!(
                request.headers().contains_key("idempotency-key"),
                "the key can be signed"
            );
            request.headers_mut().insert("signature", signature.into());
            next.run(request, extensions)
        })
    };
    let server = busy_twice();
    let client = stack().with(ours(3)).with(signing).build();
    client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap();
    server.assert_one_operation(3);
    let signatures: Vec<_> = server
        .arrivals()
        .iter()
        .map(|arrival| crate::support::header_lines(arrival, "signature").join(","))
        .collect();
    assert_eq!(signatures, ["0", "1", "2"]);
}

/// B76
#[tokio::test(start_paused = true)]
async fn two_of_our_middlewares_do_not_multiply_the_attempts() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let client = stack().with(ours(2)).with(ours(3)).build();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(our_error(&error).attempts().len(), 2);
    server.assert_one_operation(2);

    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let client = builder(3)
        .operation_middleware(
            IdempotencyMiddleware::new().policy(idempotency::RetryPolicy::immediate(2)),
        )
        .attempt_middleware(ours(5))
        .build()
        .unwrap();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.attempts().len(), 2, "{error:?}");
    server.assert_one_operation(2);
}

/// Also where one in between leaves the second nothing to know the operation by, but the operation itself.
#[tokio::test(start_paused = true)]
async fn two_of_our_middlewares_do_not_hide_attempts_from_each_other() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::reply(503, &[], ""),
        Step::reply(201, &[], ""),
    ]);
    let emptying = layer(|request, extensions, next| {
        extensions.clear();
        next.run(request, extensions)
    });
    let client = stack().with(ours(3)).with(emptying).with(ours(3)).build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let response = request.send().await.unwrap();
    let report = Report::of(&response).unwrap();
    assert_eq!(
        (report.attempts().len(), report.replay()),
        (3, Replay::Unknown)
    );
    server.assert_one_operation(3);
}

/// B76: a retry policy in the caller's reqwest settings is switched off, on HTTP/1.1 and for refused streams of HTTP/2.
#[tokio::test(start_paused = true)]
async fn reqwests_own_retries_are_switched_off() {
    let eager = || {
        reqwest::retry::for_host("127.0.0.1")
            .no_budget()
            .max_retries_per_request(3)
            .classify_fn(|exchange| exchange.retryable())
    };
    let defaults = || {
        idempotency::Client::reqwest_defaults()
            .no_proxy()
            .retry(eager())
    };
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let client = builder(2).reqwest(defaults()).build().unwrap();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.attempts().len(), 2);
    server.assert_one_operation(2);

    let server = H2Server::always(H2Step::refuse_stream());
    let client = builder(2)
        .reqwest(defaults().http2_prior_knowledge())
        .build()
        .unwrap();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.attempts().len(), 2);
    server.assert_one_operation(2);
}

/// A cache, a circuit breaker: there is no attempt to report, and nothing is claimed.
#[tokio::test(start_paused = true)]
async fn an_operation_middleware_may_answer_by_itself() {
    let cached = layer(|_, _, _| {
        Box::pin(async { Ok(reqwest::Response::from(http::Response::new("cached"))) })
    });
    let server = ScriptedServer::new([]);
    let client = builder(3).operation_middleware(cached).build().unwrap();
    let operation = client.post(server.url("/orders")).idempotent();
    let response = operation.send().await.unwrap();
    assert!(response.attempts().is_empty());
    assert_eq!(response.replay(), idempotency::Replay::Unknown);
    assert_eq!(response.idempotency_key(), operation.key());
    assert!(!response.is_buffered());
    assert_eq!(response.text().await.unwrap(), "cached");
    assert_eq!(server.connections(), 0);
}

/// It replaces what the loop has brought: the attempts were made all the same.
#[tokio::test(start_paused = true)]
async fn an_operation_middleware_that_replaces_the_answer_does_not_hide_the_attempts() {
    let replacing = layer(|request, extensions, next| {
        Box::pin(async {
            next.run(request, extensions).await?;
            Ok(reqwest::Response::from(http::Response::new("replaced")))
        })
    });
    let server = busy_twice();
    let client = builder(3).operation_middleware(replacing).build().unwrap();
    let response = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap();
    assert_eq!(response.attempts().len(), 3);
    assert_eq!(response.text().await.unwrap(), "replaced");
}

fn failing() -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(std::io::Error::other("no token"))
}

#[tokio::test(start_paused = true)]
async fn a_middleware_that_fails_is_final_and_proves_nothing() {
    let server = ScriptedServer::new([]);
    let fail = || layer(|_, _, _| Box::pin(async { Err(failing()) }));
    let client = builder(3).attempt_middleware(fail()).build().unwrap();
    let operation = client.post(server.url("/orders")).idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Middleware, Effect::Unknown)
    );
    assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
    let fact = error
        .attempts()
        .iter()
        .map(|attempt| (attempt.failure(), attempt.reach()));
    assert_eq!(
        fact.collect::<Vec<_>>(),
        [(Some(Failure::Middleware), Reach::MaybeProcessed)]
    );
    assert_eq!(error.key(), operation.key());
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "no token");

    let client = builder(3).operation_middleware(fail()).build().unwrap();
    let operation = client.post(server.url("/orders")).idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Middleware, Effect::Unknown)
    );
    assert!(error.attempts().is_empty());
    assert_eq!(
        error.key(),
        operation.key(),
        "with which it can be taken up again"
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "no token");
    assert_eq!(server.connections(), 0);
}

/// It fails when the operation has been executed: what the attempts were is not lost.
#[tokio::test(start_paused = true)]
async fn an_operation_middleware_that_fails_afterwards_does_not_hide_the_attempts() {
    let fail = layer(|request, extensions, next| {
        Box::pin(async {
            next.run(request, extensions).await?;
            Err(failing())
        })
    });
    let server = busy_twice();
    let client = builder(3).operation_middleware(fail).build().unwrap();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Middleware, Effect::Unknown)
    );
    assert_eq!(error.attempts().len(), 3);
}

/// When a middleware of one attempt asks for a token, over a client of its own, from a port that refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    BeforeTheExchange,
    AfterAnAnswer,
    AfterAFailure,
}

fn token(when: Token, refused: &Refused) -> impl Middleware + use<> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = refused.url("/token");
    layer(move |request, extensions, next| -> Answer<'_> {
        let token = http.post(&url).send();
        Box::pin(async move {
            if when == Token::BeforeTheExchange {
                token.await?;
                return next.run(request, extensions).await;
            }
            let answer = next.run(request, extensions).await;
            assert_eq!(answer.is_ok(), when == Token::AfterAnAnswer);
            token.await?;
            answer
        })
    })
}

/// A refused connection of somebody else's request must not pass for one of the operation's.
#[tokio::test(start_paused = true)]
async fn a_refused_token_request_proves_nothing_about_an_operation_that_went_out() {
    let refused = Refused::new();
    for (when, step, reach) in [
        (
            Token::AfterAnAnswer,
            Step::reply(201, &[], ""),
            Reach::MaybeProcessed,
        ),
        (
            Token::AfterAFailure,
            Step::read_then_close(),
            Reach::MaybeProcessed,
        ),
    ] {
        for keyed in [true, false] {
            let server = ScriptedServer::always(step.clone());
            let client = builder(2)
                .attempt_middleware(token(when, &refused))
                .build()
                .unwrap();
            let request = client.post(server.url("/orders")).body("x");
            let sent = if keyed {
                request.idempotent().send().await
            } else {
                request.send().await
            };
            let error = sent.unwrap_err();
            assert_eq!(error.effect(), Effect::Unknown, "{when:?}: {error:?}");
            assert_eq!(error.attempts()[0].reach(), reach, "{when:?}: {error:?}");
            let attempts = if keyed { 2 } else { 1 };
            server.assert_hits(attempts);
        }
    }
    let server = ScriptedServer::new([]);
    let before = token(Token::BeforeTheExchange, &refused);
    let client = builder(2).attempt_middleware(before).build().unwrap();
    let error = client
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        error.effect(),
        Effect::NotExecuted,
        "the operation never went out: {error:?}"
    );
    assert_eq!((error.attempts().len(), server.connections()), (2, 0));
}

/// A middleware that repeats the exchange by itself: the first one may have been executed.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_after_another_exchange_of_the_same_attempt_proves_nothing() {
    let refused = Refused::new();
    let elsewhere = refused.url("/orders");
    let twice = layer(move |request, extensions, next| {
        let own = reqwest::Request::new(http::Method::GET, elsewhere.parse().unwrap());
        Box::pin(async move {
            let _ = next.clone().run(request, extensions).await;
            next.run(own, extensions).await
        })
    });
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let client = builder(2).attempt_middleware(twice).build().unwrap();
    let error = client
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Connect, Effect::Unknown)
    );
    server.assert_hits(1);
}

/// Our own clients know what really went out, also through a chain.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_below_a_chain_is_still_never_sent() {
    let refused = Refused::new();
    let counted = Arc::new(AtomicUsize::new(0));
    let client = builder(2)
        .attempt_middleware(counting(&counted))
        .build()
        .unwrap();
    let error = client
        .post(refused.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Connect, Effect::NotExecuted)
    );
    assert_eq!(count(&counted), 2);
    let server = H2Server::always(H2Step::refuse_stream());
    let prior = idempotency::Client::reqwest_defaults()
        .no_proxy()
        .http2_prior_knowledge();
    let client = builder(2)
        .reqwest(prior)
        .attempt_middleware(counting(&counted))
        .build()
        .unwrap();
    let error = client
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Refused, Effect::NotExecuted)
    );
}

/// In somebody else's stack the report says the same as in our client.
#[tokio::test(start_paused = true)]
async fn the_report_is_in_the_extensions_of_the_answer() {
    let server = busy_twice();
    let request = foreign(3)
        .post(server.url("/orders"))
        .body("x")
        .idempotent();
    let response = request.send().await.unwrap();
    let report = Report::of(&response).unwrap();
    let shown: Vec<_> = report.attempts().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "attempt 1: 503, maybe processed, 0ns; waited 0ns (backoff)",
            "attempt 2: the connection closed before an answer, maybe processed, 0ns; waited 0ns (backoff)",
            "attempt 3: 201, answered, 0ns",
        ]
    );
    assert!(report.is_buffered() && report.followed_unknown());
}

/// Sends every attempt again that got no answer, or this one.
fn repeating(busy: u16) -> impl Middleware {
    layer(move |request, extensions, next| {
        Box::pin(async move {
            let again = request.try_clone().unwrap();
            match next.clone().run(request, extensions).await {
                Ok(answer) if answer.status() != busy => Ok(answer),
                _ => next.run(again, extensions).await,
            }
        })
    })
}

/// A middleware that sends the operation twice in one attempt does not make a first answer of the second.
#[tokio::test(start_paused = true)]
async fn an_answer_to_the_second_request_of_an_attempt_is_not_called_fresh() {
    for (first, followed_unknown) in [
        (Step::read_then_close(), true),
        (Step::reply(503, &[], ""), true),
        (Step::reply(401, &[], ""), false),
    ] {
        let server = ScriptedServer::new([first, Step::reply(201, &[], "")]);
        let client =
            builder(1).attempt_middleware(repeating(if followed_unknown { 503 } else { 401 }));
        let client = client.build().unwrap();
        let operation = client.post(server.url("/orders")).body("x").idempotent();
        let response = operation.send().await.unwrap();
        assert_eq!(
            (response.replay(), response.followed_unknown()),
            (Replay::Unknown, followed_unknown)
        );
        assert_eq!(response.attempts().len(), 1);
        server.assert_one_operation(2);
    }

    // And no settled refusal of it.
    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(403, &[], "")]);
    let client = builder(1).attempt_middleware(repeating(503));
    let client = client.build().unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let error = operation.send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Status, Effect::Unknown)
    );
}
