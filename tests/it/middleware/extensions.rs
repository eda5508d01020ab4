//! What an attempt finds in its extensions, and what the caller finds there afterwards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Extensions;
use idempotency::{Replay, Report, RequestBuilderExt as _};
use reqwest_middleware::Middleware;

use super::{foreign, layer, ours, stack};
use crate::support::{ScriptedServer, Step};

/// What the caller put there.
#[derive(Clone, Debug, PartialEq)]
struct Callers(u32);

/// What the first attempt alone leaves.
#[derive(Clone, Debug)]
struct First;

/// What every attempt leaves.
#[derive(Clone, Debug, PartialEq)]
struct Turn(u32);

/// Changes the caller's value, and leaves marks. Expects a clean copy each time.
fn marking() -> impl Middleware {
    let turn = AtomicU32::new(0);
    layer(move |request, extensions, next| {
        let turn = turn.fetch_add(1, Ordering::SeqCst);
        assert_eq!(extensions.get(), Some(&Callers(7)), "attempt {turn}");
        assert!(extensions.get::<First>().is_none() && extensions.get::<Turn>().is_none());
        extensions.insert(Callers(100 + turn));
        extensions.insert(Turn(turn));
        if turn == 0 {
            extensions.insert(First);
        }
        next.run(request, extensions)
    })
}

/// Also where the caller has put nothing there, and nothing had to be copied.
#[tokio::test(start_paused = true)]
async fn no_attempt_finds_what_another_has_left() {
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::reply(503, &[], ""),
        Step::reply(201, &[], ""),
    ]);
    let turn = AtomicU32::new(0);
    let leaving = layer(move |request, extensions, next| {
        assert_eq!(extensions.get::<Turn>(), None);
        extensions.insert(Turn(turn.fetch_add(1, Ordering::SeqCst)));
        next.run(request, extensions)
    });
    let client = stack().with(ours(3)).with(leaving).build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    request.send().await.unwrap();
    server.assert_one_operation(3);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_starts_from_the_callers_and_the_last_one_replaces_them() {
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::read_then_close(),
        Step::reply(200, &[], ""),
    ]);
    let client = stack().with(ours(3)).with(marking()).build();
    let request = client
        .put(server.url("/orders/1"))
        .body("x")
        .build()
        .unwrap();
    let mut extensions = Extensions::new();
    extensions.insert(Callers(7));
    client
        .execute_with_extensions(request, &mut extensions)
        .await
        .unwrap();
    assert_eq!(extensions.get(), Some(&Callers(102)));
    assert_eq!(extensions.get(), Some(&Turn(2)));
    assert!(extensions.get::<First>().is_none());
    assert_eq!(
        extensions.len(),
        3,
        "the caller's, the middleware's, and the operation"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_operation_is_left_behind() {
    for step in [
        Step::reply(200, &[], ""),
        Step::read_then_close(),
        Step::stall_before_headers(),
    ] {
        let server = ScriptedServer::always(step);
        let client = foreign(1);
        let request = client.post(server.url("/orders")).build().unwrap();
        let mut extensions = Extensions::new();
        let _ = client
            .execute_with_extensions(request, &mut extensions)
            .await;
        assert_eq!(extensions.len(), 1);
    }
}

/// The extensions of the answer, on the other hand, are the transport's and the report.
#[tokio::test(start_paused = true)]
async fn an_answer_keeps_its_own_extensions_and_address() {
    let server = ScriptedServer::new([Step::reply(200, &[], "body")]);
    let adding = layer(|request, extensions, next| {
        Box::pin(async {
            let mut answer = next.run(request, extensions).await?;
            answer.extensions_mut().insert(First);
            Ok(answer)
        })
    });
    let client = stack().with(ours(1)).with(adding).build();
    let request = client
        .post(server.url("/orders"))
        .header("idempotency-key", "k-1");
    let response = request.send().await.unwrap();
    assert!(response.extensions().get::<First>().is_some());
    assert!(Report::of(&response).is_some());
    assert_eq!(response.remote_addr(), Some(server.addr()));
    assert_eq!(response.version(), http::Version::HTTP_11);
    assert_eq!(response.content_length(), Some(4));
}

/// A middleware after ours that leaves nothing in the extensions does not make another operation of the second call.
#[tokio::test(start_paused = true)]
async fn an_operation_stays_where_an_attempt_has_emptied_the_extensions() {
    // Once the first call ends in an answer, and once it is dropped on its way.
    for first in [Step::reply(401, &[], ""), Step::stall_before_headers()] {
        let emptying = || {
            layer(|request, extensions, next| {
                extensions.clear();
                extensions.insert(First);
                next.run(request, extensions)
            })
        };
        let twice = layer(|request, extensions, next| {
            Box::pin(async move {
                let again = request.try_clone().unwrap();
                let first = next.clone().run(request, extensions);
                let _ = tokio::time::timeout(Duration::from_secs(1), first).await;
                next.run(again, extensions).await
            })
        });
        let server = ScriptedServer::new([first, Step::reply(201, &[], "")]);
        let client = stack()
            .with(twice)
            .with(ours(2).key_posts_and_patches())
            .with(emptying())
            .build();
        let response = client.post(server.url("/orders")).body("x").send().await;
        server.assert_one_operation(2);
        let response = response.unwrap();
        let report = Report::of(&response).unwrap();
        assert_eq!(report.replay(), Replay::Unknown);
    }
}
