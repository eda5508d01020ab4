//! A schema of its own for each test, in the database that they share.

use std::str::FromStr as _;
use std::time::Duration;

use async_trait::async_trait;
use idempotency::reexports::sqlx;
use idempotency::server::PostgresStore;
use idempotency::testing::laws::Clock;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

use super::cluster;

/// One schema, empty at first.
pub(crate) struct Database {
    url: String,
    schema: String,
}

impl Database {
    /// A new schema in the shared database. `None` when these tests are to be left out.
    pub(crate) async fn fresh() -> Option<Self> {
        if cluster::skipped() {
            return None;
        }
        let start = tokio::task::spawn_blocking(cluster::shared_url);
        match start.await {
            Ok(url) => Some(Self::fresh_at(&url).await),
            // It has said what is missing.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// A new schema in that database.
    pub(crate) async fn fresh_at(url: &str) -> Self {
        let schema = format!("test_{}", uuid::Uuid::new_v4().simple());
        let admin = PgPool::connect(url).await.unwrap();
        let create = format!("CREATE SCHEMA {schema}");
        sqlx::query(AssertSqlSafe(create))
            .execute(&admin)
            .await
            .unwrap();
        admin.close().await;
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}options=-c%20search_path%3D{schema}");
        Self { url, schema }
    }

    /// The address, schema included, for other processes.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::from_str(&self.url).unwrap()
    }

    /// A pool of up to so many connections.
    pub(crate) async fn pool(&self, connections: u32) -> PgPool {
        self.pool_with(connections, self.options()).await
    }

    pub(crate) async fn pool_with(&self, connections: u32, options: PgConnectOptions) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(connections);
        pool.connect_with(options).await.unwrap()
    }

    /// A store with its tables.
    pub(crate) async fn store(&self) -> PostgresStore {
        let store = PostgresStore::new(self.pool(10).await);
        store.migrate().await.unwrap();
        store
    }

    /// The number of rows of a table.
    pub(crate) async fn count(&self, pool: &PgPool, table: &str) -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        sqlx::query_scalar(AssertSqlSafe(count))
            .fetch_one(pool)
            .await
            .unwrap()
    }
}

impl Drop for Database {
    /// What is left in a cluster of our own goes with it; a database that was lent is given back as it was.
    fn drop(&mut self) {
        if std::env::var_os("DATABASE_URL").is_none() {
            return;
        }
        let (options, drop) = (
            self.options(),
            format!("DROP SCHEMA {} CASCADE", self.schema),
        );
        // A runtime cannot be entered from within another.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut admin = PgConnection::connect_with(&options).await?;
                sqlx::query(AssertSqlSafe(drop)).execute(&mut admin).await
            })
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("the schema {} stays behind: {error}", self.schema);
        }
    }
}

/// Lets time pass for the rows of one schema by moving them into the past: the database's own clock cannot be moved.
pub(crate) struct RowsClock(pub(crate) PgPool);

#[async_trait]
impl Clock for RowsClock {
    async fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        sqlx::query(
            "UPDATE idempotency_keys SET
                lease_ends = lease_ends - $1 * interval '1 millisecond',
                ends = ends - $1 * interval '1 millisecond'",
        )
        .bind(millis)
        .execute(&self.0)
        .await
        .unwrap();
    }
}
