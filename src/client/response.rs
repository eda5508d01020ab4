//! The answer, with the report of how it came about.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{HeaderMap, StatusCode, Version};
use http_body::Body as _;
use http_body_util::{BodyDataStream, BodyExt as _};
use reqwest::{ResponseBuilderExt as _, Url};

use super::buffer::Buffer;
use super::error::{Effect, Error, ErrorKind, Source, What};
use super::reader::{Kept, Reader};
use super::report::{Attempt, Report};
use super::stream::{Broken, Streamed};
use crate::contract::{IdempotencyKey, Reading, Replay};

/// The answer to an operation.
///
/// For a keyed operation it is definite: the server's final word, whatever the status. Its body has been read already, up to the
/// policy's response buffer; [`is_buffered`](Self::is_buffered) says whether all of it.
///
/// # Examples
///
/// ```no_run
/// # async fn pay(client: idempotency::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let response = client
///     .post("https://api.example.com/payments")
///     .body("amount=100")
///     .idempotent()
///     .send()
///     .await?
///     .error_for_status()?;
/// if response.is_replay() {
///     println!("an earlier attempt had made the payment already");
/// }
/// println!("{}", response.text().await?);
/// # Ok(())
/// # }
/// ```
pub struct Response(Box<Inner>);

/// Boxed once, when the head has come: it goes through many hands.
struct Inner {
    reader: Reader,
    reading: Reading,
    meta: Meta,
}

/// What is known of an answer beside itself.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) report: Report,
    pub(crate) effect: Effect,
    pub(crate) mismatch: bool,
    pub(crate) already_done: bool,
    /// What an earlier attempt has made, where the answer names it.
    pub(crate) resource: Option<String>,
    pub(crate) stall: Duration,
}

impl Meta {
    fn unknown() -> Self {
        Self {
            report: Report::empty(),
            effect: Effect::Unknown,
            mismatch: false,
            already_done: false,
            resource: None,
            stall: Duration::MAX,
        }
    }
}

impl Response {
    /// A response that may have come through middlewares.
    #[inline(always)]
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self::of(Reader::new(response))
    }

    /// A response as reqwest gave it.
    #[inline(always)]
    pub(crate) fn straight(response: reqwest::Response) -> Self {
        Self::of(Reader::straight(response))
    }

    #[inline(always)]
    fn of(reader: Reader) -> Self {
        Self(Box::new(Inner {
            reader,
            reading: Reading::default(),
            meta: Meta::unknown(),
        }))
    }

    #[inline]
    pub(crate) fn reader(&mut self) -> &mut Reader {
        &mut self.0.reader
    }

    #[inline]
    pub(crate) fn so_far(&self) -> &[u8] {
        self.0.reader.so_far()
    }

    pub(crate) fn reading(&self) -> &Reading {
        &self.0.reading
    }

    pub(crate) fn take_note_of(&mut self, reading: Reading) {
        self.0.reading = reading;
    }

    /// Completes the response: from here on it is the caller's.
    #[inline]
    pub(crate) fn complete(&mut self, meta: Meta) {
        self.0.meta = meta;
    }

    /// What the answer names as made by an earlier attempt.
    #[inline]
    pub(crate) fn take_resource(&mut self) -> Option<String> {
        self.0.reading.resource.take()
    }

    fn inner(&self) -> &reqwest::Response {
        &self.0.reader.response
    }

    /// Whether the body was read to its end.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.0.reader.is_complete()
    }

    /// The status.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.inner().status()
    }

    /// The headers.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> &HeaderMap {
        self.inner().headers()
    }

    /// The URL that answered, after redirects.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.inner().url()
    }

    /// The HTTP version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.inner().version()
    }

    /// The address that answered.
    #[must_use]
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.inner().remote_addr()
    }

    /// The length of the body in bytes, where it is known.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        let read = self.so_far().len() as u64;
        if self.is_complete() {
            return Some(read);
        }
        let rest = self.inner().content_length()?;
        Some(rest.saturating_add(read))
    }

    /// The extensions that the transport and middlewares left.
    #[must_use]
    pub fn extensions(&self) -> &http::Extensions {
        self.inner().extensions()
    }

    /// Whether this is the stored answer of an earlier attempt.
    #[must_use]
    pub fn replay(&self) -> Replay {
        self.0.meta.report.replay
    }

    /// Whether this certainly is the stored answer of an earlier attempt: [`replay`](Self::replay) is
    /// [`Replay::Replayed`].
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.replay() == Replay::Replayed
    }

    /// Whether the answer came after an attempt of unknown outcome and does not say that it is a replay. An "already exists" may
    /// then speak of what this very operation has made: look it up.
    #[must_use]
    pub fn followed_unknown(&self) -> bool {
        self.0.meta.report.followed_unknown
    }

    /// Whether the server refuses the key because it was used before with a different request.
    #[must_use]
    pub fn is_mismatch(&self) -> bool {
        self.0.meta.mismatch
    }

    /// Whether the answer says that the operation was done before under this key, whatever its status is. Some servers refuse the
    /// repeat of a success instead of repeating its answer: such a 409 is no failure of the operation.
    #[must_use]
    pub fn is_already_done(&self) -> bool {
        self.0.meta.already_done
    }

    /// The identifier of what an earlier attempt with this key has made, where the contract knows its place in the answer: after
    /// [`is_already_done`](Self::is_already_done) what to look up, after [`is_mismatch`](Self::is_mismatch) what the other request
    /// has made.
    #[must_use]
    pub fn existing_resource(&self) -> Option<&str> {
        self.0.meta.resource.as_deref()
    }

    /// The attempts, in the order in which they were made; the last one brought this answer.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.meta.report.attempts
    }

    /// The operation's key. [`None`] where it has none.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.0.meta.report.key.as_ref()
    }

    /// Whether the whole answer was read inside the attempt. If not, its rest is a stream that no retry can bring back.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        self.0.meta.report.buffered
    }

    /// The whole report.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.meta.report
    }

    /// The body.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Body`] when the rest of an answer that was not buffered is lost or silent for the stall timeout. Its effect
    /// is [`Effect::Answered`] where the answer was definite.
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        match self.0.reader.take_complete() {
            Some(body) => Ok(body),
            None => self.rest().await,
        }
    }

    /// What was read of the body and what is still to come.
    async fn rest(self) -> Result<Bytes, Error> {
        let (inner, kept, meta) = self.into_parts();
        let mut body = streamed(inner.into(), kept, meta.stall);
        let mut whole = Buffer::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|broken| lost(&meta, broken))?;
            if let Ok(data) = frame.into_data() {
                whole.push(data, body.size_hint().exact());
            }
        }
        Ok(whole.finish())
    }

    /// The body as text. The charset is honoured where reqwest's feature of that name is on; else it is read as UTF-8, and what
    /// is not becomes U+FFFD.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes).
    pub async fn text(self) -> Result<String, Error> {
        let (inner, kept, meta) = self.into_parts();
        let kept = match kept {
            // With nothing read yet it is streamed behind the stall timeout all the same.
            Kept::Live => Kept::Prefix(Bytes::new()),
            kept => kept,
        };
        restored(inner, kept, meta.stall)
            .text()
            .await
            .map_err(|error| after_the_answer(&meta, ErrorKind::Body, Source::transport(error)))
    }

    /// The body, decoded from JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] when it is not what it should be, and as [`bytes`](Self::bytes).
    #[cfg(feature = "json")]
    pub async fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, Error> {
        let meta = self.0.meta.clone();
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| {
            after_the_answer(&meta, ErrorKind::Decode, Source::Other(error.into()))
        })
    }

    /// The body as a stream of chunks.
    ///
    /// Each item is an error as of [`bytes`](Self::bytes) where the rest is lost.
    pub fn bytes_stream(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        let (inner, kept, meta) = self.into_parts();
        BodyDataStream::new(
            streamed(inner.into(), kept, meta.stall)
                .map_err(move |broken| lost(&meta, broken))
                .boxed(),
        )
    }

    /// This response, unless its status is 4xx or 5xx.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Status`]; [`ErrorKind::Mismatch`] where the key was used before with a different request;
    /// [`ErrorKind::AlreadyDone`] where the operation was done before and its answer is not repeated. The response is inside ([`Error::into_response`]).
    pub fn error_for_status(self) -> Result<Self, Error> {
        let status = self.status();
        if !status.is_client_error() && !status.is_server_error() {
            return Ok(self);
        }
        let kind = if self.is_mismatch() {
            ErrorKind::Mismatch
        } else if self.is_already_done() {
            ErrorKind::AlreadyDone
        } else {
            ErrorKind::Status
        };
        Err(Error::new(kind, self.0.meta.effect, What::Status(status))
            .with_report(self.0.meta.report.clone())
            .with_response(Some(self)))
    }

    /// This response as reqwest's, with the [`Report`] in its extensions. Its URL, version and remote address stay.
    #[must_use]
    pub fn into_reqwest(mut self) -> reqwest::Response {
        if let Some(body) = self.0.reader.take_complete() {
            let Inner { reader, meta, .. } = *self.0;
            let mut response = { reader }.response;
            let mut response = rebuilt(&mut response, body.into());
            response.extensions_mut().insert(meta);
            return response;
        }
        let (inner, kept, meta) = self.into_parts();
        let mut response = match kept {
            Kept::Live => inner,
            kept => restored(inner, kept, meta.stall),
        };
        response.extensions_mut().insert(meta);
        response
    }

    fn into_parts(self) -> (reqwest::Response, Kept, Meta) {
        let Inner { reader, meta, .. } = *self.0;
        let (inner, kept) = reader.into_parts();
        (inner, kept, meta)
    }
}

/// The response with the body as it was kept.
fn restored(mut inner: reqwest::Response, kept: Kept, stall: Duration) -> reqwest::Response {
    let mut response = rebuilt(&mut inner, reqwest::Body::default());
    let body = match kept {
        Kept::Complete(body) => body.into(),
        kept => reqwest::Body::wrap(streamed(inner.into(), kept, stall)),
    };
    rebuilt(&mut response, body)
}

/// The head of a response with another body. Nothing of it is left in `response` but the body that it had.
fn rebuilt(response: &mut reqwest::Response, body: reqwest::Body) -> reqwest::Response {
    // The plain conversion loses the URL; only reqwest's own extension of the builder carries it.
    let mut builder = http::Response::builder();
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(response.extensions_mut());
    }
    let mut rebuilt = builder
        .url(response.url().clone())
        .body(body)
        .expect("no part of it was parsed");
    *rebuilt.status_mut() = response.status();
    *rebuilt.version_mut() = response.version();
    *rebuilt.headers_mut() = std::mem::take(response.headers_mut());
    rebuilt.into()
}

fn streamed(rest: reqwest::Body, kept: Kept, stall: Duration) -> Streamed {
    match kept {
        Kept::Live => Streamed::new(None, rest, stall),
        Kept::Prefix(read) => Streamed::new(Some(read), rest, stall),
        Kept::Complete(body) => Streamed::new(None, body.into(), stall),
        Kept::Broken(read, error) => Streamed::broken(read, error),
    }
}

impl From<Response> for reqwest::Response {
    fn from(response: Response) -> Self {
        response.into_reqwest()
    }
}

impl fmt::Debug for Response {
    /// Without header values, query and body: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status())
            .field("version", &self.version())
            .field("headers", &self.headers().keys().collect::<Vec<_>>())
            .field("buffered", &self.is_buffered())
            .field("report", &self.0.meta.report)
            .finish()
    }
}

fn lost(meta: &Meta, broken: Broken) -> Error {
    after_the_answer(meta, ErrorKind::Body, Source::Other(broken.into()))
}

fn after_the_answer(meta: &Meta, kind: ErrorKind, source: Source) -> Error {
    let message = match kind {
        ErrorKind::Decode => "the answer could not be decoded",
        _ => "the body of the answer could not be read to its end",
    };
    Error::new(kind, meta.effect, What::Message(message.to_owned()))
        .with_report(meta.report.clone())
        .with_source(Some(source))
}
