//! The request of an operation, fixed before its first attempt.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::{Body, Request, Url};

use super::error::{Effect, Error, ErrorKind, Source, What};
use super::report::Report;
use crate::retry::{Failure, StoppedBy};

/// What every attempt is made from: the same method, target, headers and body bytes.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: FrozenBody,
    /// Whether the caller asked for `100 Continue`.
    pub(crate) expects_continue: bool,
    version: Version,
    /// reqwest's own timeout for one request, set by callers of foreign clients: it holds for each attempt.
    timeout: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) enum FrozenBody {
    None,
    Bytes(Bytes),
    Stream(Arc<tokio::sync::Mutex<StreamBody>>),
}

/// A body that can be read only once.
#[derive(Debug)]
pub(crate) enum StreamBody {
    /// Not yet read to its end; what was read so far is kept, so that a dropped `send` loses nothing.
    Unread { read: BytesMut, rest: Body },
    /// Small enough to be kept.
    Buffered(Bytes),
    /// Sent, or broken.
    Spent,
}

/// The body of one attempt.
#[derive(Debug)]
pub(crate) enum AttemptBody {
    None,
    /// The same bytes for every attempt.
    Bytes(Bytes),
    /// A stream that only this attempt can send.
    Once(Body),
}

/// Why there is no body to send.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// The caller's stream failed.
    Failed(reqwest::Error),
    /// The stream went out with an earlier attempt.
    Spent,
    /// The stream did not end before the deadline.
    Late,
}

impl BodyFault {
    pub(crate) fn stopped_by(&self) -> StoppedBy {
        match self {
            Self::Failed(_) => StoppedBy::NotRetryable,
            Self::Spent => StoppedBy::BodyNotRepeatable,
            Self::Late => StoppedBy::Deadline,
        }
    }

    pub(crate) fn into_error(self, effect: Effect, report: Report) -> Error {
        let message = |text: &str| What::Message(text.to_owned());
        let (kind, what, source) = match self {
            Self::Failed(error) => (
                ErrorKind::RequestBody,
                What::Failure(Failure::RequestBody),
                Some(Source::transport(error)),
            ),
            Self::Spent => (
                ErrorKind::RequestBody,
                message("the body stream was used up by an earlier attempt"),
                None,
            ),
            Self::Late => (
                ErrorKind::Timeout,
                message("the request body did not end before the deadline"),
                None,
            ),
        };
        Error::new(kind, effect, what)
            .with_report(report)
            .with_source(source)
    }
}

impl Frozen {
    pub(crate) fn new(mut request: Request) -> Self {
        let body = request.body_mut().take().map_or(FrozenBody::None, freeze);
        Self {
            expects_continue: request.headers().contains_key(EXPECT),
            method: request.method().clone(),
            version: request.version(),
            timeout: request.timeout().copied(),
            headers: std::mem::take(request.headers_mut()),
            url: request.url().clone(),
            body,
        }
    }

    /// The request of one attempt.
    pub(crate) fn request(&self, body: AttemptBody, without_expect: bool) -> Request {
        let mut request = Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers.clone();
        if without_expect {
            request.headers_mut().remove(EXPECT);
        }
        *request.version_mut() = self.version;
        if self.timeout.is_some() {
            *request.timeout_mut() = self.timeout;
        }
        *request.body_mut() = match body {
            AttemptBody::None => None,
            AttemptBody::Bytes(bytes) => Some(bytes.into()),
            AttemptBody::Once(body) => Some(body),
        };
        request
    }

    /// The body length that the caller stated, if it contradicts the body or is none (RFC 9110, section 8.6: one line, digits only).
    pub(crate) fn contradicted_length(&self) -> Option<(String, usize)> {
        let length = match &self.body {
            FrozenBody::None => 0,
            FrozenBody::Bytes(bytes) => bytes.len(),
            FrozenBody::Stream(_) => return None,
        };
        let lines = self.headers.get_all(CONTENT_LENGTH).iter();
        let lines: Vec<_> = lines
            .map(|line| String::from_utf8_lossy(line.as_bytes()))
            .collect();
        let is_number = |line: &str| line.bytes().all(|byte| byte.is_ascii_digit());
        match &lines[..] {
            [] => None,
            [line] if is_number(line) && line.parse() == Ok(length) => None,
            lines => Some((lines.join(", "), length)),
        }
    }
}

impl FrozenBody {
    /// The body for the next attempt. A stream is read up to `limit` bytes first, so that there can be a second attempt; with
    /// no limit it is sent as it comes.
    pub(crate) async fn next(&self, limit: Option<usize>) -> Result<AttemptBody, BodyFault> {
        match self {
            Self::None => Ok(AttemptBody::None),
            Self::Bytes(bytes) => Ok(AttemptBody::Bytes(bytes.clone())),
            Self::Stream(stream) => stream.lock().await.next(limit).await,
        }
    }
}

impl StreamBody {
    async fn next(&mut self, limit: Option<usize>) -> Result<AttemptBody, BodyFault> {
        if let (Self::Unread { read, rest }, Some(limit)) = (&mut *self, limit) {
            while read.len() <= limit {
                match rest.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            read.extend_from_slice(&data);
                        }
                    }
                    Some(Err(error)) => {
                        *self = Self::Spent;
                        return Err(BodyFault::Failed(error));
                    }
                    None => {
                        *self = Self::Buffered(std::mem::take(read).freeze());
                        break;
                    }
                }
            }
        }
        match std::mem::replace(self, Self::Spent) {
            Self::Buffered(bytes) => {
                *self = Self::Buffered(bytes.clone());
                Ok(AttemptBody::Bytes(bytes))
            }
            Self::Unread { read, rest } => Ok(AttemptBody::Once(resume(read.freeze(), rest))),
            Self::Spent => Err(BodyFault::Spent),
        }
    }
}

fn freeze(mut body: Body) -> FrozenBody {
    if body.as_bytes().is_some() {
        // A body of bytes hands them over in one frame, without a copy.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            return FrozenBody::Bytes(frame.into_data().unwrap_or_default());
        }
        return FrozenBody::Bytes(Bytes::new());
    }
    FrozenBody::Stream(Arc::new(tokio::sync::Mutex::new(StreamBody::Unread {
        read: BytesMut::new(),
        rest: body,
    })))
}

fn resume(read: Bytes, rest: Body) -> Body {
    if read.is_empty() {
        return rest;
    }
    Body::wrap(Resumed {
        read: Some(read),
        rest,
    })
}

/// A body of which a part was read before.
struct Resumed {
    read: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Resumed {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(data) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        Poll::Ready(ready!(Pin::new(&mut self.rest).poll_frame(context)))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.as_ref().map_or(0, |data| data.len() as u64);
        super::stream::add(self.rest.size_hint(), read)
    }
}
