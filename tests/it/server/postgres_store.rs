//! What only the store on PostgreSQL can get wrong.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use http::Method;
use idempotency::contract::Fingerprint;
use idempotency::reexports::sqlx;
use idempotency::server::store::postgres::MIGRATIONS;
use idempotency::server::store::{Claim, Claimed, Slot, Terms};
use idempotency::server::{
    IdempotencyLayer, OnLeaseExpired, PostgresStore, Scope, ScopeId, Store as _,
};
use idempotency::testing::laws;
use sqlx::{Connection as _, PgConnection};

use super::app::{App, Ask, order};
use super::database::{Database, RowsClock};
use crate::support::Gate;

fn claim(key: &str) -> Claim {
    let slot = Slot {
        scope: ScopeId::of(["tests"]),
        key: key.parse().unwrap(),
    };
    let terms = Terms {
        lease: Duration::from_secs(30),
        keep: Duration::from_secs(3600),
        on_expired: OnLeaseExpired::Rerun,
    };
    Claim::new(
        slot,
        Some(Fingerprint::of(&Method::POST, "/", None, b"")),
        terms,
    )
}

#[tokio::test]
async fn any_number_of_processes_may_apply_the_migrations_at_once() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = PostgresStore::new(database.pool(20).await);
    let all: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    store.migrate().await.unwrap();
    let applied = database.count(store.pool(), "idempotency_migrations").await;
    assert_eq!(usize::try_from(applied).unwrap(), MIGRATIONS.len());
    assert!(!format!("{store:?}").contains("postgres:"));
}

#[tokio::test]
async fn the_migrations_can_be_applied_by_another_tool() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = PostgresStore::new(database.pool(2).await);
    for migration in MIGRATIONS {
        sqlx::raw_sql(migration.sql)
            .execute(store.pool())
            .await
            .unwrap();
    }
    let claimed = store.claim(&claim("k-1")).await.unwrap();
    assert_eq!(claimed, Claimed::Owned { run: 1 });
}

// B89: the laws, which have claims race, under every isolation level.
#[tokio::test]
async fn the_laws_are_kept_under_every_isolation_level() {
    for level in ["repeatable read", "serializable"] {
        let Some(database) = Database::fresh().await else {
            return;
        };
        let url = database.url().to_owned();
        let level = level.replace(' ', "%5C%20");
        let url = format!("{url}%20-c%20default_transaction_isolation%3D{level}");
        let pool = database.pool_with(10, url.parse().unwrap()).await;
        let shown: String = sqlx::query_scalar("SHOW default_transaction_isolation")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_ne!(shown, "read committed");
        let store = PostgresStore::new(pool.clone());
        store.migrate().await.unwrap();
        laws::check(Arc::new(store), &RowsClock(pool))
            .await
            .assert_kept();
    }
}

// B89: a row that is not committed yet is invisible, and waited for.
#[tokio::test]
async fn a_claim_waits_for_an_insert_that_may_still_be_rolled_back() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = database.store().await;
    for rolled_back in [true, false] {
        let claim = claim(&format!("k-{rolled_back}"));
        let mut other = PgConnection::connect_with(&database.options())
            .await
            .unwrap();
        let mut open = other.begin().await.unwrap();
        sqlx::query(
            "INSERT INTO idempotency_keys (scope, key, owner, run, fingerprint, lease_ends, ends)
            VALUES ($1, $2, gen_random_uuid(), 1, $3, now() + interval '1 h', now() + interval '2 h')",
        )
        .bind(claim.slot.scope.as_bytes().as_slice())
        .bind(claim.slot.key.as_str())
        .bind(claim.fingerprint.unwrap().as_bytes().as_slice())
        .execute(&mut *open)
        .await
        .unwrap();
        let claiming = tokio::spawn({
            let (store, claim) = (store.clone(), claim.clone());
            async move { store.claim(&claim).await.unwrap() }
        });
        blocked_sessions(&mut database.pool(1).await.acquire().await.unwrap(), 1).await;
        assert!(!claiming.is_finished());
        match rolled_back {
            true => {
                open.rollback().await.unwrap();
                assert_eq!(claiming.await.unwrap(), Claimed::Owned { run: 1 });
            }
            false => {
                open.commit().await.unwrap();
                assert_eq!(claiming.await.unwrap(), Claimed::Running);
            }
        }
    }
}

/// Waits until so many sessions on this schema's table wait for somebody.
pub(crate) async fn blocked_sessions(look: &mut PgConnection, sessions: i64) {
    loop {
        let blocked: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity a
            WHERE cardinality(pg_blocking_pids(a.pid)) > 0 AND EXISTS (
                SELECT FROM pg_locks l WHERE l.pid = a.pid
                AND l.relation = 'idempotency_keys'::regclass)",
        )
        .fetch_one(&mut *look)
        .await
        .unwrap();
        if blocked >= sessions {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// B90: as many handlers as there are connections, each of which needs one.
#[tokio::test]
async fn no_connection_is_held_while_a_handler_runs() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = PostgresStore::new(database.pool(2).await);
    store.migrate().await.unwrap();
    let pool = store.pool().clone();
    let app = App::new(IdempotencyLayer::new(store, Scope::global()), {
        let pool = pool.clone();
        move || async move {
            let mut held = pool.acquire().await.unwrap();
            let sleep = sqlx::query("SELECT pg_sleep(0.02)");
            sleep.execute(&mut *held).await.unwrap();
            order(1)
        }
    });
    let requests = (0..40).map(|number| app.spawn(Ask::post(&format!("k-{number}"))));
    let all = futures_util::future::join_all(requests.collect::<Vec<_>>());
    let answers = tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .unwrap();
    for answer in answers {
        answer.unwrap().assert_order(1, false);
    }
    assert_eq!(app.runs(), 40);
}

// B90, B91: no transaction, no lock, no session state.
#[tokio::test]
async fn nothing_is_open_or_locked_in_the_database_while_a_handler_runs() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = database.store().await;
    let pool = store.pool().clone();
    let gate = Gate::new();
    let app = App::gated(IdempotencyLayer::new(store, Scope::global()), &gate);
    let running = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    // Connections go back to the pool in a task of their own.
    while pool.num_idle() < usize::try_from(pool.size()).unwrap() {
        tokio::task::yield_now().await;
    }
    let mut look = PgConnection::connect_with(&database.options())
        .await
        .unwrap();
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks l
        WHERE l.pid <> pg_backend_pid() AND (l.relation = 'idempotency_keys'::regclass
            OR (l.locktype = 'advisory' AND l.database =
                (SELECT oid FROM pg_database WHERE datname = current_database())))",
    )
    .fetch_one(&mut look)
    .await
    .unwrap();
    assert_eq!(open, 0);
    gate.open();
    running.await.unwrap().assert_order(1, false);
}

#[tokio::test]
async fn an_operation_of_one_process_is_replayed_by_another() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let layer = |store| IdempotencyLayer::new(store, Scope::global());
    let one = App::orders(layer(database.store().await));
    let two = App::orders(layer(database.store().await));
    one.send(Ask::post("k-1")).await.assert_order(1, false);
    two.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!((one.runs(), two.runs()), (1, 0));
}

#[tokio::test]
async fn no_key_of_a_credential_is_in_the_table() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let store = database.store().await;
    let pool = store.pool().clone();
    let app = App::new(
        IdempotencyLayer::new(store, Scope::credential()),
        || async { http::StatusCode::NO_CONTENT.into_response() },
    );
    app.send(Ask::post("k-1").header("authorization", "s3cret"))
        .await;
    let rows: String = sqlx::query_scalar("SELECT string_agg(k::text, '') FROM idempotency_keys k")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert!(rows.contains("k-1") && !rows.contains("s3cret"), "{rows}");
}
