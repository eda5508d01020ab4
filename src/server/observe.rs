//! What a trace, a log and a metric get to see: outcomes and numbers, never a key or a body.

use http::request::Parts;
use tracing::Span;
use tracing::field::Empty;

use crate::contract::IdempotencyKey;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    New,
    TakenOver,
    Replayed,
    NotKept,
    Mismatch,
    InProgress,
    Abandoned,
    Refused,
    Unavailable,
    Unprotected,
    Unkeyed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::TakenOver => "taken_over",
            Self::Replayed => "replayed",
            Self::NotKept => "not_kept",
            Self::Mismatch => "mismatch",
            Self::InProgress => "in_progress",
            Self::Abandoned => "abandoned",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Unprotected => "unprotected",
            Self::Unkeyed => "unkeyed",
        }
    }
}

/// What became of the claim of an operation that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    Stored,
    WithoutBody,
    Released,
    Held,
    Lost,
    Failed,
}

impl Recorded {
    fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::WithoutBody => "without_body",
            Self::Released => "released",
            Self::Held => "held",
            Self::Lost => "lost",
            Self::Failed => "failed",
        }
    }
}

/// The span of one request under the layer; the handler runs in it.
pub(super) fn span(head: &Parts) -> Span {
    tracing::info_span!(
        "idempotency",
        "http.request.method" = head.method.as_str(),
        "idempotency.key" = Empty,
        "idempotency.outcome" = Empty,
        "idempotency.run" = Empty,
        "idempotency.recorded" = Empty,
    )
}

pub(super) fn key(key: &IdempotencyKey) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("idempotency.key", tracing::field::display(key.digest()));
    }
}

/// Counts the request. The name of the counter is that by which the metrics layer of
/// `tracing-opentelemetry` knows one.
pub(super) fn outcome(outcome: Outcome) {
    let outcome = outcome.name();
    Span::current().record("idempotency.outcome", outcome);
    tracing::info!(
        target: "idempotency::metrics",
        {
            "monotonic_counter.idempotency.requests" = 1_u64,
            "idempotency.outcome" = outcome,
        },
        "request counted"
    );
}

pub(super) fn run(run: u32) {
    Span::current().record("idempotency.run", run);
    outcome(if run > 1 {
        Outcome::TakenOver
    } else {
        Outcome::New
    });
}

pub(super) fn recorded(recorded: Recorded) {
    let recorded = recorded.name();
    Span::current().record("idempotency.recorded", recorded);
    tracing::info!(
        target: "idempotency::metrics",
        {
            "monotonic_counter.idempotency.recorded" = 1_u64,
            "idempotency.recorded" = recorded,
        },
        "record counted"
    );
}
