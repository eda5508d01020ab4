//! Who may work while somebody works: in one-transaction mode the lock on the row is the lease.

use std::time::Duration;

use axum::extract::Json;
use http::StatusCode;
use idempotency::contract::problem;
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, OnFailure, Operation, Scope, Tx};

use super::app::App;
use super::ledger::{Books, ask, enter, entry, gated};
use crate::support::Gate;

/// What nobody may have to wait for.
async fn at_once<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), work)
        .await
        .unwrap()
}

// The lock is the lease: nobody waits for it.
#[tokio::test]
async fn a_rival_is_told_409_at_once_and_another_request_422() {
    let Some(books) = Books::open().await else {
        return;
    };
    let gate = Gate::new();
    let app = gated(books.layer(), &gate);
    let running = app.spawn(ask("k-1", 201));
    gate.reached().await;
    for _ in 0..3 {
        app.send(ask("k-1", 201)).await.assert_in_progress();
        let other = app.send(ask("k-1", 200)).await;
        other.assert_problem(422, problem::KEY_REUSED);
    }
    gate.open();
    assert_eq!(running.await.unwrap().status, 201);
    assert!(app.send(ask("k-1", 201)).await.is_replay());
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 1));
}

// The owner is stuck between writing its record and committing it.
#[tokio::test]
async fn a_rival_does_not_wait_for_a_commit_that_is_under_way() {
    let Some(books) = Books::open().await else {
        return;
    };
    owner_dies(&books, "k-1", "NULL").await;
    let leased = App::orders(IdempotencyLayer::new(books.store.clone(), Scope::global()));
    for write in [
        "UPDATE idempotency_keys SET status = 201",
        "DELETE FROM idempotency_keys",
    ] {
        let mut stuck = books.store.pool().begin().await.unwrap();
        sqlx::query(write).execute(&mut *stuck).await.unwrap();
        let app = books.app();
        at_once(app.send(ask("k-1", 201)))
            .await
            .assert_in_progress();
        at_once(leased.send(ask("k-1", 201)))
            .await
            .assert_in_progress();
        stuck.rollback().await.unwrap();
    }
    assert_eq!(books.app().send(ask("k-1", 201)).await.status, 201);
}

#[tokio::test]
async fn of_fifty_rivals_at_once_one_works() {
    let Some(books) = Books::open().await else {
        return;
    };
    let layer = books.layer().wait_for_running(Duration::from_secs(30));
    let app = App::new(layer, enter);
    let rivals: Vec<_> = (0..50).map(|_| app.spawn(ask("k-1", 201))).collect();
    let mut fresh = 0;
    for rival in rivals {
        let answer = rival.await.unwrap();
        assert_eq!(answer.status, 201);
        fresh += u32::from(!answer.is_replay());
    }
    assert_eq!((fresh, app.runs(), books.entries("k-1").await), (1, 1, 1));
}

/// Makes the running rows look as after the death of their owner: claimed, and locked by nobody.
async fn owner_dies(books: &Books, key: &str, lease: &str) {
    let app = App::new(
        IdempotencyLayer::new(books.store.clone(), Scope::global())
            .on_server_error(OnFailure::Hold),
        || async { StatusCode::BAD_GATEWAY },
    );
    assert_eq!(app.send(ask(key, 201)).await.status, 502);
    let set = format!("UPDATE idempotency_keys SET lease_ends = {lease} WHERE key = '{key}'");
    sqlx::query(sqlx::AssertSqlSafe(set))
        .execute(books.store.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_row_whose_owner_is_dead_is_taken_over_at_once() {
    let Some(books) = Books::open().await else {
        return;
    };
    owner_dies(&books, "k-1", "NULL").await;
    let app = books.app();
    let other = app.send(ask("k-1", 200)).await;
    other.assert_problem(422, problem::KEY_REUSED);
    assert_eq!(app.send(ask("k-1", 201)).await.status, 201);
    let run: i32 = sqlx::query_scalar("SELECT run FROM ledger WHERE operation = 'k-1'")
        .fetch_one(books.store.pool())
        .await
        .unwrap();
    assert_eq!(run, 2);
}

// While services are moved from one mode to the other, both meet on one table.
#[tokio::test]
async fn the_two_modes_respect_each_other() {
    let Some(books) = Books::open().await else {
        return;
    };
    let leased = IdempotencyLayer::new(books.store.clone(), Scope::global());
    let leased = App::new(leased, |Json(status): Json<u16>| async move {
        StatusCode::from_u16(status).unwrap()
    });
    let app = books.app();

    owner_dies(&books, "leased", "now() + interval '1 hour'").await;
    app.send(ask("leased", 201)).await.assert_in_progress();
    owner_dies(&books, "passed", "now() - interval '1 second'").await;
    assert_eq!(app.send(ask("passed", 201)).await.status, 201);

    let gate = Gate::new();
    let slow = gated(books.layer(), &gate);
    let running = slow.spawn(ask("locked", 201));
    gate.reached().await;
    leased.send(ask("locked", 201)).await.assert_in_progress();
    gate.open();
    assert_eq!(running.await.unwrap().status, 201);
    assert!(leased.send(ask("locked", 201)).await.is_replay());

    owner_dies(&books, "dead", "NULL").await;
    assert_eq!(leased.send(ask("dead", 201)).await.status, 201);
    assert_eq!((app.runs(), slow.runs(), leased.runs()), (1, 1, 1));
}

// What runs longer than answers are kept is neither swept nor taken for ended.
#[tokio::test]
async fn an_operation_that_runs_longer_than_answers_are_kept_stays_its_own() {
    let Some(books) = Books::open().await else {
        return;
    };
    let gate = Gate::new();
    let layer = books.layer().keep(Duration::from_millis(1));
    let app = gated(layer, &gate);
    let running = app.spawn(ask("k-1", 201));
    gate.reached().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let store: &dyn idempotency::server::Store = &books.store;
    assert_eq!(
        at_once(store.sweep(std::num::NonZeroU32::MAX))
            .await
            .unwrap(),
        0
    );
    app.send(ask("k-1", 201)).await.assert_in_progress();
    gate.open();
    assert_eq!(running.await.unwrap().status, 201);
    assert_eq!(books.entries("k-1").await, 1);
}

#[tokio::test]
async fn forty_requests_on_a_pool_of_two_queue_and_do_not_deadlock() {
    let Some(books) = Books::open_with(2).await else {
        return;
    };
    let app = App::new(
        books.layer(),
        |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            sqlx::query("SELECT pg_sleep(0.01)")
                .execute(&mut *tx)
                .await
                .unwrap();
            StatusCode::CREATED
        },
    );
    let requests = (0..40).map(|number| app.spawn(ask(&format!("k-{number}"), 201)));
    let all = futures_util::future::join_all(requests.collect::<Vec<_>>());
    let answers = tokio::time::timeout(Duration::from_secs(25), all)
        .await
        .unwrap();
    for answer in answers {
        assert_eq!(answer.unwrap().status, 201);
    }
    let entries = books.database.count(books.store.pool(), "ledger").await;
    assert_eq!((entries, app.runs()), (40, 40));
}
