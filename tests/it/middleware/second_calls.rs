//! A middleware before ours that calls the rest of the chain twice: for the same operation, and for another request.

use std::time::Duration;

use http::Extensions;
use idempotency::retry::Reach;
use idempotency::{Effect, ErrorKind, Report, RequestBuilderExt as _, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};

use super::{builder, layer, our_error, ours, stack};
use crate::support::{Refused, ScriptedServer, Step, timed};

/// On 401: a new token after `pause`, then the request again.
fn refreshing(pause: Duration) -> impl Middleware {
    layer(move |mut request, extensions, next| {
        Box::pin(async move {
            let again = request.try_clone();
            request
                .headers_mut()
                .insert("authorization", "old".parse().unwrap());
            let answer = next.clone().run(request, extensions).await?;
            let Some(mut again) = again.filter(|_| answer.status() == 401) else {
                return Ok(answer);
            };
            drop(answer);
            tokio::time::sleep(pause).await;
            again
                .headers_mut()
                .insert("authorization", "new".parse().unwrap());
            next.run(again, extensions).await
        })
    })
}

fn expired_token() -> ScriptedServer {
    ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::reply(401, &[], ""),
        Step::reply(503, &[], ""),
        Step::reply(201, &[], ""),
    ])
}

fn shown(report: &Report) -> Vec<(u32, u16)> {
    let one =
        |attempt: &idempotency::Attempt| (attempt.number(), attempt.status().unwrap().as_u16());
    report.attempts().iter().map(one).collect()
}

const REFRESHED: [(u32, u16); 4] = [(1, 503), (2, 401), (3, 503), (4, 201)];

#[tokio::test(start_paused = true)]
async fn a_request_sent_again_with_a_new_token_is_the_same_operation() {
    let server = ScriptedServer::new([Step::reply(401, &[], ""), Step::reply(201, &[], "")]);
    let client = stack()
        .with(refreshing(Duration::ZERO))
        .with(ours(3))
        .build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let response = request.send().await.unwrap();
    assert_eq!(shown(Report::of(&response).unwrap()), [(1, 401), (2, 201)]);
    server.assert_one_operation(2);

    let server = ScriptedServer::new([Step::reply(401, &[], ""), Step::reply(201, &[], "")]);
    let client = builder(3)
        .operation_middleware(refreshing(Duration::ZERO))
        .build()
        .unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(shown(response.report()), [(1, 401), (2, 201)]);
    assert_eq!(
        server.assert_one_operation(2),
        operation.key().unwrap().as_str()
    );
}

/// B01: a key that the middleware draws itself is drawn once, too.
#[tokio::test(start_paused = true)]
async fn a_key_drawn_for_every_post_outlives_the_first_call() {
    let client = stack()
        .with(refreshing(Duration::ZERO))
        .with(ours(3).key_posts_and_patches())
        .build();
    let server = ScriptedServer::new([Step::reply(401, &[], ""), Step::reply(201, &[], "")]);
    client
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap();
    server.assert_one_operation(2);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_is_one_operation_as_well() {
    let server = expired_token();
    let client = stack()
        .with(refreshing(Duration::ZERO))
        .with(ours(4))
        .build();
    let response = client
        .put(server.url("/orders/1"))
        .body("x")
        .send()
        .await
        .unwrap();
    assert_eq!(shown(Report::of(&response).unwrap()), REFRESHED);
    assert_eq!(server.keys(), [[""; 0]; 4]);
}

/// The deadline is the operation's, not the call's. What can no more be answered is not sent.
#[tokio::test(start_paused = true)]
async fn the_second_call_has_what_is_left_of_the_deadline() {
    let second = Duration::from_secs(1);
    let policy = RetryPolicy::immediate(3)
        .to_builder()
        .deadline(10 * second)
        .build()
        .unwrap();
    for (pause, hits, took) in [(4, 2, 10), (10, 1, 10), (11, 1, 11)] {
        let server = ScriptedServer::new([
            Step::reply(401, &[], ""),
            Step::after(20 * second, Step::reply(201, &[], "")),
        ]);
        let client = stack()
            .with(refreshing(pause * second))
            .with(ours(1).policy(policy.clone()))
            .build();
        let request = client.post(server.url("/orders")).body("x").idempotent();
        let (sent, elapsed) = timed(request.send()).await;
        let error = sent.unwrap_err();
        let error = our_error(&error);
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Unknown),
            "{pause}"
        );
        assert_eq!(elapsed, took * second, "{pause}");
        assert_eq!(error.attempts().len(), hits, "{pause}");
        server.assert_one_operation(hits);
    }
}

/// Calls the rest of the chain for another request first, or after the operation.
fn with_another(method: &'static str, url: String, first: bool) -> impl Middleware {
    layer(move |request, extensions, next| {
        let other = Request::new(method.parse().unwrap(), url.parse().unwrap());
        Box::pin(both(request, other, first, extensions, next))
    })
}

async fn both(
    request: Request,
    other: Request,
    first: bool,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> reqwest_middleware::Result<Response> {
    if first {
        next.clone().run(other, extensions).await?;
        return next.run(request, extensions).await;
    }
    let answer = next.clone().run(request, extensions).await?;
    next.run(other, extensions).await?;
    Ok(answer)
}

fn beside(method: &'static str, url: String, first: bool) -> ClientWithMiddleware {
    stack()
        .with(with_another(method, url, first))
        .with(ours(2))
        .build()
}

/// Two requests under one key: the second would be answered with the first one's answer, or refused.
#[tokio::test(start_paused = true)]
async fn a_key_is_not_lent_to_another_request() {
    for first in [true, false] {
        let server = ScriptedServer::new([Step::reply(200, &[], "")]);
        let client = beside("POST", server.url("/token"), first);
        let request = client.post(server.url("/orders")).body("x").idempotent();
        let error = request.send().await.unwrap_err();
        let error = our_error(&error);
        assert_eq!(error.kind(), ErrorKind::Key, "{error:?}");
        assert_eq!(
            error.to_string(),
            "the key in these extensions belongs to another request: method, URL or body differ; the operation may have been executed"
        );
        assert!(error.attempts().is_empty());
        server.assert_one_operation(1);
    }
}

/// Not even where the two are under way at the same time.
#[tokio::test(start_paused = true)]
async fn a_key_is_not_lent_to_another_request_meanwhile() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let token = server.url("/token");
    let hedging = layer(move |request, extensions, next| {
        let other = Request::new(http::Method::POST, token.parse().unwrap());
        Box::pin(async move {
            let mut copy = extensions.clone();
            let second = next.clone().run(other, &mut copy);
            let (answer, other) = tokio::join!(next.run(request, extensions), second);
            assert_eq!(our_error(&other.unwrap_err()).kind(), ErrorKind::Key);
            answer
        })
    });
    let client = stack().with(hedging).with(ours(2)).build();
    client
        .post(server.url("/orders"))
        .body("x")
        .idempotent()
        .send()
        .await
        .unwrap();
    server.assert_one_operation(1);
}

/// A look-up needs no key and takes none, and it is no part of the operation's past.
#[tokio::test(start_paused = true)]
async fn a_safe_request_beside_the_operation_does_not_touch_it() {
    for first in [true, false] {
        let server = ScriptedServer::always(Step::reply(201, &[], ""));
        let client = beside("GET", server.url("/discovery"), first);
        let request = client.post(server.url("/orders")).body("x").idempotent();
        let response = request.send().await.unwrap();
        let report = Report::of(&response).unwrap();
        assert_eq!(
            (report.attempts().len(), report.replay()),
            (1, idempotency::Replay::Fresh)
        );
        let mut lengths: Vec<_> = server.keys().iter().map(Vec::len).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [0, 1]);
    }
    let refused = Refused::new();
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let client = beside("GET", server.url("/discovery"), true);
    let request = client.post(refused.url("/orders")).body("x").idempotent();
    let error = request.send().await.unwrap_err();
    assert_eq!(our_error(&error).effect(), Effect::NotExecuted);
}

/// Without keys two different requests are two operations, each with attempts and a past of its own.
#[tokio::test(start_paused = true)]
async fn without_a_key_another_request_is_another_operation() {
    let refused = Refused::new();
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    let client = beside("POST", server.url("/token"), true);
    let error = client
        .post(refused.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap_err();
    let error = our_error(&error);
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Connect, Effect::NotExecuted)
    );
    let reach: Vec<_> = error
        .attempts()
        .iter()
        .map(|attempt| attempt.reach())
        .collect();
    assert_eq!(reach, [Reach::NeverSent; 2]);
    server.assert_hits(1);
}

/// A middleware may drop the first call in mid-flight and call again: it is remembered.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_dropped_in_flight_is_remembered() {
    let server = ScriptedServer::new([Step::stall_before_headers(), Step::reply(201, &[], "")]);
    let impatient = layer(|request, extensions, next| {
        Box::pin(async move {
            let again = request.try_clone().unwrap();
            let first = next.clone().run(request, extensions);
            let first = tokio::time::timeout(Duration::from_secs(1), first).await;
            assert!(first.is_err());
            next.run(again, extensions).await
        })
    });
    let client = stack().with(impatient).with(ours(3)).build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let response = request.send().await.unwrap();
    let report = Report::of(&response).unwrap();
    assert_eq!(report.replay(), idempotency::Replay::Unknown);
    assert!(report.followed_unknown());
    server.assert_one_operation(2);
}

/// Extensions that are used again are the word that it is the same operation.
#[tokio::test(start_paused = true)]
async fn a_key_drawn_for_extensions_stays_in_them() {
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let client = stack().with(ours(2).key_posts_and_patches()).build();
    let mut extensions = Extensions::new();
    for attempts in 1..=2 {
        let request = client
            .post(server.url("/orders"))
            .body("x")
            .build()
            .unwrap();
        let response = client
            .execute_with_extensions(request, &mut extensions)
            .await
            .unwrap();
        assert_eq!(Report::of(&response).unwrap().attempts().len(), attempts);
    }
    server.assert_one_operation(2);
}

/// But not where the caller says with a key of its own that it is another.
#[tokio::test(start_paused = true)]
async fn extensions_that_are_used_again_with_another_key_are_another_operation() {
    let policy = RetryPolicy::immediate(2)
        .to_builder()
        .deadline(Duration::from_secs(10))
        .build()
        .unwrap();
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let client = stack().with(ours(2).policy(policy)).build();
    let mut extensions = Extensions::new();
    for key in ["k-1", "k-2", "k-3"] {
        let request = client
            .post(server.url("/orders"))
            .header("idempotency-key", key)
            .body("x")
            .build()
            .unwrap();
        let response = client
            .execute_with_extensions(request, &mut extensions)
            .await
            .unwrap();
        let report = Report::of(&response).unwrap();
        assert_eq!(report.attempts().len(), 1, "{key}");
        assert_eq!(report.idempotency_key().unwrap().as_str(), key);
        // Longer than one operation may take.
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(server.keys(), [["k-1"], ["k-2"], ["k-3"]]);
}

/// On 401: a token from there, down the same chain with the same extensions, then the request again.
fn asking(place: &str) -> impl Middleware {
    let place: reqwest::Url = place.parse().unwrap();
    layer(move |request, extensions, next| {
        let token = Request::new(http::Method::GET, place.clone());
        Box::pin(async move {
            let mut again = request.try_clone().unwrap();
            let answer = next.clone().run(request, extensions).await?;
            assert_eq!(answer.status(), 401);
            drop(answer);
            let token = next.clone().run(token, extensions).await?.text().await?;
            again
                .headers_mut()
                .insert("authorization", token.parse().unwrap());
            next.run(again, extensions).await
        })
    })
}

fn token_server() -> ScriptedServer {
    ScriptedServer::answering(|arrival| {
        let is_new = arrival.headers.iter().any(|(_, value)| value == "new");
        match arrival.target.as_str() {
            "/token" => Step::reply(200, &[], "new"),
            _ if is_new => Step::reply(201, &[], ""),
            _ => Step::reply(401, &[], ""),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn an_operation_goes_on_after_a_request_for_a_token() {
    const BOTH: [(u32, u16); 2] = [(1, 401), (2, 201)];
    let server = token_server();
    let client = builder(3)
        .operation_middleware(asking(&server.url("/token")))
        .build()
        .unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(shown(response.report()), BOTH);
    let unkeyed = client.put(server.url("/orders/1")).body("x").send();
    assert_eq!(shown(unkeyed.await.unwrap().report()), BOTH);

    let client = stack()
        .with(asking(&server.url("/token")))
        .with(ours(3))
        .build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    // A copy that was made before is another call.
    for request in [request.try_clone().unwrap(), request] {
        let response = request.send().await.unwrap();
        assert_eq!(shown(Report::of(&response).unwrap()), BOTH);
    }
    let unkeyed = client.put(server.url("/orders/1")).body("x").send();
    assert_eq!(shown(Report::of(&unkeyed.await.unwrap()).unwrap()), BOTH);
}
