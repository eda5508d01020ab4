//! The transaction of an operation, in the hands of its handler.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use sqlx::PgConnection;

use super::store::postgres::transaction::Work;

/// The transaction in which the work and its record are committed together, as an extractor.
///
/// ```
/// use http::StatusCode;
/// use idempotency::server::Tx;
/// use idempotency::reexports::sqlx;
///
/// async fn create_payment(mut tx: Tx) -> Result<StatusCode, StatusCode> {
///     sqlx::query("INSERT INTO payments (amount) VALUES (100)")
///         .execute(&mut *tx)
///         .await
///         .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
///     Ok(StatusCode::CREATED)
/// }
/// ```
///
/// The layer must be [`transactional`](super::IdempotencyLayer::transactional). Answer, and what
/// was done through this connection is committed (below 400) or undone (400 and above) by the
/// layer. `begin` on it is a savepoint. Dropping the value gives the transaction back, so it must be
/// dropped when the answer is complete: an answer whose `Tx` is still alive, in a task or in a
/// streaming body, is turned into a 500 and its work rolled back.
///
/// Do not end the transaction yourself with `COMMIT` or `ROLLBACK` as text, and undo what you
/// changed with `SET LOCAL` if it would keep the record from being written (the role, the search
/// path). Do not take a second connection from the same pool while you hold this one: as many such
/// requests as the pool has connections would wait for each other.
pub struct Tx {
    work: Option<Work>,
    desk: Desk,
}

/// Where a transaction waits while nobody has it. It travels in the request's extensions.
#[derive(Clone)]
pub(super) struct Desk(Arc<Mutex<State>>);

enum State {
    Here(Work),
    Lent,
    /// The operation is over: what comes back now is rolled back.
    Closed,
}

impl Desk {
    pub(super) fn new(work: Work) -> Self {
        Self(Arc::new(Mutex::new(State::Here(work))))
    }

    /// Takes the transaction back. `None` when somebody still has it.
    pub(super) fn close(&self) -> Option<Work> {
        match mem::replace(&mut *self.lock(), State::Closed) {
            State::Here(work) => Some(work),
            State::Lent | State::Closed => None,
        }
    }

    fn lend(&self) -> Result<Tx, NoTransaction> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Lent) {
            State::Here(work) => Ok(Tx {
                work: Some(work),
                desk: self.clone(),
            }),
            other => {
                *state = other;
                Err(NoTransaction::Lent)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        if let (State::Lent, Some(work)) = (&*state, self.work.take()) {
            *state = State::Here(work);
        }
    }
}

/// Why there is no transaction to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTransaction {
    /// The route's layer is not transactional, or the request has no key.
    #[error("the request has no transaction: is the route's `IdempotencyLayer` transactional?")]
    None,
    /// Another extractor has it: there is one.
    #[error("the request's transaction was taken already: extract `Tx` once")]
    Lent,
}

impl IntoResponse for NoTransaction {
    /// 500: a fault of the service, not of its client.
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Tx {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
        let desk = parts.extensions.get::<Desk>().ok_or(NoTransaction::None)?;
        desk.lend()
    }
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.work.as_deref().expect(HERE)
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.work.as_deref_mut().expect(HERE)
    }
}

const HERE: &str = "the transaction is given back in drop and nowhere else";

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}
