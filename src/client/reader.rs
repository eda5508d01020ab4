//! Reading an answer inside the attempt.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use tokio::time::{Instant, timeout_at};

use super::buffer::Buffer;
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
    buffer: Buffer,
    /// Whether the stated length is the whole truth. A body of a middleware's may fail after its last byte, when it has been
    /// checked, and HTTP/2 has an end of its own.
    ends_by_length: bool,
    complete: bool,
    /// Why the rest will not come. The transport says it once; asked again it would call the body complete.
    broken: Option<reqwest::Error>,
}

impl Reader {
    #[inline(always)]
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            buffer: Buffer::default(),
            ends_by_length: false,
            complete: false,
            broken: None,
        }
    }

    /// For a response as reqwest gave it.
    #[inline(always)]
    pub(crate) fn straight(response: reqwest::Response) -> Self {
        Self {
            ends_by_length: response.version() < Version::HTTP_2,
            ..Self::new(response)
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
                    let rest = self.response.content_length();
                    self.buffer.push(chunk, rest);
                    // Nothing more can come: the length was stated, and that much is here.
                    self.complete =
                        rest == Some(0) && self.ends_by_length && self.buffer.len() <= limit;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// What the transport said of a body that is lost.
    pub(crate) fn source(&mut self) -> Option<Source> {
        self.broken.take().map(Source::transport)
    }

    #[inline]
    pub(crate) fn so_far(&self) -> &[u8] {
        self.buffer.so_far()
    }

    /// Whether the body was read to its end.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The whole body, if it was read to its end.
    #[inline]
    pub(crate) fn take_complete(&mut self) -> Option<Bytes> {
        self.complete
            .then(|| std::mem::take(&mut self.buffer).finish())
    }

    /// The response, and what was read of it.
    pub(crate) fn into_parts(self) -> (reqwest::Response, Kept) {
        let read = self.buffer.finish();
        let kept = match self.broken {
            _ if self.complete => Kept::Complete(read),
            Some(error) => Kept::Broken(read, error),
            None if read.is_empty() => Kept::Live,
            None => Kept::Prefix(read),
        };
        (self.response, kept)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::{Body, Frame, SizeHint};

    use super::*;

    /// A body in pieces that share their memory with a buffer, as the transport's do.
    struct Pieces {
        pieces: VecDeque<Bytes>,
        is_stated: bool,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
        }

        fn size_hint(&self) -> SizeHint {
            if self.is_stated {
                SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
            } else {
                SizeHint::new()
            }
        }
    }

    /// How much memory a body takes that came in pieces of these lengths.
    async fn taken(lengths: &[usize], is_stated: bool) -> usize {
        let memory = Bytes::from(vec![b'x'; lengths.iter().sum()]);
        let mut rest = memory.clone();
        let pieces = lengths
            .iter()
            .map(|length| rest.split_to(*length))
            .collect();
        let body = reqwest::Body::wrap(Pieces { pieces, is_stated });
        let mut reader = Reader::new(http::Response::new(body).into());
        reader.read(usize::MAX, None).await.expect("a body");
        let Kept::Complete(read) = reader.into_parts().1 else {
            panic!("the body is there");
        };
        assert_eq!(read, memory);
        assert!(read.is_unique(), "nothing keeps the transport's memory");
        Vec::from(read).capacity()
    }

    /// Also when the last piece is larger than the one before it.
    #[tokio::test]
    async fn a_body_of_stated_length_takes_its_length_in_memory() {
        for lengths in [
            &[1000, 1000][..],
            &[8192, 100_000, 400_000],
            &[16_384; 128],
            &[1, 1, 1_500_000, 2_000_000],
        ] {
            let len: usize = lengths.iter().sum();
            assert_eq!(taken(lengths, true).await, len, "{lengths:?}");
        }
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_takes_a_quarter_more_at_the_most() {
        for lengths in [&[1000, 1000][..], &[16_384; 128], &[700; 3000]] {
            let len: usize = lengths.iter().sum();
            let taken = taken(lengths, false).await;
            assert!(taken <= len + len / 4, "{taken} for {len} bytes");
        }
    }
}
