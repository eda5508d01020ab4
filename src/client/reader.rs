//! Reading an answer inside the attempt.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Version;
use tokio::time::{Instant, timeout_at};

use super::classify;
use super::error::Source;
use crate::retry::Failure;

/// What the attempt has read of the body.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nothing: it is streamed.
    Live,
    /// Everything.
    Complete(Bytes),
    /// The beginning: there is more.
    Prefix(Bytes),
    /// The beginning: the rest is lost.
    Broken(Bytes, reqwest::Error),
}

/// A response and what was read of its body.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) response: reqwest::Response,
    first: Bytes,
    /// Everything, where there was more than one chunk.
    all: BytesMut,
    complete: bool,
    /// Why the rest will not come. The transport says it once; asked again it would call the body complete.
    broken: Option<reqwest::Error>,
}

impl Reader {
    #[inline]
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            first: Bytes::new(),
            all: BytesMut::new(),
            complete: false,
            broken: None,
        }
    }

    /// Reads until the end, or until more than `limit` bytes are there. It can be asked again, for more or with more time.
    pub(crate) async fn read(
        &mut self,
        limit: usize,
        ends: Option<Instant>,
    ) -> Result<(), Failure> {
        // Most often everything is there already; then there is no need for a timer, nor for the room that it takes.
        let now = poll_fn(|context| Poll::Ready(self.poll_read(context, limit))).await;
        if let Poll::Ready(read) = now {
            return read;
        }
        let rest = poll_fn(|context| self.poll_read(context, limit));
        match ends {
            None => rest.await,
            Some(ends) => Box::pin(timeout_at(ends, rest))
                .await
                .unwrap_or(Err(Failure::Stalled)),
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, limit: usize) -> Poll<Result<(), Failure>> {
        if let Some(error) = &self.broken {
            return Poll::Ready(Err(classify::reading(error)));
        }
        while !self.complete && self.so_far().len() <= limit {
            // What it has not handed out stays in the response, so the future need not be kept.
            let chunk = pin!(self.response.chunk()).poll(context);
            match ready!(chunk) {
                Err(error) => {
                    let failure = classify::reading(&error);
                    self.broken = Some(error.without_url());
                    return Poll::Ready(Err(failure));
                }
                Ok(None) => self.complete = true,
                Ok(Some(chunk)) => {
                    self.push(chunk);
                    self.complete = self.so_far().len() <= limit && self.is_all();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether nothing more can come: the length was stated, and that much is here. HTTP/2 has an end of its own to be waited for.
    fn is_all(&self) -> bool {
        self.response.version() < Version::HTTP_2 && self.response.content_length() == Some(0)
    }

    /// What the transport said of a body that is lost.
    pub(crate) fn source(&mut self) -> Option<Source> {
        self.broken.take().map(Source::transport)
    }

    fn push(&mut self, chunk: Bytes) {
        if self.so_far().is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            let rest = self.response.content_length().unwrap_or(0);
            self.all
                .reserve(preallocation(rest).max(chunk.len()) + self.first.len());
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&chunk);
    }

    pub(crate) fn so_far(&self) -> &[u8] {
        if self.all.is_empty() {
            &self.first
        } else {
            &self.all
        }
    }

    /// Whether the body was read to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The whole body, if it was read to its end.
    pub(crate) fn take_complete(&mut self) -> Option<Bytes> {
        self.complete.then(|| self.take_read())
    }

    fn take_read(&mut self) -> Bytes {
        if self.all.is_empty() {
            std::mem::take(&mut self.first)
        } else {
            std::mem::take(&mut self.all).freeze()
        }
    }

    /// The response, and what was read of it.
    pub(crate) fn into_parts(mut self) -> (reqwest::Response, Kept) {
        let read = self.take_read();
        let kept = match self.broken {
            _ if self.complete => Kept::Complete(read),
            Some(error) => Kept::Broken(read, error),
            None if read.is_empty() => Kept::Live,
            None => Kept::Prefix(read),
        };
        (self.response, kept)
    }
}

/// What may be set aside at once for a body of a stated length: the statement may be a lie.
pub(crate) fn preallocation(stated: u64) -> usize {
    const MOST: u64 = 2 * 1024 * 1024;
    usize::try_from(stated.min(MOST)).unwrap_or(0)
}
