//! The answers that are ours and not the handler's.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};

use super::store::Record;
use crate::contract::problem::{self, Problem};

/// On every replay, and on nothing else: `Idempotent-Replayed: true`.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// On answers of operations that ran without protection, because the store failed and the layer is
/// set to [`OnStoreFailure::RunUnprotected`](super::OnStoreFailure::RunUnprotected):
/// `Idempotency-Unprotected: true`.
pub const UNPROTECTED: HeaderName = HeaderName::from_static("idempotency-unprotected");

pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A problem document as an answer.
pub(super) fn refuse(problem: &Problem) -> Response {
    let status = problem
        .status
        .and_then(|status| StatusCode::from_u16(status).ok());
    let mut answer = Response::new(Body::from(problem.to_bytes()));
    *answer.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = HeaderValue::from_static(problem::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// The same, with the time after which repeating makes sense.
pub(super) fn refuse_for(problem: &Problem, wait: Duration) -> Response {
    let mut answer = refuse(problem);
    answer.headers_mut().insert(RETRY_AFTER, seconds(wait));
    answer
}

/// Whole seconds, rounded up, and never 0: that would ask for a loop.
fn seconds(wait: Duration) -> HeaderValue {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    HeaderValue::from(seconds.max(1))
}

/// The stored answer, with the marker.
pub(super) fn replay(record: Record) -> Response {
    let Some(body) = record.body else {
        return refuse(&Problem::answer_not_kept());
    };
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = record.status;
    *answer.headers_mut() = record.headers;
    answer.headers_mut().insert(REPLAYED, TRUE);
    answer
}
