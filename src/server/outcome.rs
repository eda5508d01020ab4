//! What a handler can say about what it did.

use axum::response::{IntoResponse, Response};

/// An answer after which the key is free again: **nothing happened**.
///
/// ```
/// use axum::response::{IntoResponse, Response};
/// use http::StatusCode;
/// use idempotency::server::NothingHappened;
///
/// async fn create_payment() -> Response {
///     // The stock is checked before anything is written.
///     NothingHappened((StatusCode::CONFLICT, "sold out, try later")).into_response()
/// }
/// ```
///
/// The same request with the same key runs the handler again, whatever the status is. Say it only
/// when no effect is left, here or anywhere else.
#[derive(Debug, Clone, Copy)]
pub struct NothingHappened<R>(
    /// The answer.
    pub R,
);

/// An answer that is kept and replayed, whatever its status: **this is final**.
///
/// ```
/// use axum::response::{IntoResponse, Response};
/// use http::StatusCode;
/// use idempotency::server::Final;
///
/// async fn create_payment() -> Response {
///     // The bank took the order and then failed: a second order would be a second payment.
///     Final((StatusCode::BAD_GATEWAY, "taken, and not confirmed")).into_response()
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Final<R>(
    /// The answer.
    pub R,
);

/// The handler's word, in the extensions of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    NothingHappened,
    Final,
}

impl<R: IntoResponse> IntoResponse for NothingHappened<R> {
    fn into_response(self) -> Response {
        say(self.0, Said::NothingHappened)
    }
}

impl<R: IntoResponse> IntoResponse for Final<R> {
    fn into_response(self) -> Response {
        say(self.0, Said::Final)
    }
}

fn say(answer: impl IntoResponse, said: Said) -> Response {
    let mut answer = answer.into_response();
    answer.extensions_mut().insert(said);
    answer
}
