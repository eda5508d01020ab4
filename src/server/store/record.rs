//! An answer, as it is kept.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// The answer of a completed operation.
///
/// Bytes in, bytes out: nothing is decoded, so a body or a header value that is not text comes back
/// as it went in.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The status.
    pub status: StatusCode,
    /// The headers that are kept: those that describe the answer and not the exchange.
    pub headers: HeaderMap,
    /// The body. `None` when it was too large or a stream: the operation is done, and its answer
    /// cannot be repeated.
    pub body: Option<Bytes>,
}

impl Record {
    /// The memory that the answer takes, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let body = self.body.as_ref().map_or(0, Bytes::len);
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len()
        };
        body + self.headers.iter().map(header).sum::<usize>()
    }
}

impl fmt::Debug for Record {
    /// Sizes only: answers hold what users ordered.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body", &self.body.as_ref().map(Bytes::len))
            .finish()
    }
}
