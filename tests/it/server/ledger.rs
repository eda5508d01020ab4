//! A service that works in the transaction of its record, and a ledger as the witness of what it did.

use axum::extract::Json;
use http::StatusCode;
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, Operation, PostgresStore, Scope, Tx};
use sqlx::PgPool;

use super::app::{App, Ask};
use super::database::Database;
use crate::support::Gate;

/// Entries are not unique: a duplicate is to be seen and not prevented.
const LEDGER: &str = "CREATE TABLE ledger (operation text NOT NULL, run integer NOT NULL)";

/// Makes the tables of a store and the ledger.
pub(crate) async fn prepare(pool: &PgPool) -> PostgresStore {
    let store = PostgresStore::new(pool.clone());
    store.migrate().await.unwrap();
    sqlx::query(LEDGER).execute(pool).await.unwrap();
    store
}

/// Writes an entry, and answers with the status that the request asks for.
pub(crate) async fn enter(operation: Operation, mut tx: Tx, Json(status): Json<u16>) -> StatusCode {
    entry(&mut tx, &operation).await.unwrap();
    StatusCode::from_u16(status).unwrap()
}

/// An app that stands at the gate before it enters.
pub(crate) fn gated(layer: IdempotencyLayer<PostgresStore>, gate: &Gate) -> App {
    let gate = gate.clone();
    App::new(
        layer,
        move |operation: Operation, tx: Tx, status: Json<u16>| async move {
            gate.pass().await;
            enter(operation, tx, status).await
        },
    )
}

pub(crate) async fn entry(
    connection: &mut sqlx::PgConnection,
    operation: &Operation,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO ledger VALUES ($1, $2)")
        .bind(operation.key().as_str())
        .bind(i32::try_from(operation.run()).unwrap())
        .execute(connection)
        .await
        .map(drop)
}

/// A schema with a ledger, and an app in one-transaction mode on it.
pub(crate) struct Books {
    pub(crate) database: Database,
    pub(crate) store: PostgresStore,
}

impl Books {
    pub(crate) async fn open() -> Option<Self> {
        Self::open_with(10).await
    }

    /// With a pool of so many connections.
    pub(crate) async fn open_with(connections: u32) -> Option<Self> {
        let database = Database::fresh().await?;
        let store = prepare(&database.pool(connections).await).await;
        Some(Self { database, store })
    }

    pub(crate) fn layer(&self) -> IdempotencyLayer<PostgresStore> {
        IdempotencyLayer::new(self.store.clone(), Scope::global()).transactional()
    }

    pub(crate) fn app(&self) -> App {
        App::new(self.layer(), enter)
    }

    /// The entries of one operation.
    pub(crate) async fn entries(&self, key: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM ledger WHERE operation = $1")
            .bind(key)
            .fetch_one(self.store.pool())
            .await
            .unwrap()
    }

    /// The rows of keys, running and completed.
    pub(crate) async fn keys(&self) -> i64 {
        self.database
            .count(self.store.pool(), "idempotency_keys")
            .await
    }
}

/// A request to enter and to answer with this status.
pub(crate) fn ask(key: &str, status: u16) -> Ask {
    Ask::post(key).body(status.to_string())
}
