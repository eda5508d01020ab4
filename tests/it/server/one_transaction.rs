//! One transaction for the work and the record: both or nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use idempotency::contract::problem;
use idempotency::reexports::sqlx;
use idempotency::server::{
    Final, IdempotencyLayer, NoTransaction, OnFailure, Operation, Scope, Tx,
};
use sqlx::Connection as _;

use super::app::App;
use super::ledger::{Books, ask, enter, entry};
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

// The lock is the lease: nobody waits for it.
#[tokio::test]
async fn a_rival_is_told_409_at_once_and_another_request_422() {
    let Some(books) = Books::open().await else {
        return;
    };
    let gate = Gate::new();
    let app = App::new(books.layer(), {
        let gate = gate.clone();
        move |operation: Operation, tx: Tx, status: Json<u16>| async move {
            gate.pass().await;
            enter(operation, tx, status).await
        }
    });
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
        books.app().send(ask("k-1", 201)).await.assert_in_progress();
        leased.send(ask("k-1", 201)).await.assert_in_progress();
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
    let slow = App::new(books.layer(), {
        let gate = gate.clone();
        move |operation: Operation, tx: Tx, status: Json<u16>| async move {
            gate.pass().await;
            enter(operation, tx, status).await
        }
    });
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
    let app = App::new(layer, {
        let gate = gate.clone();
        move |operation: Operation, tx: Tx, status: Json<u16>| async move {
            gate.pass().await;
            enter(operation, tx, status).await
        }
    });
    let running = app.spawn(ask("k-1", 201));
    gate.reached().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let store: &dyn idempotency::server::Store = &books.store;
    assert_eq!(store.sweep(std::num::NonZeroU32::MAX).await.unwrap(), 0);
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

#[tokio::test]
async fn when_the_client_goes_away_the_transaction_is_finished() {
    let Some(books) = Books::open().await else {
        return;
    };
    let gate = Gate::new();
    let layer = books.layer();
    let in_flight = layer.in_flight();
    let app = App::new(layer, {
        let gate = gate.clone();
        move |operation: Operation, tx: Tx, status: Json<u16>| async move {
            gate.pass().await;
            enter(operation, tx, status).await
        }
    });
    let client = app.spawn(ask("k-1", 201));
    gate.reached().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    gate.open();
    in_flight.finished().await;
    assert!(app.send(ask("k-1", 201)).await.is_replay());
    assert_eq!((app.runs(), books.entries("k-1").await), (1, 1));
}
