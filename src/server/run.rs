//! One attempt at an operation: claim, run, record, answer.

use std::error::Error;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};

use super::body::{Answer, read_answer};
use super::heartbeat::Heartbeat;
use super::layer::Shared;
use super::observe::{self, Outcome, Recorded};
use super::operation::{Lease, Operation};
use super::outcome::Said;
use super::panics::{CatchPanic, Panicked};
use super::patience::patiently;
use super::policy::{Fate, OnFailure, OnStoreFailure, fate, kept_headers};
use super::rejection::{TRUE, UNPROTECTED, refuse, refuse_for, replay};
use super::service::Handler;
use super::store::{Claim, Claimed, Ownership, Record, StoreError};
use crate::contract::Problem;
use crate::contract::problem::{CONTENT_TYPE, IN_PROGRESS};

/// An operation that has not run yet.
pub(super) struct Job {
    pub(super) claim: Claim,
    pub(super) head: Parts,
    pub(super) body: Bytes,
    pub(super) handler: Handler,
}

/// What came of an attempt.
pub(super) enum Attempted {
    Answered(Response),
    /// Somebody else is running it.
    Running(Box<Job>),
}

/// Claims, and runs if the claim is ours.
pub(super) async fn attempt(shared: &Arc<Shared>, job: Box<Job>) -> Attempted {
    #[cfg(feature = "postgres")]
    if let Some(store) = shared.settings.transactional.clone() {
        return super::transactional::attempt(shared, store, job).await;
    }
    let claim = &job.claim;
    let limit = shared.settings.store_timeout;
    match patiently(3, limit, || shared.store.claim(claim)).await {
        Ok(Claimed::Owned { run }) => Attempted::Answered(run_leased(shared, job, run).await),
        Ok(claimed) => not_ours(claimed, job),
        Err(error) => Attempted::Answered(without_store(shared, job, &error).await),
    }
}

/// The answer to a claim that is not ours.
pub(super) fn not_ours(claimed: Claimed, job: Box<Job>) -> Attempted {
    Attempted::Answered(match claimed {
        Claimed::Owned { .. } | Claimed::Running => return Attempted::Running(job),
        Claimed::Mismatch => {
            observe::outcome(Outcome::Mismatch);
            refuse(&Problem::key_reused())
        }
        Claimed::Abandoned => {
            observe::outcome(Outcome::Abandoned);
            refuse(&Problem::outcome_unknown())
        }
        Claimed::Completed(record) => {
            observe::outcome(match record.body {
                Some(_) => Outcome::Replayed,
                None => Outcome::NotKept,
            });
            replay(record)
        }
    })
}

async fn without_store(shared: &Arc<Shared>, job: Box<Job>, error: &StoreError) -> Response {
    let settings = &shared.settings;
    tracing::error!(error = error as &dyn Error, "a key could not be claimed");
    // The claim may have been written all the same. It is a claim of nobody.
    let (store, claim, limit) = (
        shared.store.clone(),
        job.claim.clone(),
        settings.store_timeout,
    );
    tokio::spawn(async move { patiently(4, limit, || store.release(&claim)).await });
    match settings.on_store_failure {
        OnStoreFailure::Refuse => {
            observe::outcome(Outcome::Unavailable);
            refuse_for(&Problem::store_unavailable(), settings.retry_after)
        }
        OnStoreFailure::RunUnprotected => {
            observe::outcome(Outcome::Unprotected);
            let request = Request::from_parts(job.head, job.body.into());
            match CatchPanic((job.handler)(request)).await {
                Ok(mut answer) => {
                    answer.headers_mut().insert(UNPROTECTED, TRUE);
                    answer
                }
                Err(Panicked) => refuse(&Problem::operation_failed()),
            }
        }
    }
}

/// What the handler left.
pub(super) struct Ended {
    head: http::response::Parts,
    body: Answer,
    pub(super) fate: Fate,
    pub(super) record: Record,
}

impl Ended {
    pub(super) fn into_answer(self) -> Response {
        Response::from_parts(self.head, self.body.into_body())
    }

    pub(super) fn recorded(&self) -> Recorded {
        match self.record.body {
            Some(_) => Recorded::Stored,
            None => Recorded::WithoutBody,
        }
    }
}

/// Runs the handler and reads its answer. Nothing that it does gets past this.
pub(super) async fn run(
    shared: &Shared,
    mut head: Parts,
    body: Bytes,
    handler: Handler,
    operation: Operation,
    on_panic: OnFailure,
) -> Ended {
    let settings = &shared.settings;
    head.extensions.insert(operation);
    let request = Request::from_parts(head, body.into());
    let limit = settings.answer_limit;
    let running = CatchPanic(Box::pin(async move {
        let (mut head, body) = handler(request).await.into_parts();
        let said = head.extensions.remove::<Said>();
        let body = match is_endless(&head) {
            true => Ok(Answer::Passing(body)),
            false => read_answer(body, limit).await,
        };
        body.map(|body| (head, body, said))
    }));
    let (head, body, fate) = match running.await {
        Ok(Ok((head, body, said))) => {
            let fate = match is_in_progress(&head, &body) {
                true => Fate::Release,
                false => fate(head.status, said, settings.on_server_error),
            };
            (head, body, fate)
        }
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn Error, "the body of an answer failed");
            failed(on_panic)
        }
        Err(Panicked) => {
            tracing::error!("the handler panicked");
            failed(on_panic)
        }
    };
    let record = Record {
        status: head.status,
        headers: kept_headers(&head.headers, &settings.keep_headers),
        body: match &body {
            Answer::Whole { bytes, .. } => Some(bytes.clone()),
            Answer::Passing(_) => None,
        },
    };
    Ended {
        head,
        body,
        fate,
        record,
    }
}

fn failed(on_panic: OnFailure) -> (http::response::Parts, Answer, Fate) {
    let problem = Problem::operation_failed();
    let bytes = problem.to_bytes();
    let (head, _) = refuse(&problem).into_parts();
    let trailers = None;
    (head, Answer::Whole { bytes, trailers }, on_panic.into())
}

/// Answers that have no end to wait for.
fn is_endless(head: &http::response::Parts) -> bool {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    head.status == StatusCode::SWITCHING_PROTOCOLS
        || content_type.is_some_and(|value| starts_with(value.as_bytes(), "text/event-stream"))
}

fn starts_with(value: &[u8], media_type: &str) -> bool {
    let start = value.get(..media_type.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(media_type.as_bytes()))
}

/// Our own 409, of another layer of ours further in or of a service behind the handler: it speaks of
/// a moment that passes.
fn is_in_progress(head: &http::response::Parts, body: &Answer) -> bool {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    head.status == StatusCode::CONFLICT
        && content_type.is_some_and(|value| starts_with(value.as_bytes(), CONTENT_TYPE))
        && match body {
            Answer::Whole { bytes, .. } => {
                Problem::read(bytes).is_some_and(|problem| problem.type_uri == IN_PROGRESS)
            }
            Answer::Passing(_) => false,
        }
}

async fn run_leased(shared: &Arc<Shared>, job: Box<Job>, run_number: u32) -> Response {
    observe::run(run_number);
    let Job {
        claim,
        head,
        body,
        handler,
    } = *job;
    let settings = &shared.settings;
    let lease = Lease::held();
    let heartbeat = Heartbeat::start(shared.store.clone(), claim.clone(), lease.clone());
    let operation = Operation::new(&claim.slot, run_number, settings.namespace.as_ref(), lease);
    let on_panic = settings.on_panic.unwrap_or(OnFailure::Store);
    let ended = run(shared, head, body, handler, operation, on_panic).await;
    let answer = match ended.fate {
        Fate::Keep => keep(shared, &claim, ended).await,
        Fate::Hold => {
            observe::recorded(Recorded::Held);
            ended.into_answer()
        }
        Fate::Release => {
            release(shared, &claim).await;
            ended.into_answer()
        }
    };
    drop(heartbeat);
    answer
}

async fn release(shared: &Shared, claim: &Claim) {
    let limit = shared.settings.store_timeout;
    let recorded = match patiently(5, limit, || shared.store.release(claim)).await {
        Ok(Ownership::Held) => Recorded::Released,
        Ok(Ownership::Lost) => Recorded::Lost,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn Error,
                "a claim could not be released and is left to its lease"
            );
            Recorded::Failed
        }
    };
    observe::recorded(recorded);
}

async fn keep(shared: &Shared, claim: &Claim, ended: Ended) -> Response {
    let limit = shared.settings.store_timeout;
    let keeping = || shared.store.complete(claim, &ended.record);
    match patiently(5, limit, keeping).await {
        Ok(Ownership::Held) => {
            observe::recorded(ended.recorded());
            ended.into_answer()
        }
        Ok(Ownership::Lost) => lost(shared, claim, ended).await,
        // The effect is there, and the client is told so. The row stays claimed until its lease
        // passes: releasing it would invite a second run.
        Err(error) => {
            tracing::error!(
                error = &error as &dyn Error,
                "an answer could not be kept: its key is left to its lease"
            );
            observe::recorded(Recorded::Failed);
            ended.into_answer()
        }
    }
}

/// Another owner has taken over. One answer is recorded, and every client is told that one.
async fn lost(shared: &Shared, claim: &Claim, ended: Ended) -> Response {
    tracing::error!("the claim was lost before the answer was kept: the operation may run twice");
    observe::recorded(Recorded::Lost);
    let limit = shared.settings.store_timeout;
    match patiently(3, limit, || shared.store.claim(claim)).await {
        Ok(Claimed::Completed(record)) => replay(record),
        Ok(Claimed::Running) => refuse_for(&Problem::in_progress(), shared.settings.retry_after),
        // The successor has released it: ours is the answer after all.
        Ok(Claimed::Owned { .. }) => {
            let keeping = || shared.store.complete(claim, &ended.record);
            if let Err(error) = patiently(3, limit, keeping).await {
                tracing::error!(error = &error as &dyn Error, "an answer could not be kept");
            }
            ended.into_answer()
        }
        Ok(Claimed::Abandoned | Claimed::Mismatch) | Err(_) => ended.into_answer(),
    }
}
