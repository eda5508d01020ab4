//! Problem documents (RFC 9457) about idempotency keys.
//!
//! The IETF draft for the `Idempotency-Key` header asks for a problem document with its errors and
//! registers no type for them. These are the types that servers of this crate answer with, and that
//! [`Contract::generic`] recognises. A type is stable: its URI is the address of its section below.
//!
//! # Key missing
//!
//! Status 400. The route requires a key and the request has none. Nothing was done. Send the
//! request again with a key.
//!
//! # Key invalid
//!
//! Status 400. The key is empty, longer than 255 bytes, not visible ASCII or not quoted correctly.
//! Nothing was done.
//!
//! # Several keys
//!
//! Status 400. The key header stands in the request more than once. Nothing was done. Look for the
//! layer that adds the second.
//!
//! # In progress
//!
//! Status 409. An earlier request with this key is still running. Wait as long as `Retry-After`
//! says and send the identical request again, with the same key; nothing needs to be corrected.
//!
//! # Key reused
//!
//! Status 422. The key was used before with another request: another method, target, content type
//! or body. Nothing was done. Send the original request, or a new operation with a new key.
//!
//! # Answer not kept
//!
//! Status 409. The operation was done under this key before, and its answer was too large, or a
//! stream, and is not stored. It is not done again. Look the result up; do not repeat it with a new
//! key.
//!
//! # Body too large
//!
//! Status 413. The request's body is larger than what the server compares and keeps under a key.
//! Nothing was done.
//!
//! # Store unavailable
//!
//! Status 503. The store of keys cannot be reached, and the server does not run operations that it
//! cannot protect. Nothing was done. Send the identical request again later, with the same key.
//!
//! # Body incomplete
//!
//! Status 400. The request's body ended before its end. Nothing was done.
//!
//! # Scope unknown
//!
//! Status 403. The request does not say whose key it is. Nothing was done. Send it with the
//! credentials that the route asks for.
//!
//! # Operation failed
//!
//! Status 500. The operation ended without an answer. Whether it had an effect is not known. A
//! repeat with the same key is safe.
//!
//! # Outcome unknown
//!
//! Status 500. An earlier request with this key was interrupted, and the server does not run it
//! again by itself. Whether it had an effect is not known. Look the result up; do not repeat it with
//! a new key.
//!
//! [`Contract::generic`]: crate::contract::Contract::generic

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::{KeyError, KeyReadError};

macro_rules! type_uri {
    ($anchor:literal) => {
        concat!(
            "https://docs.rs/idempotency/latest/idempotency/contract/problem/index.html#",
            $anchor
        )
    };
}

/// The type for [a missing key](self#key-missing).
pub const KEY_MISSING: &str = type_uri!("key-missing");
/// The type for [an invalid key](self#key-invalid).
pub const KEY_INVALID: &str = type_uri!("key-invalid");
/// The type for [several keys](self#several-keys).
pub const SEVERAL_KEYS: &str = type_uri!("several-keys");
/// The type for [an operation in progress](self#in-progress).
pub const IN_PROGRESS: &str = type_uri!("in-progress");
/// The type for [a reused key](self#key-reused).
pub const KEY_REUSED: &str = type_uri!("key-reused");
/// The type for [an answer that was not kept](self#answer-not-kept).
pub const ANSWER_NOT_KEPT: &str = type_uri!("answer-not-kept");
/// The type for [a request body that is too large](self#body-too-large).
pub const BODY_TOO_LARGE: &str = type_uri!("body-too-large");
/// The type for [an unavailable store](self#store-unavailable).
pub const STORE_UNAVAILABLE: &str = type_uri!("store-unavailable");

/// The type for [a body that ended early](self#body-incomplete).
pub const BODY_INCOMPLETE: &str = type_uri!("body-incomplete");
/// The type for [a request without an owner](self#scope-unknown).
pub const SCOPE_UNKNOWN: &str = type_uri!("scope-unknown");
/// The type for [an operation without an answer](self#operation-failed).
pub const OPERATION_FAILED: &str = type_uri!("operation-failed");
/// The type for [an interrupted operation](self#outcome-unknown).
pub const OUTCOME_UNKNOWN: &str = type_uri!("outcome-unknown");

/// The type of a document that does not name one (RFC 9457, section 4.2.1).
pub const ABOUT_BLANK: &str = "about:blank";

/// The content type of problem documents.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// A problem document.
///
/// ```
/// use idempotency::contract::problem::{IN_PROGRESS, Problem};
///
/// let sent = Problem::in_progress();
/// let read = Problem::read(&sent.to_bytes()).expect("a document");
/// assert_eq!(read, sent);
/// assert_eq!(read.type_uri, IN_PROGRESS);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// What kind of problem it is: the identifier to decide by.
    #[serde(rename = "type")]
    pub type_uri: Cow<'static, str>,
    /// The kind in a few words, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Cow<'static, str>>,
    /// The status that the origin server chose; the status line decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What is particular to this occurrence, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'static, str>>,
    /// A name of this occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<Cow<'static, str>>,
}

impl Problem {
    const fn new(
        type_uri: &'static str,
        title: &'static str,
        status: StatusCode,
        detail: &'static str,
    ) -> Self {
        Self {
            type_uri: Cow::Borrowed(type_uri),
            title: Some(Cow::Borrowed(title)),
            status: Some(status.as_u16()),
            detail: Some(Cow::Borrowed(detail)),
            instance: None,
        }
    }

    /// 400: [the key is missing](self#key-missing).
    #[must_use]
    pub const fn key_missing() -> Self {
        Self::new(
            KEY_MISSING,
            "Idempotency key missing",
            StatusCode::BAD_REQUEST,
            "This operation requires an idempotency key. Nothing was done.",
        )
    }

    /// 400: [the key is invalid](self#key-invalid), or [there are several](self#several-keys).
    #[must_use]
    pub fn key_unreadable(error: &KeyReadError) -> Self {
        // The error's own text is for the log: it names items of this crate, which mean nothing to
        // other clients.
        let why = match error {
            KeyReadError::SeveralLines => return Self::several_keys(),
            KeyReadError::Quoting => Cow::Borrowed("is not quoted correctly"),
            KeyReadError::Key(KeyError::Empty) => Cow::Borrowed("is empty"),
            KeyReadError::Key(KeyError::TooLong { length }) => {
                format!("has {length} bytes, more than 255").into()
            }
            KeyReadError::Key(KeyError::NotVisibleAscii { position, .. }) => {
                format!("has a byte outside visible ASCII (0x21 to 0x7E) at position {position}")
                    .into()
            }
        };
        Self::key_invalid().with_detail(format!("The idempotency key {why}. Nothing was done."))
    }

    /// 400: [the key is invalid](self#key-invalid).
    #[must_use]
    pub const fn key_invalid() -> Self {
        Self::new(
            KEY_INVALID,
            "Idempotency key invalid",
            StatusCode::BAD_REQUEST,
            "An idempotency key is 1 to 255 visible ASCII characters, bare or as one quoted string. Nothing was done.",
        )
    }

    /// 400: [there are several keys](self#several-keys).
    #[must_use]
    pub const fn several_keys() -> Self {
        Self::new(
            SEVERAL_KEYS,
            "More than one idempotency key",
            StatusCode::BAD_REQUEST,
            "The key header stands in the request more than once. Nothing was done.",
        )
    }

    /// 409: [the operation is in progress](self#in-progress).
    #[must_use]
    pub const fn in_progress() -> Self {
        Self::new(
            IN_PROGRESS,
            "Operation in progress",
            StatusCode::CONFLICT,
            "An earlier request with this key is still running. Send the identical request again later.",
        )
    }

    /// 422: [the key was used with another request](self#key-reused).
    #[must_use]
    pub const fn key_reused() -> Self {
        Self::new(
            KEY_REUSED,
            "Idempotency key reused",
            StatusCode::UNPROCESSABLE_ENTITY,
            "This key was used before with a different request. Nothing was done.",
        )
    }

    /// 409: [the operation was done and its answer was not kept](self#answer-not-kept).
    #[must_use]
    pub const fn answer_not_kept() -> Self {
        Self::new(
            ANSWER_NOT_KEPT,
            "Answer not kept",
            StatusCode::CONFLICT,
            "The operation was done under this key before. Its answer was not stored, and it is not done again.",
        )
    }

    /// 413: [the request's body is too large](self#body-too-large).
    #[must_use]
    pub const fn body_too_large() -> Self {
        Self::new(
            BODY_TOO_LARGE,
            "Body too large for an idempotent operation",
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is larger than what is kept under an idempotency key. Nothing was done.",
        )
    }

    /// 503: [the store is unavailable](self#store-unavailable).
    #[must_use]
    pub const fn store_unavailable() -> Self {
        Self::new(
            STORE_UNAVAILABLE,
            "Idempotency store unavailable",
            StatusCode::SERVICE_UNAVAILABLE,
            "Idempotency keys cannot be checked at the moment. Nothing was done.",
        )
    }

    /// 400: [the request's body ended early](self#body-incomplete).
    #[must_use]
    pub const fn body_incomplete() -> Self {
        Self::new(
            BODY_INCOMPLETE,
            "Body incomplete",
            StatusCode::BAD_REQUEST,
            "The body ended before its end. Nothing was done.",
        )
    }

    /// 403: [the request has no owner](self#scope-unknown).
    #[must_use]
    pub const fn scope_unknown() -> Self {
        Self::new(
            SCOPE_UNKNOWN,
            "Owner of the idempotency key unknown",
            StatusCode::FORBIDDEN,
            "The request does not say whose key it is. Nothing was done.",
        )
    }

    /// 500: [the operation ended without an answer](self#operation-failed).
    #[must_use]
    pub const fn operation_failed() -> Self {
        Self::new(
            OPERATION_FAILED,
            "Operation failed",
            StatusCode::INTERNAL_SERVER_ERROR,
            "The operation ended without an answer. Repeat it with the same key only.",
        )
    }

    /// 500: [an earlier run was interrupted](self#outcome-unknown).
    #[must_use]
    pub const fn outcome_unknown() -> Self {
        Self::new(
            OUTCOME_UNKNOWN,
            "Outcome unknown",
            StatusCode::INTERNAL_SERVER_ERROR,
            "An earlier request with this key was interrupted and is not run again. Look the result up.",
        )
    }

    /// The same problem with another explanation of this occurrence.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same problem with a name for this occurrence.
    #[must_use]
    pub fn with_instance(mut self, instance: impl Into<Cow<'static, str>>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// The document as JSON, to be sent as [`CONTENT_TYPE`].
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .unwrap_or_default()
    }

    /// Reads a document leniently: members of a wrong type are ignored, as are unknown ones (RFC
    /// 9457, section 3.1). `None` when the text is not a JSON object.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let Value::Object(mut members) = serde_json::from_slice(body).ok()? else {
            return None;
        };
        let mut text = |name| match members.remove(name) {
            Some(Value::String(text)) => Some(Cow::Owned(text)),
            _ => None,
        };
        let type_uri = text("type").unwrap_or(Cow::Borrowed(ABOUT_BLANK));
        let (title, detail, instance) = (text("title"), text("detail"), text("instance"));
        let status = members
            .get("status")
            .and_then(Value::as_u64)
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (100..=599).contains(status));
        Some(Self {
            type_uri,
            title,
            status,
            detail,
            instance,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::KeyError;

    #[test]
    fn every_document_of_ours_has_its_status_and_a_section_in_the_documentation() {
        let source = include_str!("problem.rs");
        for (problem, status) in [
            (Problem::key_missing(), 400),
            (Problem::key_invalid(), 400),
            (Problem::several_keys(), 400),
            (Problem::in_progress(), 409),
            (Problem::key_reused(), 422),
            (Problem::answer_not_kept(), 409),
            (Problem::body_too_large(), 413),
            (Problem::store_unavailable(), 503),
            (Problem::body_incomplete(), 400),
            (Problem::scope_unknown(), 403),
            (Problem::operation_failed(), 500),
            (Problem::outcome_unknown(), 500),
        ] {
            assert_eq!(problem.status, Some(status));
            let (page, anchor) = problem.type_uri.split_once('#').unwrap();
            assert!(page.ends_with("/contract/problem/index.html"));
            let heading = |line: &str| {
                line.strip_prefix("//! # ")
                    .is_some_and(|title| title.to_lowercase().replace(' ', "-") == anchor)
            };
            assert!(source.lines().any(heading), "{anchor}");
        }
    }

    #[test]
    fn a_document_is_written_as_the_rfc_says() {
        let problem = Problem::in_progress()
            .with_detail("Half way.")
            .with_instance("/orders/1");
        let json: Value = serde_json::from_slice(&problem.to_bytes()).unwrap();
        let expected = serde_json::json!({
            "type": IN_PROGRESS,
            "title": "Operation in progress",
            "status": 409,
            "detail": "Half way.",
            "instance": "/orders/1",
        });
        assert_eq!(json, expected);
        assert_eq!(Problem::read(&problem.to_bytes()), Some(problem));
    }

    #[test]
    fn an_unreadable_key_is_explained_without_the_words_of_this_crate() {
        for (error, type_uri, detail) in [
            (KeyReadError::SeveralLines, SEVERAL_KEYS, "more than once"),
            (
                KeyReadError::Quoting,
                KEY_INVALID,
                "is not quoted correctly.",
            ),
            (KeyError::Empty.into(), KEY_INVALID, "is empty."),
            (
                KeyError::TooLong { length: 256 }.into(),
                KEY_INVALID,
                "has 256 bytes",
            ),
            (
                KeyError::NotVisibleAscii {
                    position: 3,
                    byte: 32,
                }
                .into(),
                KEY_INVALID,
                "at position 3.",
            ),
        ] {
            let problem = Problem::key_unreadable(&error);
            assert_eq!(problem.type_uri, type_uri);
            let text = problem.detail.unwrap();
            assert!(
                text.contains(detail) && text.ends_with(" Nothing was done."),
                "{text}"
            );
            assert!(!text.contains("::"), "{text}");
        }
    }

    #[test]
    fn members_of_a_wrong_type_are_ignored() {
        let problem =
            Problem::read(br#"{"type":7,"title":["x"],"status":"409","detail":null,"x":{}}"#)
                .unwrap();
        assert_eq!(problem.type_uri, ABOUT_BLANK);
        assert_eq!(
            (problem.title, problem.status, problem.detail),
            (None, None, None)
        );
        for (status, read) in [
            ("409", Some(409)),
            ("99", None),
            ("600", None),
            ("70000", None),
            ("-1", None),
            ("409.5", None),
        ] {
            let body = format!(r#"{{"status":{status}}}"#);
            assert_eq!(
                Problem::read(body.as_bytes()).unwrap().status,
                read,
                "{status}"
            );
        }
    }

    #[test]
    fn what_is_no_document_is_none() {
        let deep = "[".repeat(100_000);
        for body in ["", "null", "[]", "7", "\"x\"", "{", "<html>", &deep] {
            assert_eq!(Problem::read(body.as_bytes()), None);
        }
    }
}
