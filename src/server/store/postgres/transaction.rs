//! The record in the transaction of the work.
//!
//! The claim is committed first, by itself, so that a rival finds it. Then the work's transaction
//! begins and locks the row: the lock is the lease. It ends with the connection, so a dead owner
//! holds nothing, and it cannot be lost while the owner lives.

use std::time::Duration;

use sqlx::{Postgres, Row as _, Transaction};
use tokio::time::{Instant, sleep};

use super::found::Next;
use super::{PostgresStore, code, is_serialization, run_number, sql};
use crate::server::store::{Claim, Claimed, OwnerToken, Record, StoreError};

pub(in crate::server) type Work = Transaction<'static, Postgres>;

/// What came of a claim.
pub(in crate::server) enum Begun {
    /// It is ours, and this transaction holds it.
    Owned {
        work: Work,
        run: u32,
    },
    Other(Claimed),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum End {
    Committed,
    /// Nothing of it is left, and the key is free.
    RolledBack,
    /// The handler ended the transaction by itself, so its work and its record came apart.
    Interfered,
    /// The database cannot be asked.
    Unknown,
}

const BEGIN_WORK: &str = "SAVEPOINT idempotency_work";
const KEEP_WORK: &str = "RELEASE SAVEPOINT idempotency_work";
const UNDO_WORK: &str = "ROLLBACK TO SAVEPOINT idempotency_work";

impl PostgresStore {
    /// Claims, and begins the transaction of the work. One connection at a time.
    pub(in crate::server) async fn begin(&self, claim: &Claim) -> Result<Begun, StoreError> {
        for _ in 0..16 {
            match self.try_begin(claim).await {
                Ok(Some(begun)) => return Ok(begun),
                Ok(None) => {}
                Err(error) if is_serialization(&error) => {}
                Err(error) => return Err(StoreError::new(error)),
            }
        }
        Ok(Begun::Other(Claimed::Running))
    }

    async fn try_begin(&self, claim: &Claim) -> Result<Option<Begun>, sqlx::Error> {
        if !self.insert(claim, None).await? {
            let Some(found) = self.find(claim).await? else {
                return Ok(None);
            };
            let running = found.locked.then_some(Begun::Other(Claimed::Running));
            match found.next(claim) {
                Next::Answer(claimed) => return Ok(Some(Begun::Other(claimed))),
                Next::Ended if self.remove_ended(claim).await? => return Ok(None),
                Next::Ended => return Ok(running),
                Next::Ours => {}
                Next::TakeOver => {
                    if self.take_over(claim, &found, None).await?.is_none() {
                        return Ok(running);
                    }
                }
            }
        }
        // The claim is committed and ours. Until it is locked a rival takes its owner for dead, and
        // may have taken over in between: then it is the rival who runs.
        let mut work = self.pool.begin().await?;
        let Some(run) = lock(&mut work, claim).await? else {
            work.rollback().await?;
            return Ok(Some(Begun::Other(Claimed::Running)));
        };
        sqlx::query(BEGIN_WORK).execute(&mut *work).await?;
        Ok(Some(Begun::Owned { work, run }))
    }

    /// Keeps the answer, and the work if it was a success, and commits.
    pub(in crate::server) async fn finish(
        &self,
        mut work: Work,
        claim: &Claim,
        record: &Record,
        keep_work: bool,
        patience: Duration,
    ) -> End {
        let kept = async {
            let savepoint = if keep_work { KEEP_WORK } else { UNDO_WORK };
            sqlx::query(savepoint).execute(&mut *work).await?;
            sql::complete(claim, record).execute(&mut *work).await
        };
        match kept.await {
            Ok(done) if done.rows_affected() == 1 => self.commit(work, claim, patience).await,
            Ok(_) => self.interfered(work, claim, record).await,
            Err(error) if ended_by_handler(&error) => self.interfered(work, claim, record).await,
            Err(error) => {
                report(&error, "the record could not be written beside the work");
                self.abandon(work, claim).await
            }
        }
    }

    /// Undoes the work and frees the key, in one step.
    pub(in crate::server) async fn abandon(&self, mut work: Work, claim: &Claim) -> End {
        let undone = async {
            sqlx::query(UNDO_WORK).execute(&mut *work).await?;
            sql::release(claim).execute(&mut *work).await
        };
        let undone = undone.await;
        let ended = match &undone {
            Ok(_) => work.commit().await,
            Err(_) => work.rollback().await,
        };
        // Without a connection there is no transaction either, and the row is nobody's: the next
        // request takes it over.
        if let Err(error) = undone.map(drop).and(ended) {
            report(
                &error,
                "a transaction was rolled back and its key not freed",
            );
        }
        End::RolledBack
    }

    async fn commit(&self, work: Work, claim: &Claim, patience: Duration) -> End {
        match work.commit().await {
            Ok(()) => End::Committed,
            Err(error) => {
                report(&error, "a commit was not acknowledged and is read again");
                self.read_again(claim, patience).await
            }
        }
    }

    /// Whether the commit took place. The lock on the row is waited for: until the old connection's
    /// transaction has ended, "not committed" is not an answer.
    async fn read_again(&self, claim: &Claim, patience: Duration) -> End {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(50);
        loop {
            let reading = tokio::time::timeout_at(deadline, self.try_read_again(claim));
            match reading.await {
                Ok(Ok(end)) => return end,
                Ok(Err(error)) => report(&error, "a commit could not be read again yet"),
                Err(_) => return End::Unknown,
            }
            if Instant::now() + pause >= deadline {
                return End::Unknown;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn try_read_again(&self, claim: &Claim) -> Result<End, sqlx::Error> {
        let mut reading = self.pool.begin().await?;
        let row = sqlx::query(sql::READ_AGAIN)
            .bind(claim.slot.scope.as_bytes().as_slice())
            .bind(claim.slot.key.as_str())
            .fetch_optional(&mut *reading)
            .await?;
        if let Some(row) = row
            && OwnerToken::from_uuid(row.try_get("owner")?) == claim.owner
            && row.try_get("completed")?
        {
            return Ok(End::Committed);
        }
        sql::release(claim).execute(&mut *reading).await?;
        reading.commit().await?;
        Ok(End::RolledBack)
    }

    /// The operation may have been done, so it is recorded as done, without an answer.
    async fn interfered(&self, work: Work, claim: &Claim, record: &Record) -> End {
        tracing::error!("the handler ended the transaction that was lent to it");
        if let Err(error) = work.rollback().await {
            report(&error, "and the connection is gone");
        }
        let record = Record {
            body: None,
            ..record.clone()
        };
        if let Err(error) = sql::complete(claim, &record).execute(&self.pool).await {
            report(&error, "and its record could not be written");
        }
        End::Interfered
    }
}

/// The run number, when the claim is still ours and its lock is free.
async fn lock(work: &mut Work, claim: &Claim) -> Result<Option<u32>, sqlx::Error> {
    let run: Option<i32> = sqlx::query_scalar(sql::LOCK)
        .bind(claim.slot.scope.as_bytes().as_slice())
        .bind(claim.slot.key.as_str())
        .bind(claim.owner.uuid())
        .fetch_optional(&mut **work)
        .await?;
    Ok(run.map(run_number))
}

/// `invalid_savepoint_specification` and `no_active_sql_transaction`: our savepoint is gone.
fn ended_by_handler(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("3B001" | "25P01"))
}

fn report(error: &sqlx::Error, what: &'static str) {
    tracing::warn!(error = error as &dyn std::error::Error, "{what}");
}
