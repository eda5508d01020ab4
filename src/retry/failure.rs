//! How an attempt failed, and how far it got.

use std::fmt;

/// How far an attempt got, as far as it can be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// No byte of the request reached the server: the connection was never made.
    NeverSent,
    /// The server said, in a way that a standard or its contract makes binding, that it did not process the request:
    /// HTTP/2 `REFUSED_STREAM` or a GOAWAY below the stream (RFC 9113, sections 6.8 and 8.7), 425 Too Early (RFC 8470,
    /// section 5.2), or an answer that the contract defines as "not executed".
    NotProcessed,
    /// An answer came that speaks of the operation.
    Answered,
    /// The request may have been processed, and nothing says whether it was.
    MaybeProcessed,
}

impl Reach {
    /// Whether it is proven that the attempt had no effect.
    #[must_use]
    pub fn proves_no_effect(self) -> bool {
        matches!(self, Self::NeverSent | Self::NotProcessed)
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverSent => "never sent",
            Self::NotProcessed => "not processed",
            Self::Answered => "answered",
            Self::MaybeProcessed => "maybe processed",
        })
    }
}

/// How an attempt failed to bring a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The request could not be built or is not one that can be sent.
    Request,
    /// The caller's own body stream failed before anything was sent.
    RequestBody,
    /// The caller's own body stream failed while it was being sent.
    RequestBodyInFlight,
    /// The host name did not resolve.
    Resolve,
    /// The connection was not made: refused, unreachable, reset during the handshake.
    Connect,
    /// The connection was not made in time.
    ConnectTimeout,
    /// The TLS handshake failed for a reason that may pass.
    Handshake,
    /// The TLS handshake failed for good: the certificate was refused, or the server sent a fatal alert.
    Certificate,
    /// HTTP/2: the server refused the stream (RFC 9113, section 8.7).
    StreamRefused,
    /// HTTP/2: the server went away below our stream (RFC 9113, section 6.8).
    GoAway,
    /// No answer within the attempt's time.
    Timeout,
    /// The connection closed before an answer began.
    Closed,
    /// The connection was reset before an answer began.
    Reset,
    /// What came was not HTTP.
    Malformed,
    /// The answer began and was cut off.
    Truncated,
    /// The answer began and did not end within the attempt's time.
    Stalled,
    /// A redirect could not be followed.
    Redirect,
    /// A middleware of the caller's failed.
    Middleware,
    /// A middleware of the caller's changed the operation's key, body, method or URL, and the attempt was stopped.
    Altered,
    /// Something else broke on the way.
    Other,
}

impl Failure {
    /// A short, stable name, as OpenTelemetry's `error.type` wants it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::RequestBody | Self::RequestBodyInFlight => "request_body",
            Self::Resolve => "name_resolution",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Handshake => "tls_handshake",
            Self::Certificate => "tls_certificate",
            Self::StreamRefused => "stream_refused",
            Self::GoAway => "go_away",
            Self::Timeout => "timeout",
            Self::Closed => "connection_closed",
            Self::Reset => "connection_reset",
            Self::Malformed => "malformed_answer",
            Self::Truncated => "truncated_answer",
            Self::Stalled => "stalled_answer",
            Self::Redirect => "redirect",
            Self::Middleware => "middleware",
            Self::Altered => "altered_by_middleware",
            Self::Other => "other",
        }
    }

    /// Whether the request never got a connection, provided that no redirect was followed on the way.
    fn is_before_connection(self) -> bool {
        matches!(
            self,
            Self::Resolve
                | Self::Connect
                | Self::ConnectTimeout
                | Self::Handshake
                | Self::Certificate
        )
    }

    /// How far a request got that failed so.
    ///
    /// `direct` says that the failure can only be the first hop's. After a followed redirect a refused connection is the
    /// redirect target's, and the first server may have done the work.
    pub(super) fn reach(self, direct: bool) -> Reach {
        match self {
            Self::Request | Self::RequestBody => Reach::NeverSent,
            // Our own guard stopped it, as the last before the wire.
            Self::Altered if direct => Reach::NeverSent,
            _ if direct && self.is_before_connection() => Reach::NeverSent,
            Self::StreamRefused | Self::GoAway if direct => Reach::NotProcessed,
            _ => Reach::MaybeProcessed,
        }
    }

    /// Whether sending the same request again can end otherwise.
    pub(super) fn may_heal(self) -> bool {
        !matches!(
            self,
            Self::Request
                | Self::RequestBody
                | Self::RequestBodyInFlight
                | Self::Certificate
                | Self::Redirect
                | Self::Middleware
                | Self::Altered
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "the request could not be built",
            Self::RequestBody => "the request body failed before anything was sent",
            Self::RequestBodyInFlight => "the request body failed while it was being sent",
            Self::Resolve => "the host name did not resolve",
            Self::Connect => "the connection was not made",
            Self::ConnectTimeout => "the connection was not made in time",
            Self::Handshake => "the TLS handshake failed",
            Self::Certificate => "the TLS certificate or handshake was refused",
            Self::StreamRefused => "the server refused the stream",
            Self::GoAway => "the server went away before it took the request",
            Self::Timeout => "no answer within the attempt's time",
            Self::Closed => "the connection closed before an answer",
            Self::Reset => "the connection was reset before an answer",
            Self::Malformed => "the answer was not valid HTTP",
            Self::Truncated => "the answer was cut off",
            Self::Stalled => "the answer did not end within the attempt's time",
            Self::Redirect => "a redirect could not be followed",
            Self::Middleware => "a middleware failed",
            Self::Altered => "a middleware changed the operation",
            Self::Other => "the exchange failed",
        })
    }
}
