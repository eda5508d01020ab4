//! The answer past the buffer: what was read already, then the rest behind a stall timeout.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::Body;
use tokio::time::Sleep;

/// A body that begins with bytes that were read before, and fails when the rest is silent for too long.
pub(crate) struct Streamed {
    read: Option<Bytes>,
    rest: Body,
    /// What the transport has said of the rest already.
    broken: Option<Broken>,
    stall: Duration,
    silence: Option<Pin<Box<Sleep>>>,
}

/// Why the rest of an answer is lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// Nothing came for that long.
    #[error("the answer was silent for {0:?}")]
    Stalled(Duration),
    /// The transport failed.
    #[error("the rest of the answer was lost")]
    Lost(#[source] reqwest::Error),
}

impl Streamed {
    pub(crate) fn new(read: Option<Bytes>, rest: Body, stall: Duration) -> Self {
        Self {
            read,
            rest,
            broken: None,
            stall,
            silence: None,
        }
    }

    /// A body whose rest was lost before.
    pub(crate) fn broken(read: Bytes, error: reqwest::Error) -> Self {
        Self {
            broken: Some(Broken::Lost(error)),
            ..Self::new(Some(read), Body::default(), Duration::MAX)
        }
    }
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.rest).poll_frame(context) {
            this.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Broken::Lost)));
        }
        let stall = this.stall;
        let silence = this
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(silence.as_mut().poll(context));
        this.silence = None;
        Poll::Ready(Some(Err(Broken::Stalled(stall))))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.broken.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.as_ref().map_or(0, |read| read.len() as u64);
        let rest = match self.broken {
            Some(_) => SizeHint::new(),
            None => self.rest.size_hint(),
        };
        add(rest, read)
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed")
            .field("stall", &self.stall)
            .finish_non_exhaustive()
    }
}

/// The size of a body with so many bytes before it.
pub(crate) fn add(rest: SizeHint, before: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(before));
    }
    hint.set_lower(rest.lower().saturating_add(before));
    hint
}
