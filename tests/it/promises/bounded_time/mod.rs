//! Time is bounded and honest: every limit holds to the millisecond, and the error says what really went wrong.

mod bodies;
mod deadlines;
mod dropped;
mod numbers;
mod timeouts;

use std::time::Duration;

use idempotency::{Error, ErrorKind, IdempotentRequest, StoppedBy};

use crate::support::timed;

/// Asserts that an operation fails, with which last cause and because of which limit, and after exactly what time.
async fn assert_fails(
    operation: &IdempotentRequest,
    kind: ErrorKind,
    limit: StoppedBy,
    after: Duration,
) -> Error {
    let (result, took) = timed(operation.send()).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), error.stopped_by(), took),
        (kind, Some(limit), after),
        "{error}"
    );
    error
}
