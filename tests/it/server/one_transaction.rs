//! One transaction for the work and the record: both or nothing.

use http::StatusCode;
use idempotency::contract::problem;
use idempotency::server::{Final, OnFailure, Operation, Tx};

use super::app::App;
use super::ledger::{Books, ask, entry, gated};
use crate::support::Gate;

#[tokio::test]
async fn a_success_is_committed_with_its_answer() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = books.app();
    for status in [200, 201, 204, 303] {
        let key = status.to_string();
        for replayed in [false, true, true] {
            let answer = app.send(ask(&key, status)).await;
            assert_eq!((answer.status, answer.is_replay()), (status, replayed));
            assert_eq!(books.entries(&key).await, 1);
        }
    }
    assert_eq!(app.runs(), 4);
}

#[tokio::test]
async fn a_refusal_is_kept_and_its_work_undone() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = books.app();
    for status in [400, 404, 409, 422] {
        let key = status.to_string();
        for replayed in [false, true] {
            let answer = app.send(ask(&key, status)).await;
            assert_eq!((answer.status, answer.is_replay()), (status, replayed));
            assert_eq!(books.entries(&key).await, 0);
        }
    }
    assert_eq!((app.runs(), books.keys().await), (4, 4));
}

#[tokio::test]
async fn a_failure_leaves_nothing_and_its_key_is_free() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = books.app();
    for status in [401, 429, 500, 503] {
        let key = status.to_string();
        for _ in 0..2 {
            let answer = app.send(ask(&key, status)).await;
            assert_eq!((answer.status, answer.is_replay()), (status, false));
        }
        assert_eq!((books.entries(&key).await, books.keys().await), (0, 0));
    }
    assert_eq!(app.runs(), 8);
    // Free for another request, too.
    assert_eq!(app.send(ask("500", 201)).await.status, 201);
}

async fn panic_after_work(operation: Operation, mut tx: Tx) {
    entry(&mut tx, &operation).await.unwrap();
    panic!("the handler has a bug");
}

#[tokio::test]
async fn a_panic_leaves_nothing_and_its_key_is_free_or_keeps_the_500() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(books.layer(), panic_after_work);
    for runs in 1..=2 {
        let answer = app.send(ask("k-1", 201)).await;
        answer.assert_problem(500, problem::OPERATION_FAILED);
        assert_eq!((app.runs(), books.keys().await), (runs, 0));
    }
    let app = App::new(books.layer().on_panic(OnFailure::Store), panic_after_work);
    for replayed in [false, true] {
        let answer = app.send(ask("k-1", 201)).await;
        assert_eq!((answer.status, answer.is_replay()), (500, replayed));
    }
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 0));
}

#[tokio::test]
async fn a_final_failure_is_kept_and_its_work_undone() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            Final(StatusCode::BAD_GATEWAY)
        },
    );
    for replayed in [false, true] {
        let answer = app.send(ask("k-1", 201)).await;
        assert_eq!((answer.status, answer.is_replay()), (502, replayed));
    }
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 0));
}

#[tokio::test]
async fn when_the_client_goes_away_the_transaction_is_finished() {
    let Some(books) = Books::open().await else {
        return;
    };
    let gate = Gate::new();
    let layer = books.layer();
    let in_flight = layer.in_flight();
    let app = gated(layer, &gate);
    let client = app.spawn(ask("k-1", 201));
    gate.reached().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    gate.open();
    in_flight.finished().await;
    assert!(app.send(ask("k-1", 201)).await.is_replay());
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 1));
}
