//! One key, one run: claims, races, and who is told what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use idempotency::contract::problem;
use idempotency::server::{IdempotencyLayer, KeyRule, MemoryStore, Scope};

use super::app::{App, Ask, order};
use super::bed::{Bed, on_both_stores};
use crate::support::Gate;

on_both_stores!(
    a_completed_operation_is_replayed_and_not_run_again,
    of_fifty_identical_requests_at_once_one_runs,
    a_running_operation_is_told_409_with_retry_after,
    a_request_that_waits_gets_the_answer_as_a_replay,
    a_request_that_waits_in_vain_is_told_409,
    a_request_that_waits_runs_when_the_first_one_is_released,
    another_request_under_a_running_or_completed_key_is_told_422,
    a_request_without_a_key_runs_only_where_the_key_is_optional,
    only_the_protected_methods_have_keys,
);

async fn a_completed_operation_is_replayed_and_not_run_again(bed: Bed) {
    let app = App::orders(bed.layer());
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    for _ in 0..3 {
        app.send(Ask::post("k-1")).await.assert_order(1, true);
    }
    app.send(Ask::post("k-2")).await.assert_order(2, false);
    // Keys are case-sensitive, the header's name is not (B09).
    app.send(Ask::post("K-1")).await.assert_order(3, false);
    let upper = Ask::post("").header("IDEMPOTENCY-KEY", "k-1");
    app.send(upper).await.assert_order(1, true);
    assert_eq!(app.runs(), 3);
}

// B83.
async fn of_fifty_identical_requests_at_once_one_runs(bed: Bed) {
    let gate = Gate::new();
    let app = App::gated(bed.layer(), &gate);
    let mut waiting: Vec<_> = (0..50).map(|_| app.spawn(Ask::post("k-1"))).collect();
    gate.reached().await;
    // All but the one that runs are answered while it runs.
    while waiting.len() > 1 {
        let answered = waiting
            .iter()
            .position(tokio::task::JoinHandle::is_finished);
        match answered {
            Some(index) => waiting.remove(index).await.unwrap().assert_in_progress(),
            None => tokio::task::yield_now().await,
        }
    }
    gate.open();
    let last = waiting.remove(0).await.unwrap();
    last.assert_order(1, false);
    assert_eq!(app.runs(), 1);
}

async fn a_running_operation_is_told_409_with_retry_after(bed: Bed) {
    let gate = Gate::new();
    let layer = bed.layer().retry_after(Duration::from_millis(2100));
    let app = App::gated(layer, &gate);
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    let second = app.send(Ask::post("k-1")).await;
    second.assert_problem(409, problem::IN_PROGRESS);
    // Rounded up: a client that comes too early comes twice.
    assert_eq!(second.header("retry-after"), Some("3"));
    gate.open();
    first.await.unwrap().assert_order(1, false);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

// B39, from the server's side.
async fn a_request_that_waits_gets_the_answer_as_a_replay(bed: Bed) {
    let gate = Gate::new();
    let app = App::gated(bed.layer().wait_for_running(Duration::from_secs(20)), &gate);
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    let second = app.spawn(Ask::post("k-1"));
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(!second.is_finished());
    gate.open();
    first.await.unwrap().assert_order(1, false);
    second.await.unwrap().assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

async fn a_request_that_waits_in_vain_is_told_409(bed: Bed) {
    let gate = Gate::new();
    let app = App::gated(
        bed.layer().wait_for_running(Duration::from_millis(80)),
        &gate,
    );
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    app.send(Ask::post("k-1")).await.assert_in_progress();
    gate.open();
    first.await.unwrap().assert_order(1, false);
}

async fn a_request_that_waits_runs_when_the_first_one_is_released(bed: Bed) {
    let gate = Gate::new();
    let runs = Arc::new(AtomicU32::new(0));
    let app = App::new(bed.layer().wait_for_running(Duration::from_secs(20)), {
        let gate = gate.clone();
        move || async move {
            gate.pass().await;
            match runs.fetch_add(1, Ordering::SeqCst) {
                0 => axum::response::IntoResponse::into_response(http::StatusCode::BAD_GATEWAY),
                _ => order(2),
            }
        }
    });
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    let second = app.spawn(Ask::post("k-1"));
    tokio::time::sleep(Duration::from_millis(30)).await;
    gate.open();
    assert_eq!(first.await.unwrap().status, 502);
    second.await.unwrap().assert_order(2, false);
    assert_eq!(app.runs(), 2);
}

// B86: the request is looked at before the state.
async fn another_request_under_a_running_or_completed_key_is_told_422(bed: Bed) {
    let gate = Gate::new();
    let app = App::gated(bed.layer(), &gate);
    let other = || Ask::post("k-1").body(r#"{"amount":200}"#);
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    let running = app.send(other()).await;
    running.assert_problem(422, problem::KEY_REUSED);
    assert_eq!(running.header("retry-after"), None);
    gate.open();
    first.await.unwrap().assert_order(1, false);
    let completed = app.send(other()).await;
    completed.assert_problem(422, problem::KEY_REUSED);
    assert_eq!(app.runs(), 1);
}

async fn a_request_without_a_key_runs_only_where_the_key_is_optional(bed: Bed) {
    let app = App::orders(bed.layer());
    let refused = app.send(Ask::post("")).await;
    refused.assert_problem(400, problem::KEY_MISSING);
    assert_eq!(app.runs(), 0);

    let app = App::orders(bed.layer().optional_key());
    app.send(Ask::post("")).await.assert_order(1, false);
    app.send(Ask::post("")).await.assert_order(2, false);
    app.send(Ask::post("k-1")).await.assert_order(3, false);
    app.send(Ask::post("k-1")).await.assert_order(3, true);

    let rule = |request: &http::request::Parts| match request.uri.path() {
        "/orders" => KeyRule::Optional,
        "/orders/1/cancel" => KeyRule::Required,
        _ => KeyRule::Ignored,
    };
    let app = App::orders(bed.layer().key_rule(rule));
    let cancel = |key| Ask::post(key).path("/orders/1/cancel");
    app.send(Ask::post("")).await.assert_order(1, false);
    let refused = app.send(cancel("")).await;
    refused.assert_problem(400, problem::KEY_MISSING);
    app.send(cancel("k-2")).await.assert_order(2, false);
    app.send(cancel("k-2")).await.assert_order(2, true);
}

// B109.
async fn only_the_protected_methods_have_keys(bed: Bed) {
    let layer = bed
        .layer()
        .methods([Method::GET, Method::POST, Method::PUT]);
    let app = App::orders(layer);
    let ask = |method| Ask::post("k-1").method(method);
    for number in 1..=2 {
        app.send(ask(Method::GET)).await.assert_order(number, false);
    }
    for number in 3..=4 {
        app.send(ask(Method::PATCH))
            .await
            .assert_order(number, false);
    }
    app.send(ask(Method::PUT)).await.assert_order(5, false);
    app.send(ask(Method::PUT)).await.assert_order(5, true);

    let app = App::orders(bed.layer());
    let ask = |method| Ask::post("k-2").method(method);
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
        for _ in 0..2 {
            assert!(!app.send(ask(method.clone())).await.is_replay());
        }
    }
    assert_eq!(app.runs(), 8);
    assert!(!app.send(ask(Method::PATCH)).await.is_replay());
    assert!(app.send(ask(Method::PATCH)).await.is_replay());
    assert_eq!(app.runs(), 9);
}

// B93.
#[tokio::test(start_paused = true)]
async fn two_memory_stores_protect_nothing_from_each_other_and_one_shared_does() {
    let layer = |store| IdempotencyLayer::new(store, Scope::global());
    let shared = Arc::new(MemoryStore::new());
    let (one, two) = (
        App::orders(layer(shared.clone())),
        App::orders(layer(shared)),
    );
    one.send(Ask::post("k-1")).await.assert_order(1, false);
    two.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!((one.runs(), two.runs()), (1, 0));

    let own = || App::orders(layer(Arc::new(MemoryStore::new())));
    let (one, two) = (own(), own());
    one.send(Ask::post("k-1")).await.assert_order(1, false);
    two.send(Ask::post("k-1")).await.assert_order(1, false);
    assert_eq!((one.runs(), two.runs()), (1, 1));
}
