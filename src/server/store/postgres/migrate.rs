//! The tables.

use sqlx::PgPool;

use super::code;

/// One step of the tables' history. A step that was released is never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Its number, from 1 on.
    pub version: i32,
    /// What it makes.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// All steps, in order, for those who apply them with a tool of their own.
///
/// ```
/// use idempotency::server::store::postgres::MIGRATIONS;
///
/// assert_eq!(MIGRATIONS[0].version, 1);
/// assert!(MIGRATIONS[0].sql.contains("CREATE TABLE idempotency_keys"));
/// ```
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "idempotency_keys",
    sql: include_str!("../migrations/0001_idempotency_keys.sql"),
}];

const LIST: &str = "
    CREATE TABLE IF NOT EXISTS idempotency_migrations (
        version    integer     PRIMARY KEY,
        name       text        NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now())";

pub(super) async fn migrate(pool: &PgPool) -> Result<(), sqlx::Error> {
    create_list(pool).await?;
    let mut transaction = pool.begin().await?;
    // One process at a time; the others find it done.
    sqlx::query("LOCK TABLE idempotency_migrations IN EXCLUSIVE MODE")
        .execute(&mut *transaction)
        .await?;
    let applied: Vec<i32> = sqlx::query_scalar("SELECT version FROM idempotency_migrations")
        .fetch_all(&mut *transaction)
        .await?;
    for migration in MIGRATIONS {
        if applied.contains(&migration.version) {
            continue;
        }
        sqlx::raw_sql(migration.sql)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO idempotency_migrations (version, name) VALUES ($1, $2)")
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

/// `IF NOT EXISTS` is not atomic: two sessions that create the table at once may both begin, and the
/// later one fails: on the table, on its row type or on the catalogue's unique indexes.
async fn create_list(pool: &PgPool) -> Result<(), sqlx::Error> {
    for _ in 0..8 {
        match sqlx::query(LIST).execute(pool).await {
            Err(error) if matches!(code(&error).as_deref(), Some("23505" | "42710" | "42P07")) => {}
            other => return other.map(drop),
        }
    }
    sqlx::query(LIST).execute(pool).await.map(drop)
}
