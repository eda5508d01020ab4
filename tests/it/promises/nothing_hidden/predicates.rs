//! The questions that an error answers with yes or no.

use idempotency::{Error, ErrorKind};

use super::failures;

/// The predicates that are true of an error.
fn truths(error: &Error) -> Vec<&'static str> {
    [
        ("builder", error.is_builder()),
        ("connect", error.is_connect()),
        ("timeout", error.is_timeout()),
        ("status", error.is_status()),
        ("redirect", error.is_redirect()),
        ("body", error.is_body()),
        ("decode", error.is_decode()),
    ]
    .into_iter()
    .filter_map(|(name, is)| is.then_some(name))
    .collect()
}

#[tokio::test(start_paused = true)]
async fn every_kind_has_its_predicates() {
    for (error, kind, expected) in [
        (
            failures::builder().await,
            ErrorKind::Builder,
            &["builder"][..],
        ),
        (failures::key().await, ErrorKind::Key, &["builder"]),
        (
            failures::contract().await,
            ErrorKind::Contract,
            &["builder"],
        ),
        (
            failures::request_body().await,
            ErrorKind::RequestBody,
            &["body"],
        ),
        (
            failures::late_body().await,
            ErrorKind::Timeout,
            &["timeout"],
        ),
        (failures::connect().await, ErrorKind::Connect, &["connect"]),
        (
            failures::certificate().await,
            ErrorKind::Certificate,
            &["connect"],
        ),
        (failures::refused().await, ErrorKind::Refused, &[]),
        (failures::timeout().await, ErrorKind::Timeout, &["timeout"]),
        (failures::deadline().await, ErrorKind::Timeout, &["timeout"]),
        (failures::connection().await, ErrorKind::Connection, &[]),
        (failures::protocol().await, ErrorKind::Protocol, &[]),
        (
            failures::redirect().await,
            ErrorKind::Redirect,
            &["redirect"],
        ),
        (failures::middleware().await, ErrorKind::Middleware, &[]),
        (failures::status().await, ErrorKind::Status, &["status"]),
        (failures::budget().await, ErrorKind::Status, &["status"]),
        (
            failures::error_for_status().await,
            ErrorKind::Status,
            &["status"],
        ),
        (
            failures::in_progress().await,
            ErrorKind::InProgress,
            &["status"],
        ),
        (failures::mismatch().await, ErrorKind::Mismatch, &["status"]),
        (failures::decode().await, ErrorKind::Decode, &["decode"]),
        (failures::body().await, ErrorKind::Body, &["body"]),
    ] {
        assert_eq!(
            (error.kind(), &*truths(&error)),
            (kind, expected),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_known_exactly_where_an_answer_came() {
    for (error, status) in [
        (failures::status().await, Some(503)),
        (failures::in_progress().await, Some(409)),
        (failures::mismatch().await, Some(400)),
        (failures::error_for_status().await, Some(404)),
        (failures::timeout().await, None),
        (failures::connect().await, None),
        (failures::builder().await, None),
    ] {
        assert_eq!(error.status().map(|status| status.as_u16()), status);
        assert_eq!(error.response().is_some(), status.is_some(), "{error}");
    }
}
