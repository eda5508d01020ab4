//! The body of an operation, and what of it an attempt sends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::Body;
use tokio::time::{Instant, timeout_at};

use super::error::{Effect, Error, ErrorKind, Source, What};
use super::report::Report;
use crate::retry::{Failure, StoppedBy};

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
    /// The caller's stream did not end before the deadline.
    Late,
    /// The stream went out with an earlier attempt.
    Spent,
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
        let said = |message: &str| What::Message(message.to_owned());
        let (kind, what, source) = match self {
            Self::Failed(error) => (
                ErrorKind::RequestBody,
                What::Failure(Failure::RequestBody),
                Some(Source::transport(error)),
            ),
            Self::Late => (
                ErrorKind::Timeout,
                said("the request body did not end before the deadline"),
                None,
            ),
            Self::Spent => (
                ErrorKind::RequestBody,
                said("the body stream was used up by an earlier attempt"),
                None,
            ),
        };
        Error::new(kind, effect, what)
            .with_report(report)
            .with_source(source)
    }
}

impl FrozenBody {
    /// What is known of it without reading.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::None | Self::Stream(_) => &[],
        }
    }

    /// The body for the next attempt, where it need not be read first.
    #[inline]
    pub(crate) fn at_hand(&self) -> Option<AttemptBody> {
        match self {
            Self::None => Some(AttemptBody::None),
            Self::Bytes(bytes) => Some(AttemptBody::Bytes(bytes.clone())),
            Self::Stream(_) => None,
        }
    }

    /// The body for the next attempt. A stream is read up to `limit` bytes first, so that there can be a second attempt; with
    /// no limit it is sent as it comes. What was read when the time is up stays for the next time.
    pub(crate) async fn next(
        &self,
        limit: Option<usize>,
        ends: Option<Instant>,
    ) -> Result<AttemptBody, BodyFault> {
        match self {
            Self::None => Ok(AttemptBody::None),
            Self::Bytes(bytes) => Ok(AttemptBody::Bytes(bytes.clone())),
            Self::Stream(stream) => {
                // Boxed: most bodies are bytes, and need none of the room that this takes.
                let reading = Box::pin(async {
                    let reading = async { stream.lock().await.next(limit).await };
                    match ends {
                        None => reading.await,
                        Some(ends) => timeout_at(ends, reading)
                            .await
                            .unwrap_or(Err(BodyFault::Late)),
                    }
                });
                reading.await
            }
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

pub(crate) fn freeze(mut body: Body) -> FrozenBody {
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
