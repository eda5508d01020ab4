//! Request bodies: what is resent is what was sent.

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use reqwest::Body;

/// A body that can be read once and of which nobody knows the length.
pub(crate) fn streamed<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>) -> Body {
    let frame = |chunk: T| Ok::<_, Infallible>(Frame::data(chunk.into()));
    let frames: Vec<_> = chunks.into_iter().map(frame).collect();
    Body::wrap(StreamBody::new(futures_util::stream::iter(frames)))
}
