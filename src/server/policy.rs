//! What is kept, what is released and what is refused: the options, each with a name.

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::outcome::Said;

/// Whether a request needs a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyRule {
    /// A request without a key is refused with 400: a route that somebody protects is one whose
    /// operation must not happen twice.
    #[default]
    Required,
    /// A request without a key runs unprotected.
    Optional,
    /// The key is not looked at.
    Ignored,
}

/// What becomes of the key when the handler fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// The key is free: the next request with it runs the handler again. Right where a failure means
    /// that nothing was done, or where doing it again does no harm.
    Release,
    /// The claim is left to its lease, and then to
    /// [`OnLeaseExpired`](super::OnLeaseExpired). Requests meanwhile are told that it is running.
    Hold,
    /// The failure is the answer: it is kept and replayed, and the handler does not run again.
    Store,
}

/// What becomes of a request when the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreFailure {
    /// 503 with `Retry-After`; the handler does not run.
    #[default]
    Refuse,
    /// The handler runs without protection, and its answer says so in the header
    /// [`UNPROTECTED`](super::UNPROTECTED). A retry runs it again. Not available in one-transaction
    /// mode, where there is no transaction without the database.
    RunUnprotected,
}

/// What happens to the claim once the handler has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    Release,
    Hold,
}

impl From<OnFailure> for Fate {
    fn from(option: OnFailure) -> Self {
        match option {
            OnFailure::Release => Self::Release,
            OnFailure::Hold => Self::Hold,
            OnFailure::Store => Self::Keep,
        }
    }
}

/// The fate of an answer with this status.
pub(super) fn fate(status: StatusCode, said: Option<Said>, on_server_error: OnFailure) -> Fate {
    match said {
        Some(Said::NothingHappened) => return Fate::Release,
        Some(Said::Final) => return Fate::Keep,
        None => {}
    }
    match status.as_u16() {
        // Answers that speak of the attempt and not of the operation: who asked, how fast, how
        // early. The same request may be answered otherwise a moment later.
        401 | 403 | 407 | 408 | 425 | 429 => Fate::Release,
        500.. => on_server_error.into(),
        _ => Fate::Keep,
    }
}

/// The headers that describe an answer, and go with it.
static KEPT: [HeaderName; 20] = [
    header::ACCEPT_RANGES,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("deprecation"),
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::LINK,
    header::LOCATION,
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("repr-digest"),
    header::RETRY_AFTER,
    HeaderName::from_static("sunset"),
    header::VARY,
];

/// Headers that belong to one exchange, or to one caller's session, and are never kept, whatever is
/// asked for. Hop-by-hop: RFC 9110, section 7.6.1.
static NEVER: [HeaderName; 17] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("authentication-info"),
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::WWW_AUTHENTICATE,
    super::REPLAYED,
    super::UNPROTECTED,
];

/// Whether a header may be kept when it is asked for.
pub(super) fn may_be_kept(name: &HeaderName) -> bool {
    !NEVER.contains(name) && !name.as_str().starts_with("access-control-")
}

/// The part of the headers that is kept.
pub(super) fn kept_headers(headers: &HeaderMap, also: &[HeaderName]) -> HeaderMap {
    let kept = |name: &HeaderName| KEPT.contains(name) || also.contains(name);
    headers
        .iter()
        .filter(|(name, _)| kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
