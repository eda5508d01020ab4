//! What errors say, to the letter.

use std::error::Error as _;

use idempotency::{Error, ErrorKind};

use super::failures;

/// Asserts kind and message, and that the message reads well before and after its causes: a fragment in lower case that
/// repeats none of them.
#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, message: &str) {
    let said = error.to_string();
    assert_eq!((error.kind(), &*said), (kind, message));
    let first = said.chars().next().unwrap();
    assert!(!first.is_uppercase() && !said.ends_with('.'), "{said}");
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        assert!(!cause_said.is_empty(), "{cause:?}");
        assert!(!said.contains(&cause_said), "{said} repeats {cause_said}");
        source = cause.source();
    }
}

#[tokio::test(start_paused = true)]
async fn errors_before_the_first_attempt() {
    assert_says(
        &failures::builder().await,
        ErrorKind::Builder,
        "the request could not be built; the operation was not executed",
    );
    let error = failures::key().await;
    let digest = |error: &Error| format!("{:?}", error.key().unwrap().digest());
    assert!(!digest(&error).contains(failures::KEY));
    let said = error.to_string();
    let (start, rest) = said.split_once('#').unwrap();
    assert_eq!(start, "the request carries the key ");
    assert!(
        rest.ends_with(": an operation has one key; the operation may have been executed"),
        "{said}"
    );
    assert!(
        !said.contains(failures::KEY) && !said.contains("another"),
        "{said}"
    );

    assert_says(
        &failures::contract().await,
        ErrorKind::Contract,
        "the contract `ietf-draft` does not honour keys on PUT: send it without `idempotent`; \
         the operation was not executed",
    );
    assert_says(
        &failures::request_body().await,
        ErrorKind::RequestBody,
        "the request body failed before anything was sent; the operation was not executed",
    );
    assert_says(
        &failures::late_body().await,
        ErrorKind::Timeout,
        "the request body did not end before the deadline; the operation was not executed",
    );
}

#[tokio::test(start_paused = true)]
async fn errors_without_an_answer() {
    assert_says(
        &failures::connect().await,
        ErrorKind::Connect,
        "the connection was not made; gave up after 2 requests: all attempts are used up; \
         the operation was not executed",
    );
    assert_says(
        &failures::certificate().await,
        ErrorKind::Certificate,
        "the TLS certificate or handshake was refused; gave up after 1 request: \
         a retry cannot help; the operation was not executed",
    );
    assert_says(
        &failures::refused().await,
        ErrorKind::Refused,
        "the server refused the stream; gave up after 2 requests: all attempts are used up; \
         the operation was not executed",
    );
    assert_says(
        &failures::timeout().await,
        ErrorKind::Timeout,
        "no answer within the attempt's time; gave up after 2 requests: all attempts are used up; \
         the operation may have been executed",
    );
    assert_says(
        &failures::deadline().await,
        ErrorKind::Timeout,
        "no answer within the attempt's time; gave up after 1 request: \
         the deadline leaves no time for another attempt; the operation may have been executed",
    );
    assert_says(
        &failures::connection().await,
        ErrorKind::Connection,
        "the connection closed before an answer; gave up after 2 requests: \
         all attempts are used up; the operation may have been executed",
    );
    assert_says(
        &failures::protocol().await,
        ErrorKind::Protocol,
        "the answer was not valid HTTP; gave up after 2 requests: all attempts are used up; \
         the operation may have been executed",
    );
    assert_says(
        &failures::redirect().await,
        ErrorKind::Redirect,
        "a redirect could not be followed; gave up after 1 request: a retry cannot help; \
         the operation may have been executed",
    );
    assert_says(
        &failures::middleware().await,
        ErrorKind::Middleware,
        "a middleware failed; gave up after 1 request: a retry cannot help; \
         the operation may have been executed",
    );
}

#[tokio::test(start_paused = true)]
async fn errors_with_an_answer() {
    assert_says(
        &failures::status().await,
        ErrorKind::Status,
        "the server answered 503 Service Unavailable; gave up after 2 requests: \
         all attempts are used up; the operation may have been executed",
    );
    assert_says(
        &failures::budget().await,
        ErrorKind::Status,
        "the server answered 503 Service Unavailable; gave up after 1 request: \
         the retry budget is empty; the operation may have been executed",
    );
    assert_says(
        &failures::in_progress().await,
        ErrorKind::InProgress,
        "the server answered 409 Conflict: the operation is still in progress; \
         gave up after 1 request: the time for waiting is up; the operation may have been executed",
    );
    assert_says(
        &failures::error_for_status().await,
        ErrorKind::Status,
        "the server answered 404 Not Found",
    );
    assert_says(
        &failures::mismatch().await,
        ErrorKind::Mismatch,
        "the server answered 400 Bad Request: the key was used before with a different request",
    );
    assert_says(
        &failures::decode().await,
        ErrorKind::Decode,
        "the answer could not be decoded",
    );
    assert_says(
        &failures::body().await,
        ErrorKind::Body,
        "the body of the answer could not be read to its end",
    );
}

#[tokio::test(start_paused = true)]
async fn a_cause_of_the_transport_is_kept() {
    for (error, cause) in [
        (failures::connect().await, true),
        (failures::connection().await, true),
        (failures::certificate().await, true),
        (failures::middleware().await, true),
        (failures::decode().await, true),
        (failures::request_body().await, true),
        // Our own clock, and the server's own word, have no cause beneath them.
        (failures::timeout().await, false),
        (failures::status().await, false),
    ] {
        assert_eq!(error.source().is_some(), cause, "{error}");
    }
    let error = failures::certificate().await;
    assert!(
        has_cause::<tokio_rustls::rustls::Error>(&error),
        "{error:?}"
    );
}

/// Whether an error of this type is among the causes; `io::Error::source` skips the error that it wraps.
fn has_cause<E: std::error::Error + 'static>(error: &Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.is::<E>() {
            return true;
        }
        let io = cause.downcast_ref::<std::io::Error>();
        next = match io.and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => cause.source(),
        };
    }
    false
}
