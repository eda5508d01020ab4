//! One transaction for the work and its record.

use std::error::Error;
use std::sync::Arc;

use axum::response::Response;

use super::IdempotencyLayer;
use super::layer::Shared;
use super::observe::{self, Outcome, Recorded};
use super::operation::{Lease, Operation};
use super::policy::{Fate, OnFailure};
use super::rejection::{refuse, refuse_for};
use super::run::{Attempted, Ended, Job, not_ours, run};
use super::store::Claim;
use super::store::postgres::PostgresStore;
use super::store::postgres::transaction::{Begun, End};
use super::tx::Desk;
use crate::contract::Problem;

impl IdempotencyLayer<PostgresStore> {
    /// Commits the handler's work and its record in **one transaction**: a crash at any instruction
    /// leaves both or nothing.
    ///
    /// The handler does its work through the extractor [`Tx`](super::Tx). An answer below 400
    /// commits it together with the answer; 400 and above undo it, and the answer is kept (a stored
    /// 4xx) or the key freed (5xx and panics). Only then the client is answered.
    ///
    /// The lock on the row is the lease: a rival is told 409 at once while it is held, and takes
    /// over as soon as its owner is dead, without a heartbeat or a time to wait for. So
    /// [`lease`](Self::lease) and [`on_lease_expired`](Self::on_lease_expired) mean nothing here:
    /// of a transaction that did not commit there is nothing left that could happen twice.
    ///
    /// Every running operation holds one connection of the store's pool. More requests than
    /// connections queue for as long as the pool's `acquire_timeout` allows, and are refused with
    /// 503 after that.
    ///
    /// What is done elsewhere, at another service or database, is not in the transaction: hand it
    /// the [downstream key](super::Operation::downstream_key).
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.settings.transactional = Some((*self.store).clone());
        self
    }
}

pub(super) async fn attempt(
    shared: &Arc<Shared>,
    store: PostgresStore,
    job: Box<Job>,
) -> Attempted {
    match store.begin(&job.claim).await {
        Ok(Begun::Owned { work, run }) => {
            observe::run(run);
            let desk = Desk::new(work);
            Attempted::Answered(run_in(shared, &store, job, run, desk).await)
        }
        Ok(Begun::Other(claimed)) => not_ours(claimed, job),
        Err(error) => {
            tracing::error!(
                error = &error as &dyn Error,
                "a transaction could not be begun"
            );
            observe::outcome(Outcome::Unavailable);
            let wait = shared.settings.retry_after;
            Attempted::Answered(refuse_for(&Problem::store_unavailable(), wait))
        }
    }
}

async fn run_in(
    shared: &Shared,
    store: &PostgresStore,
    job: Box<Job>,
    run_number: u32,
    desk: Desk,
) -> Response {
    let settings = &shared.settings;
    let Job {
        claim,
        mut head,
        body,
        handler,
    } = *job;
    head.extensions.insert(desk.clone());
    let namespace = settings.namespace.as_ref();
    let operation = Operation::new(&claim.slot, run_number, namespace, Lease::held());
    let on_panic = settings.on_panic.unwrap_or(OnFailure::Release);
    let ended = run(shared, head, body, handler, operation, on_panic).await;
    end(shared, store, &claim, ended, &desk).await
}

async fn end(
    shared: &Shared,
    store: &PostgresStore,
    claim: &Claim,
    ended: Ended,
    desk: &Desk,
) -> Response {
    let Some(work) = desk.close() else {
        tracing::error!("a handler answered and kept its transaction: it is rolled back");
        observe::recorded(Recorded::Lost);
        return refuse(&Problem::operation_failed());
    };
    let settings = &shared.settings;
    let end = match ended.fate {
        // Holding a key whose work is undone would protect nothing.
        Fate::Release | Fate::Hold => {
            store.abandon(work, claim).await;
            observe::recorded(Recorded::Released);
            return ended.into_answer();
        }
        Fate::Keep => {
            let keep_work = ended.record.status.as_u16() < 400;
            let patience = settings.store_timeout;
            let finishing = store.finish(work, claim, &ended.record, keep_work, patience);
            finishing.await
        }
    };
    match end {
        End::Committed => {
            observe::recorded(ended.recorded());
            ended.into_answer()
        }
        End::RolledBack => {
            observe::recorded(Recorded::Released);
            refuse_for(&Problem::operation_failed(), settings.retry_after)
        }
        End::Interfered => {
            observe::recorded(Recorded::WithoutBody);
            refuse(&Problem::operation_failed())
        }
        End::Unknown => {
            observe::recorded(Recorded::Failed);
            refuse_for(&Problem::operation_failed(), settings.retry_after)
        }
    }
}
