//! Request bodies: what is sent again is what was sent before, and what cannot be sent again is sent once.

mod early_answers;
mod expectations;
mod kept;
mod lengths;
#[cfg(feature = "multipart")]
mod multipart;
mod streams;

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::RetryPolicy;
use reqwest::Body;

use crate::support::{ScriptedServer, Step};

/// A body that can be read once and of which nobody knows the length.
pub(crate) fn streamed<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>) -> Body {
    let frame = |chunk: T| Ok::<_, Infallible>(Frame::data(chunk.into()));
    let frames: Vec<_> = chunks.into_iter().map(frame).collect();
    Body::wrap(StreamBody::new(futures_util::stream::iter(frames)))
}

/// Three attempts at once; streams of up to 100 bytes are kept.
fn small() -> RetryPolicy {
    let policy = RetryPolicy::immediate(3).to_builder();
    policy.request_buffer(100).build().unwrap()
}

/// Loses two answers, gives the third.
fn third_time() -> ScriptedServer {
    let busy = Step::reply(503, &[], "busy");
    ScriptedServer::new([busy, Step::read_then_reset(), Step::reply(201, &[], "")])
}
