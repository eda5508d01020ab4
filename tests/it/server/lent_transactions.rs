//! A transaction in the hands of a handler, and what handlers do to it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use idempotency::contract::problem;
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, NoTransaction, Operation, Scope, Tx};
use sqlx::Connection as _;

use super::app::App;
use super::ledger::{Books, ask, entry};

#[tokio::test]
async fn a_transaction_that_does_not_come_back_is_a_500_and_rolled_back() {
    let Some(books) = Books::open().await else {
        return;
    };
    let kept = Arc::<Mutex<Option<Tx>>>::default();
    let app = App::new(books.layer(), {
        let kept = kept.clone();
        move |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            *kept.lock().unwrap() = Some(tx);
            StatusCode::CREATED
        }
    });
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    // Whoever has it has the lock too.
    app.send(ask("k-1", 201)).await.assert_in_progress();
    kept.lock().unwrap().take();
    let app = books.app();
    assert_eq!(wait_until_free(&app, "k-1").await, 201);
    assert_eq!(books.entries("k-1").await, 1);
}

/// Asks until nobody holds the key any more.
async fn wait_until_free(app: &App, key: &str) -> u16 {
    for _ in 0..1000 {
        let answer = app.send(ask(key, 201)).await;
        if answer.status != 409 {
            return answer.status;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{key} stays locked");
}

#[tokio::test]
async fn a_streaming_body_must_not_take_the_transaction_with_it() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(
        books.layer().answer_limit(4),
        |mut tx: Tx, operation: Operation| async move {
            entry(&mut tx, &operation).await.unwrap();
            let chunks = futures_util::stream::unfold((tx, 0), |(tx, sent)| async move {
                (sent < 3).then_some((Ok::<_, std::io::Error>("chunk"), (tx, sent + 1)))
            });
            Response::new(axum::body::Body::from_stream(chunks))
        },
    );
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    assert_eq!(wait_until_free(&books.app(), "k-1").await, 201);
    assert_eq!(books.entries("k-1").await, 1);
}

#[tokio::test]
async fn there_is_one_transaction_and_only_where_the_layer_has_one() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(books.layer(), |_one: Tx, _two: Tx| async {});
    assert_eq!(app.send(ask("k-1", 201)).await.status, 500);
    let leased = IdempotencyLayer::new(books.store.clone(), Scope::global());
    let app = App::new(leased, |_tx: Tx| async {});
    assert_eq!(app.send(ask("k-2", 201)).await.status, 500);
    assert!(
        NoTransaction::Lent
            .to_string()
            .contains("extract `Tx` once")
    );
    assert_eq!(books.keys().await, 0);
    // One after the other is one.
    let app = App::new(
        books.layer(),
        |request: axum::extract::Request| async move {
            use axum::extract::FromRequestParts as _;
            let (mut head, _) = request.into_parts();
            drop(Tx::from_request_parts(&mut head, &()).await.unwrap());
            Tx::from_request_parts(&mut head, &())
                .await
                .map(drop)
                .into_response()
        },
    );
    assert_eq!(app.send(ask("k-3", 201)).await.status, 200);
}

#[tokio::test]
async fn a_savepoint_of_the_handler_is_a_savepoint() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            let mut inner = tx.begin().await.unwrap();
            entry(&mut inner, &operation).await.unwrap();
            inner.rollback().await.unwrap();
            let mut inner = tx.begin().await.unwrap();
            entry(&mut inner, &operation).await.unwrap();
            inner.commit().await.unwrap();
            StatusCode::CREATED
        },
    );
    assert_eq!(app.send(ask("k-1", 201)).await.status, 201);
    assert_eq!(books.entries("k-1").await, 2);
}

#[tokio::test]
async fn a_success_in_a_failed_transaction_is_a_500_and_nothing_is_kept() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            let failed = sqlx::query("SELECT 1 / 0").execute(&mut *tx).await;
            assert!(failed.is_err());
            StatusCode::CREATED
        },
    );
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    assert_eq!((books.entries("k-1").await, books.keys().await), (0, 0));
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_a_500_and_nothing_is_kept() {
    let Some(books) = Books::open().await else {
        return;
    };
    sqlx::query("ALTER TABLE ledger ADD UNIQUE (operation) DEFERRABLE INITIALLY DEFERRED")
        .execute(books.store.pool())
        .await
        .unwrap();
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            entry(&mut tx, &operation).await.unwrap();
            StatusCode::CREATED
        },
    );
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!((books.entries("k-1").await, books.keys().await), (0, 0));
}

// Its work and its record came apart: it is done, and not done again.
#[tokio::test]
async fn a_handler_that_commits_by_itself_is_a_500_and_never_runs_again() {
    let Some(books) = Books::open().await else {
        return;
    };
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            sqlx::query("COMMIT").execute(&mut *tx).await.unwrap();
            StatusCode::CREATED
        },
    );
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    let again = app.send(ask("k-1", 201)).await;
    again.assert_problem(409, problem::ANSWER_NOT_KEPT);
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 1));
}
