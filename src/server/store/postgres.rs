//! A store in PostgreSQL, shared by any number of processes.

mod found;
mod migrate;
mod sql;
pub(in crate::server) mod transaction;

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
pub use migrate::{MIGRATIONS, Migration};
use sqlx::PgPool;
use sqlx::postgres::PgRow;

use self::found::{Found, Next};
use super::{Claim, Claimed, Ownership, Record, Store, StoreError};

/// Claims and answers in a table of a PostgreSQL database, version 12 or newer.
///
/// ```no_run
/// use idempotency::server::{IdempotencyLayer, PostgresStore, Scope};
/// use idempotency::reexports::sqlx::PgPool;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PgPool::connect("postgres:///payments").await?;
/// let store = PostgresStore::new(pool);
/// store.migrate().await?;
/// let layer = IdempotencyLayer::new(store, Scope::credential());
/// # Ok(())
/// # }
/// ```
///
/// Every method is one or a few short statements, each a transaction of its own. While a handler
/// runs no connection is held, no transaction is open and no lock is taken: the lease is a time in
/// the row, by the database's clock. There are no advisory locks, so a pooler in transaction mode
/// (PgBouncer) may stand in between. It works under any isolation level.
///
/// The table `idempotency_keys` is found through the connection's `search_path`. Sharing the
/// application's pool is fine, and necessary for
/// [`transactional`](crate::server::IdempotencyLayer::transactional).
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
}

impl PostgresStore {
    /// A store that takes its connections from this pool. Nothing is sent yet.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Creates or updates the tables, in one transaction. Any number of processes may call it at
    /// once, at every start.
    ///
    /// It keeps its own list of what was applied (`idempotency_migrations`). Those who have a tool
    /// for migrations copy [`MIGRATIONS`] into it and do not call this.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        migrate::migrate(&self.pool).await.map_err(StoreError::new)
    }

    async fn find(&self, claim: &Claim) -> Result<Option<Found>, sqlx::Error> {
        sqlx::query(sql::FIND)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .fetch_optional(&self.pool)
            .await?
            .map(|row: PgRow| Found::read(&row))
            .transpose()
    }

    /// Whether the row was inserted. `lease` is `None` where the lock on the row is the lease.
    async fn insert(&self, claim: &Claim, lease: Option<Duration>) -> Result<bool, sqlx::Error> {
        let inserted = sqlx::query(sql::INSERT)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .bind(claim.owner.uuid())
            .bind(claim.fingerprint.as_ref().map(|f| f.as_bytes().as_slice()))
            .bind(lease.map(millis))
            .bind(millis(claim.terms.keep))
            .execute(&self.pool)
            .await?;
        Ok(inserted.rows_affected() == 1)
    }

    async fn remove_ended(&self, claim: &Claim) -> Result<bool, sqlx::Error> {
        let removed = sqlx::query(sql::REMOVE_ENDED)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .execute(&self.pool)
            .await?;
        Ok(removed.rows_affected() == 1)
    }

    /// The run number, when the row was still as it was found and nobody works on it.
    async fn take_over(
        &self,
        claim: &Claim,
        found: &Found,
        lease: Option<Duration>,
    ) -> Result<Option<u32>, sqlx::Error> {
        let run: Option<i32> = sqlx::query_scalar(sql::TAKE_OVER)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .bind(claim.owner.uuid())
            .bind(lease.map(millis))
            .bind(millis(claim.terms.keep))
            .bind(found.owner.uuid())
            .fetch_optional(&self.pool)
            .await?;
        Ok(run.map(run_number))
    }

    /// The run number, when the row is running and ours.
    async fn renew(&self, claim: &Claim) -> Result<Option<u32>, sqlx::Error> {
        let run: Option<i32> = sqlx::query_scalar(sql::RENEW)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .bind(claim.owner.uuid())
            .bind(millis(claim.terms.lease))
            .bind(millis(claim.terms.keep))
            .fetch_optional(&self.pool)
            .await?;
        Ok(run.map(run_number))
    }

    /// One step of a claim: `None` when the row changed under us.
    async fn try_claim(&self, claim: &Claim) -> Result<Option<Claimed>, sqlx::Error> {
        if self.insert(claim, Some(claim.terms.lease)).await? {
            return Ok(Some(Claimed::Owned { run: 1 }));
        }
        let Some(found) = self.find(claim).await? else {
            return Ok(None);
        };
        Ok(match found.next(claim) {
            Next::Answer(claimed) => Some(claimed),
            Next::Ended => match self.remove_ended(claim).await? {
                true => None,
                // Somebody has its lock: a transaction that runs for longer than answers are kept.
                false => found.locked.then_some(Claimed::Running),
            },
            Next::Ours => self.renew(claim).await?.map(|run| Claimed::Owned { run }),
            Next::TakeOver => {
                let lease = Some(claim.terms.lease);
                match self.take_over(claim, &found, lease).await? {
                    Some(run) => Some(Claimed::Owned { run }),
                    None => found.locked.then_some(Claimed::Running),
                }
            }
        })
    }

    async fn owns(&self, claim: &Claim) -> Result<bool, sqlx::Error> {
        let found = self.find(claim).await?;
        Ok(found.is_some_and(|found| found.owner == claim.owner && found.record.is_some()))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        // Each round that ends without an answer means that somebody else got somewhere.
        for _ in 0..16 {
            match self.try_claim(claim).await {
                Ok(Some(claimed)) => return Ok(claimed),
                Ok(None) => {}
                Err(error) if is_serialization(&error) => {}
                Err(error) => return Err(StoreError::new(error)),
            }
        }
        Ok(Claimed::Running)
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        let renewed = repeated(|| self.renew(claim)).await?;
        Ok(ownership(renewed.is_some()))
    }

    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        let kept = repeated(|| async {
            let done = sql::complete(claim, record).execute(&self.pool).await?;
            // No row: lost, or completed by us before, with the acknowledgement lost.
            Ok(done.rows_affected() == 1 || self.owns(claim).await?)
        });
        Ok(ownership(kept.await?))
    }

    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        let released = repeated(|| sql::release(claim).execute(&self.pool)).await?;
        Ok(ownership(released.rows_affected() == 1))
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        let swept = repeated(|| {
            let limit = i64::from(limit.get());
            sqlx::query(sql::SWEEP).bind(limit).execute(&self.pool)
        });
        let removed = swept.await?.rows_affected();
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }
}

impl fmt::Debug for PostgresStore {
    /// Without the pool, which shows the connection's options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// Runs a statement again that another transaction kept from being serialized.
async fn repeated<T, F>(statement: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    for _ in 0..16 {
        match statement().await {
            Err(error) if is_serialization(&error) => {}
            other => return other.map_err(StoreError::new),
        }
    }
    statement().await.map_err(StoreError::new)
}

/// `serialization_failure` and `deadlock_detected`: the statement did nothing and may be repeated.
fn is_serialization(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("40001" | "40P01"))
}

fn code(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    Some(code.into_owned())
}

fn ownership(held: bool) -> Ownership {
    match held {
        true => Ownership::Held,
        false => Ownership::Lost,
    }
}

/// At least 1, so that nothing ends before it began, and at most a hundred years, which is within
/// what the database can add to a time.
fn millis(duration: Duration) -> i64 {
    const CENTURY: i64 = 100 * 365 * 24 * 60 * 60 * 1000;
    i64::try_from(duration.as_millis()).map_or(CENTURY, |millis| millis.clamp(1, CENTURY))
}

fn run_number(run: i32) -> u32 {
    u32::try_from(run).unwrap_or(u32::MAX)
}
