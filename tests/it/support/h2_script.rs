//! What an [`H2Server`](super::H2Server) does with one stream.

use bytes::Bytes;
use h2::Reason;

/// One answer, or one fault, on a stream. The constructors name the story.
#[derive(Clone, Debug)]
pub(crate) struct H2Step {
    pub(super) reads_body: bool,
    pub(super) output: H2Output,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) enum H2Output {
    Answer(H2Answer),
    /// The answer's headers and body without the end of the stream, then RST_STREAM.
    Cut(H2Answer, Reason),
    /// RST_STREAM.
    Reset(Reason),
    /// GOAWAY, then the end of the connection.
    GoAway {
        processed: bool,
        reason: Reason,
    },
}

#[derive(Clone, Debug)]
pub(super) struct H2Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl H2Step {
    fn new(reads_body: bool, output: H2Output) -> Self {
        Self { reads_body, output }
    }

    /// A complete answer to a request that was read completely.
    pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Self::new(true, H2Output::Answer(answer(status, headers, body)))
    }

    /// RST_STREAM with REFUSED_STREAM before the body is read: not processed (RFC 9113 section 8.7).
    pub(crate) fn refuse_stream() -> Self {
        Self::new(false, H2Output::Reset(Reason::REFUSED_STREAM))
    }

    /// RST_STREAM with any reason after the request was read: it may have been processed.
    pub(crate) fn reset(reason: Reason) -> Self {
        Self::new(true, H2Output::Reset(reason))
    }

    /// GOAWAY with a last stream id below this stream, then the end of the connection: not processed, whatever the
    /// reason (RFC 9113 section 6.8).
    pub(crate) fn goaway_below(reason: Reason) -> Self {
        let processed = false;
        Self::new(false, H2Output::GoAway { processed, reason })
    }

    /// GOAWAY with this stream as the last, after the request was read, then the end of the connection without an
    /// answer: it may have been processed.
    pub(crate) fn goaway_at(reason: Reason) -> Self {
        let processed = true;
        Self::new(true, H2Output::GoAway { processed, reason })
    }

    /// A complete answer before the body is read (RFC 9113 section 8.1 permits it). The recorded body is empty.
    pub(crate) fn early_response(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Self::new(false, H2Output::Answer(answer(status, headers, body)))
    }

    /// Headers and a part of the body, then RST_STREAM.
    pub(crate) fn reply_then_reset_mid_body(status: u16, part: &str, reason: Reason) -> Self {
        Self::new(true, H2Output::Cut(answer(status, &[], part), reason))
    }

    /// Headers and all of the body that they state, then RST_STREAM in the place of the stream's end.
    pub(crate) fn reply_then_reset_at_its_end(status: u16, body: &str, reason: Reason) -> Self {
        let length = body.len().to_string();
        let answer = answer(status, &[("content-length", &length)], body);
        Self::new(true, H2Output::Cut(answer, reason))
    }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> H2Answer {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    H2Answer {
        status,
        headers: headers.iter().map(owned).collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}
