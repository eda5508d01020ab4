//! Bodies, read up to a limit.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full};

/// A request's body.
pub(super) enum Request {
    Whole(Bytes),
    TooLarge,
    /// It ended before its end: the client has gone, or does not keep to its own framing.
    Broken,
}

/// Reads a request's body. Its trailers are dropped.
pub(super) async fn read_request(mut body: Body, limit: usize) -> Request {
    // A declared length is enough to refuse; the rest need not be sent.
    if exceeds(&body, limit) {
        return Request::TooLarge;
    }
    let mut chunks = Chunks::default();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Request::Broken;
        };
        if let Ok(data) = frame.into_data() {
            chunks.push(data);
            if chunks.length > limit {
                return Request::TooLarge;
            }
        }
    }
    Request::Whole(chunks.whole())
}

/// An answer's body.
pub(super) enum Answer {
    Whole {
        bytes: Bytes,
        trailers: Option<HeaderMap>,
    },
    /// Too large to be kept; what was read stands before the rest.
    Passing(Body),
}

/// Reads an answer's body. The error is the handler's stream failing.
pub(super) async fn read_answer(mut body: Body, limit: usize) -> Result<Answer, axum::Error> {
    if exceeds(&body, limit) {
        return Ok(Answer::Passing(body));
    }
    let mut chunks = Chunks::default();
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => chunks.push(data),
            Err(frame) => {
                let bytes = chunks.whole();
                let trailers = frame.into_trailers().ok();
                return Ok(Answer::Whole { bytes, trailers });
            }
        }
        if chunks.length > limit {
            let ready = chunks.chunks.into();
            return Ok(Answer::Passing(Body::new(Resumed { ready, rest: body })));
        }
    }
    Ok(Answer::Whole {
        bytes: chunks.whole(),
        trailers: None,
    })
}

impl Answer {
    pub(super) fn into_body(self) -> Body {
        match self {
            Self::Passing(body) => body,
            Self::Whole { bytes, trailers } => match trailers {
                None => Body::from(bytes),
                Some(trailers) => {
                    let trailers = std::future::ready(Some(Ok(trailers)));
                    Body::new(Full::new(bytes).with_trailers(trailers))
                }
            },
        }
    }
}

fn exceeds(body: &Body, limit: usize) -> bool {
    usize::try_from(body.size_hint().lower()).map_or(true, |least| least > limit)
}

#[derive(Default)]
struct Chunks {
    chunks: Vec<Bytes>,
    length: usize,
}

impl Chunks {
    fn push(&mut self, chunk: Bytes) {
        self.length += chunk.len();
        self.chunks.push(chunk);
    }

    /// One chunk, which is the usual case, is not copied.
    fn whole(mut self) -> Bytes {
        match self.chunks.len() {
            0 | 1 => self.chunks.pop().unwrap_or_default(),
            _ => {
                let mut whole = BytesMut::with_capacity(self.length);
                self.chunks
                    .iter()
                    .for_each(|chunk| whole.extend_from_slice(chunk));
                whole.freeze()
            }
        }
    }
}

/// A body of which a part was read.
struct Resumed {
    ready: VecDeque<Bytes>,
    rest: Body,
}

impl http_body::Body for Resumed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.ready.pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.rest.is_end_stream()
    }
}
