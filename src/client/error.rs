//! Why there is no answer, and what is certain all the same.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::report::{Attempt, Report};
use super::response::Response;
use crate::contract::IdempotencyKey;
use crate::retry::{Failure, StoppedBy};

type BoxError = Box<dyn StdError + Send + Sync>;

/// What is certain about the operation's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It was not executed: that is proven for every attempt, and nobody else can have sent this key. It can be sent again,
    /// with the same key or another, now or never.
    NotExecuted,
    /// It may have been executed, or may still be. Take it up again with the same key; another key could execute it twice.
    Unknown,
    /// The server gave the operation's final answer. The error arose from that answer: its status, its decoding, or the tail of
    /// a streamed body.
    Answered,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotExecuted => "not executed",
            Self::Unknown => "unknown",
            Self::Answered => "answered",
        })
    }
}

/// What kind of error it is: what the last attempt met, or what was wrong before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client or the request could not be built: a bad URL, header or body.
    Builder,
    /// The idempotency key cannot be used: it breaks a rule, stands there twice, or belongs to another request.
    Key,
    /// The contract does not allow it: the method is not one for which the server honours keys, or the body is none that can take
    /// the key where the server expects it.
    Contract,
    /// The caller's own body stream failed, or is used up.
    RequestBody,
    /// No connection was made.
    Connect,
    /// The TLS handshake failed for good: the certificate was refused.
    Certificate,
    /// The server refused to process the request (HTTP/2).
    Refused,
    /// No complete answer within the attempt's time.
    Timeout,
    /// The connection was lost before a complete answer had come.
    Connection,
    /// What came was not HTTP.
    Protocol,
    /// A redirect could not be followed.
    Redirect,
    /// A middleware of the caller's failed, or changed what belongs to the operation ([`OperationGuard`](crate::OperationGuard)).
    Middleware,
    /// The last answer's status does not settle the operation. From [`Response::error_for_status`]: it is 4xx or 5xx.
    Status,
    /// The operation was still in progress when the time for waiting was up.
    InProgress,
    /// The key was used before with a different request.
    Mismatch,
    /// From [`Response::error_for_status`]: the status is 4xx, and it says that the operation was done before under this key. The
    /// response may name what was made ([`Response::existing_resource`]).
    AlreadyDone,
    /// The answer's body is not what it was decoded as.
    Decode,
    /// The rest of a streamed answer was lost.
    Body,
}

/// No answer to the operation, or an error made from one.
///
/// From `send` it means that no definite answer was obtained. What to do next is in [`effect`](Self::effect); with which key in
/// [`key`](Self::key).
///
/// # Examples
///
/// ```
/// use idempotency::{Client, Effect, ErrorKind};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder().build()?;
/// let error = client.post("payments").idempotent().send().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Builder);
/// assert_eq!(error.effect(), Effect::NotExecuted);
/// assert_eq!(
///     error.to_string(),
///     r#"bad URL "payments": relative URL without a base; the operation was not executed"#,
/// );
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    effect: Effect,
    what: What,
    report: Report,
    response: Option<Response>,
    source: Option<Source>,
}

/// What the first words of the message come from.
#[derive(Debug)]
pub(crate) enum What {
    Message(String),
    Failure(Failure),
    Status(StatusCode),
}

/// The cause, as the transport gave it.
#[derive(Debug)]
pub(crate) enum Source {
    Transport(reqwest::Error),
    Middleware(reqwest_middleware::Error),
    Other(BoxError),
}

impl Error {
    pub(crate) fn local(kind: ErrorKind, message: String) -> Self {
        Self::new(kind, Effect::NotExecuted, What::Message(message))
    }

    pub(crate) fn new(kind: ErrorKind, effect: Effect, what: What) -> Self {
        Self(Box::new(Inner {
            kind,
            effect,
            what,
            report: Report::empty(),
            response: None,
            source: None,
        }))
    }

    pub(crate) fn with_report(mut self, report: Report) -> Self {
        self.0.report = report;
        self
    }

    pub(crate) fn with_response(mut self, response: Option<Response>) -> Self {
        self.0.response = response;
        self
    }

    pub(crate) fn with_source(mut self, source: Option<Source>) -> Self {
        self.0.source = source;
        self
    }

    /// What the last attempt met, or what was wrong before the first.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is certain about the operation's effect.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The limit that ended the operation. [`None`] where the request itself is at fault, or the error was made from an answer to
    /// which no limit led.
    #[must_use]
    pub fn stopped_by(&self) -> Option<StoppedBy> {
        self.0.report.stopped_by
    }

    /// The operation's key, to take it up again with
    /// [`idempotent_with`](crate::RequestBuilder::idempotent_with). [`None`] where it has none.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.0.report.key.as_ref()
    }

    /// The attempts, in the order in which they were made.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.report.attempts
    }

    /// The whole report.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    /// How long the server asked to wait, in its last answer.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.report.retry_after
    }

    /// The last answer, where there was one.
    #[must_use]
    pub fn response(&self) -> Option<&Response> {
        self.0.response.as_ref()
    }

    /// The last answer, to read its body.
    #[must_use]
    pub fn into_response(self) -> Option<Response> {
        self.0.response
    }

    /// The status of the last answer.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self.0.what {
            What::Status(status) => Some(status),
            _ => self.response().map(Response::status),
        }
    }

    /// Whether nothing was sent because the client, the request, its key or its contract is wrong.
    #[must_use]
    pub fn is_builder(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Builder | ErrorKind::Key | ErrorKind::Contract
        )
    }

    /// Whether the last attempt got no connection.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        matches!(self.kind(), ErrorKind::Connect | ErrorKind::Certificate)
    }

    /// Whether the last attempt ran out of time, connecting included.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
            || matches!(self.0.what, What::Failure(Failure::ConnectTimeout))
    }

    /// Whether a status is to blame.
    #[must_use]
    pub fn is_status(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Status
                | ErrorKind::InProgress
                | ErrorKind::Mismatch
                | ErrorKind::AlreadyDone
        )
    }

    /// Whether a redirect is to blame.
    #[must_use]
    pub fn is_redirect(&self) -> bool {
        self.kind() == ErrorKind::Redirect
    }

    /// Whether the body of the request, or the rest of a streamed answer, failed.
    #[must_use]
    pub fn is_body(&self) -> bool {
        matches!(self.kind(), ErrorKind::RequestBody | ErrorKind::Body)
    }

    /// Whether the answer could not be decoded.
    #[must_use]
    pub fn is_decode(&self) -> bool {
        self.kind() == ErrorKind::Decode
    }

    /// This crate's error inside one of [`reqwest_middleware`], whose own predicates cannot see through it.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency::{Effect, Error};
    ///
    /// fn may_forget_the_key(error: &reqwest_middleware::Error) -> bool {
    ///     Error::from_middleware(error).is_some_and(|error| error.effect() == Effect::NotExecuted)
    /// }
    /// # let other = reqwest_middleware::Error::middleware(std::fmt::Error);
    /// # assert!(!may_forget_the_key(&other));
    /// ```
    #[must_use]
    pub fn from_middleware(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(inner) => inner.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// Back from what the middleware chain made of it. `report` is for an error of somebody else's.
    pub(crate) fn out_of_chain(
        error: reqwest_middleware::Error,
        report: impl FnOnce() -> Report,
    ) -> Self {
        let error = match error {
            reqwest_middleware::Error::Middleware(inner) => match inner.downcast::<Self>() {
                Ok(own) => return own,
                Err(inner) => reqwest_middleware::Error::Middleware(inner),
            },
            other => other,
        };
        Self::new(
            ErrorKind::Middleware,
            Effect::Unknown,
            What::Failure(Failure::Middleware),
        )
        .with_report(report())
        .with_source(Some(Source::middleware(error)))
    }

    /// Into what a middleware returns. A transparent one gives the transport's own error and the last response.
    pub(crate) fn into_chain(
        self,
        transparent: bool,
    ) -> Result<reqwest::Response, reqwest_middleware::Error> {
        if transparent {
            return match *self.0 {
                Inner {
                    response: Some(response),
                    ..
                } => Ok(response.into_reqwest()),
                Inner {
                    source: Some(Source::Transport(error)),
                    ..
                } => Err(reqwest_middleware::Error::Reqwest(error)),
                Inner {
                    source: Some(Source::Middleware(error)),
                    ..
                } => Err(error),
                inner => Err(reqwest_middleware::Error::middleware(Self(Box::new(inner)))),
            };
        }
        Err(reqwest_middleware::Error::middleware(self))
    }
}

impl ErrorKind {
    pub(crate) fn of(failure: Failure) -> Self {
        match failure {
            Failure::Request => Self::Builder,
            Failure::RequestBody | Failure::RequestBodyInFlight => Self::RequestBody,
            Failure::Resolve | Failure::Connect | Failure::ConnectTimeout | Failure::Handshake => {
                Self::Connect
            }
            Failure::Certificate => Self::Certificate,
            Failure::StreamRefused | Failure::GoAway => Self::Refused,
            Failure::Timeout | Failure::Stalled => Self::Timeout,
            Failure::Malformed => Self::Protocol,
            Failure::Redirect => Self::Redirect,
            Failure::Middleware | Failure::Altered => Self::Middleware,
            Failure::Closed | Failure::Reset | Failure::Truncated | Failure::Other => {
                Self::Connection
            }
        }
    }
}

impl Source {
    /// A transport error, without the URL: its query and user-info may hold secrets.
    pub(crate) fn transport(error: reqwest::Error) -> Self {
        Self::Transport(error.without_url())
    }

    pub(crate) fn middleware(error: reqwest_middleware::Error) -> Self {
        match error {
            reqwest_middleware::Error::Reqwest(error) => Self::transport(error),
            other => Self::Middleware(other),
        }
    }

    fn as_error(&self) -> &(dyn StdError + 'static) {
        match self {
            Self::Transport(error) => error,
            // The wrapper is transparent, so its cause is named, not the wrapper.
            Self::Middleware(reqwest_middleware::Error::Middleware(error)) => error.as_ref(),
            Self::Middleware(error) => error,
            Self::Other(error) => error.as_ref(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Message(message) => f.write_str(message)?,
            What::Failure(failure) => write!(f, "{failure}")?,
            What::Status(status) => write!(f, "the server answered {status}")?,
        }
        match self.kind() {
            ErrorKind::InProgress => f.write_str(": the operation is still in progress")?,
            ErrorKind::Mismatch => {
                f.write_str(": the key was used before with a different request")?;
            }
            ErrorKind::AlreadyDone => {
                f.write_str(": the operation was done before under this key")?;
            }
            _ => {}
        }
        let requests = self.attempts().len();
        if let Some(limit) = self.stopped_by().filter(|_| requests > 0) {
            let plural = if requests == 1 { "" } else { "s" };
            write!(f, "; gave up after {requests} request{plural}: {limit}")?;
        }
        f.write_str(match self.effect() {
            Effect::NotExecuted => "; the operation was not executed",
            Effect::Unknown => "; the operation may have been executed",
            Effect::Answered => "",
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("what", &self.0.what)
            .field("stopped_by", &self.stopped_by())
            .field("key", &self.key())
            .field("attempts", &self.attempts())
            .field("retry_after", &self.retry_after())
            .field("response", &self.0.response)
            .field("source", &self.0.source.as_ref().map(Source::as_error))
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(Source::as_error)
    }
}
