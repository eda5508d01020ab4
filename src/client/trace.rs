//! What a log and a trace get to see: OpenTelemetry's HTTP names, the key's digest, never a secret.

use std::time::Duration;

use http::StatusCode;
use tracing::Span;

use super::frozen::Frozen;
use super::report::Attempt;
use crate::contract::{IdempotencyKey, KeyDigest};
use crate::retry::{Failure, StoppedBy, Verdict};

/// The span of one operation, if anybody traces it. Every attempt is an event in it.
#[inline]
pub(crate) fn operation(frozen: &Frozen, key: Option<&IdempotencyKey>) -> Option<Box<Span>> {
    let span = tracing::info_span!(
        "idempotent_operation",
        "http.request.method" = frozen.method.as_str(),
        "server.address" = frozen.url.host_str(),
        "server.port" = frozen.url.port_or_known_default(),
        "idempotency.key" = tracing::field::Empty,
    );
    if span.is_disabled() {
        return None;
    }
    if let Some(key) = key {
        span.record("idempotency.key", digest(key));
    }
    Some(Box::new(span))
}

fn digest(key: &IdempotencyKey) -> tracing::field::DisplayValue<KeyDigest> {
    tracing::field::display(key.digest())
}

/// How an attempt ended and what follows.
#[inline]
pub(crate) fn attempt(attempt: &Attempt, verdict: Verdict, stopped_by: Option<StoppedBy>) {
    let resend_count = attempt.number.saturating_sub(1);
    let (wait, why) = attempt.wait().unzip();
    tracing::debug!(
        "http.response.status_code" = attempt.status.map(|status| status.as_u16()),
        // OpenTelemetry wants it from the first resend on.
        "http.request.resend_count" = (resend_count > 0).then_some(resend_count),
        "error.type" = error_type(attempt),
        "idempotency.verdict" = name(verdict),
        "idempotency.reach" = %attempt.reach,
        "idempotency.attempt_ms" = millis(attempt.took()),
        "idempotency.wait_ms" = wait.map(millis),
        "idempotency.wait_reason" = why.map(tracing::field::display),
        "idempotency.not_retried_because" = stopped_by.map(tracing::field::display),
        "attempt ended"
    );
}

/// OpenTelemetry wants the status where that is the error.
fn error_type(attempt: &Attempt) -> Option<&str> {
    let failure = attempt.failure.map(Failure::name);
    let status = attempt.status.as_ref();
    failure.or_else(|| {
        status
            .filter(|status| status.as_u16() >= 400)
            .map(StatusCode::as_str)
    })
}

/// The future was dropped while an attempt was under way: nobody knows how it ends.
pub(crate) fn dropped(key: Option<&IdempotencyKey>) {
    tracing::warn!(
        "idempotency.key" = key.map(digest),
        "dropped with an attempt in flight: its outcome is unknown"
    );
}

/// The answer names another key than the one that was sent.
pub(crate) fn echo_mismatch(key: &IdempotencyKey) {
    tracing::warn!(
        "idempotency.key" = digest(key),
        "the server echoed another key: the answer may be that of another operation"
    );
}

/// A server that is known to mark its replays does not.
pub(crate) fn never_marks(host: &str, repeats: u32) {
    tracing::warn!(
        "server.address" = host,
        "idempotency.repeats" = repeats,
        "the contract says that replays are marked, and no repeat has come back with a marker: fresh answers and replays cannot be told apart"
    );
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "done",
        Verdict::Retry { .. } => "retry",
        Verdict::InProgress => "in_progress",
        Verdict::Never { .. } => "never",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
