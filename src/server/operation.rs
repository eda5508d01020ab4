//! What a handler can know about the operation that it runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::StatusCode;
use http::request::Parts;
use uuid::Uuid;

use super::store::Slot;
use crate::contract::{IdempotencyKey, KeyNamespace};

/// The operation that a handler runs, as an extractor.
///
/// ```
/// use idempotency::server::Operation;
///
/// async fn create_payment(operation: Operation) -> String {
///     // The same in every run of this operation: the bank recognises the repetition.
///     let key = operation.downstream_key("charge");
///     format!("run {} charges with {key}", operation.run())
/// }
/// ```
///
/// On a route where the key is optional, extract `Option<Operation>`.
#[derive(Debug, Clone)]
pub struct Operation {
    slot: Arc<Slot>,
    run: u32,
    namespace: KeyNamespace,
    held: Lease,
}

/// Whether the lease is still ours, as far as is known.
#[derive(Debug, Clone)]
pub(super) struct Lease(Arc<AtomicBool>);

impl Lease {
    pub(super) fn held() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn lose(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Under which downstream keys are derived where the application gave no namespace of its own.
const NAMESPACE: Uuid = Uuid::from_u128(0x5a2f_9d0c_7b1e_4c86_9f43_d8e1_60b7_2a95);

impl Operation {
    pub(super) fn new(
        slot: &Slot,
        run: u32,
        namespace: Option<&KeyNamespace>,
        held: Lease,
    ) -> Self {
        Self {
            slot: Arc::new(slot.clone()),
            run,
            namespace: namespace.map_or_else(|| KeyNamespace::from_uuid(NAMESPACE), Clone::clone),
            held,
        }
    }

    /// The operation's key.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.slot.key
    }

    /// 1 for the first run. Above 1 an earlier run lost its lease or died, and may have left
    /// effects.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Whether the claim is still this run's, as far as the last heartbeat knew. A run that has
    /// lost it should cause no further effects: another one is under way.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.held.0.load(Ordering::Relaxed)
    }

    /// The key for a step of this operation at another service: hand it to
    /// [`idempotent_with`](crate::RequestBuilder::idempotent_with).
    ///
    /// It depends on the operation's key, its owner and the name, and is the same in every run,
    /// process and release. Two steps of one operation need two names.
    ///
    /// It is as hard to guess as the operation's own key. Where keys can be guessed, such as the ids
    /// of a webhook's events, give the layer a secret
    /// [`downstream_namespace`](super::IdempotencyLayer::downstream_namespace).
    #[must_use]
    pub fn downstream_key(&self, name: &str) -> IdempotencyKey {
        self.namespace.derive([
            self.slot.scope.as_bytes().as_slice(),
            self.slot.key.as_str().as_bytes(),
            name.as_bytes(),
        ])
    }
}

/// The route is not under the layer, or this request has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is not an idempotent operation: is the route under an `IdempotencyLayer`?")]
pub struct NoOperation;

impl axum::response::IntoResponse for NoOperation {
    /// 500: a fault of the service, not of its client.
    fn into_response(self) -> axum::response::Response {
        tracing::error!("{self}");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Operation {
    type Rejection = NoOperation;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoOperation> {
        parts.extensions.get().cloned().ok_or(NoOperation)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Operation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}
