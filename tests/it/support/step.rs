//! What a [`ScriptedServer`](super::ScriptedServer) does with one request.

use std::time::Duration;

use http::StatusCode;

use super::gate::Gate;

/// How much of the request is read before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// Nothing: the request stays in the socket.
    Nothing,
    /// The head.
    Head,
    /// The head, then `100 Continue` is sent, then the body is read.
    Continue,
    /// All of it.
    Whole,
}

/// One thing to do on the sending side.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// Bytes to send.
    Bytes(Vec<u8>),
    /// Bytes to send, except as the answer to HEAD.
    Body(Vec<u8>),
    /// A wait on tokio's clock.
    Pause(Duration),
    /// A wait for the test.
    Held(Gate),
}

/// What becomes of the connection after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It serves the next request.
    KeepAlive,
    /// It is closed in order (FIN).
    Close,
    /// It is reset (RST).
    Reset,
    /// It stays open and silent until the client closes it.
    Hold,
    /// Its next request is read, and the connection is closed without an answer.
    CloseOnNextRequest,
    /// The sending side is closed and the rest of the request is discarded, so that no reset overtakes the answer
    /// (RFC 9112 section 9.6).
    CloseAndDrain,
}

/// One answer, or one fault. The constructors name the story.
///
/// Where not said otherwise the request is read completely first.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(super) intake: Intake,
    pub(super) output: Vec<Output>,
    pub(super) end: End,
}

impl Step {
    fn whole(output: Vec<Output>, end: End) -> Self {
        Self {
            intake: Intake::Whole,
            output,
            end,
        }
    }

    /// A complete answer with its `content-length`; the connection stays open.
    pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut head = head(status, headers);
        // RFC 9110 section 8.6: no content-length in 1xx and 204.
        if status >= 200 && status != 204 {
            head.extend(format!("content-length: {}\r\n", body.len()).into_bytes());
        }
        head.extend(b"\r\n");
        Self::whole(
            vec![Output::Bytes(head), Output::Body(body)],
            End::KeepAlive,
        )
    }

    /// [`reply`](Self::reply) with a JSON body and `content-type: application/json`.
    pub(crate) fn json(status: u16, value: &serde_json::Value) -> Self {
        let headers = [("content-type", "application/json")];
        Self::reply(status, &headers, value.to_string())
    }

    /// The request is in the socket and is not read; it is no hit. Closed so, the system sends a reset.
    pub(crate) fn close_before_reading() -> Self {
        Self {
            intake: Intake::Nothing,
            output: Vec::new(),
            end: End::Close,
        }
    }

    /// The operation is done and its answer never sent: the connection is closed in order.
    pub(crate) fn read_then_close() -> Self {
        Self::whole(Vec::new(), End::Close)
    }

    /// The operation is done and its answer never sent: the connection is reset.
    pub(crate) fn read_then_reset() -> Self {
        Self::read_then_close().resetting()
    }

    /// `HTTP/1.1 20`, then the connection is closed.
    pub(crate) fn half_status_line() -> Self {
        Self::raw(*b"HTTP/1.1 20", End::Close)
    }

    /// Bytes that are no HTTP, then the connection is closed.
    pub(crate) fn garbage(bytes: impl Into<Vec<u8>>) -> Self {
        Self::raw(bytes, End::Close)
    }

    /// Any bytes and any end.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>, end: End) -> Self {
        Self::whole(vec![Output::Bytes(bytes.into())], end)
    }

    /// Headers that promise a body of a length, `sent` bytes of it, then the connection is closed.
    pub(crate) fn cut_fixed(status: u16, promised: usize, sent: usize) -> Self {
        Self::raw(part_of_body(status, promised, sent), End::Close)
    }

    /// Some chunks, then the connection is closed without the last chunk.
    pub(crate) fn cut_chunked(status: u16, chunks: &[&str]) -> Self {
        Self::raw(chunked(status, chunks), End::Close)
    }

    /// A good chunk, then a chunk whose size is no number; the connection stays open.
    pub(crate) fn broken_chunk_framing(status: u16) -> Self {
        let mut bytes = chunked(status, &["good"]);
        bytes.extend(b"zz\r\nbad\r\n");
        Self::raw(bytes, End::Hold)
    }

    /// No byte is ever sent; the connection stays open.
    pub(crate) fn stall_before_headers() -> Self {
        Self::whole(Vec::new(), End::Hold)
    }

    /// Headers that promise a body of a length, `sent` bytes of it, then silence.
    pub(crate) fn stall_in_body(status: u16, promised: usize, sent: usize) -> Self {
        Self::raw(part_of_body(status, promised, sent), End::Hold)
    }

    /// Headers at once, then a wait of `every` before each byte of the body; the connection stays open.
    pub(crate) fn dribble(status: u16, body: &[u8], every: Duration) -> Self {
        let mut step = Self::reply(status, &[], body);
        step.output.pop();
        for byte in body {
            step.output.push(Output::Pause(every));
            step.output.push(Output::Body(vec![*byte]));
        }
        step
    }

    /// A complete answer before the request's body is read, then the end of the connection. The recorded body is empty.
    pub(crate) fn reply_early(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers = [headers, &[("connection", "close")]].concat();
        let mut step = Self::reply(status, &headers, body);
        step.intake = Intake::Head;
        step.end = End::CloseAndDrain;
        step
    }

    /// `100 Continue` after the head, then `step`.
    pub(crate) fn continue_then(mut step: Self) -> Self {
        step.intake = Intake::Continue;
        step
    }

    /// 417: the server does not meet the request's `Expect`.
    pub(crate) fn expectation_failed() -> Self {
        Self::reply(417, &[], "")
    }

    /// A complete answer that keeps the connection; the next request on it is read and the connection closed without
    /// an answer. That request is a hit and takes no step of the script.
    pub(crate) fn keep_alive_then_close_on_next(
        status: u16,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Self {
        let mut step = Self::reply(status, headers, body);
        step.end = End::CloseOnNextRequest;
        step
    }

    /// `step`, after a wait on tokio's clock.
    pub(crate) fn after(wait: Duration, mut step: Self) -> Self {
        step.output.insert(0, Output::Pause(wait));
        step
    }

    /// `step`, once the test has opened the gate.
    pub(crate) fn wait_for(gate: &Gate, mut step: Self) -> Self {
        step.output.insert(0, Output::Held(gate.clone()));
        step
    }

    /// The same, and after a wait on tokio's clock more bytes.
    pub(crate) fn then_after(mut self, wait: Duration, bytes: impl Into<Vec<u8>>) -> Self {
        self.output.push(Output::Pause(wait));
        self.output.push(Output::Bytes(bytes.into()));
        self
    }

    /// The same, ending in a reset. Bytes that the client's socket has not taken by then are lost: keep answers small.
    pub(crate) fn resetting(mut self) -> Self {
        self.end = End::Reset;
        self
    }
}

/// Status line and headers, without the empty line.
fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.into_bytes()
}

fn part_of_body(status: u16, promised: usize, sent: usize) -> Vec<u8> {
    assert!(sent < promised, "{sent} of {promised} bytes is no part");
    let length = promised.to_string();
    let mut bytes = head(status, &[("content-length", &length)]);
    bytes.extend(b"\r\n");
    bytes.extend(std::iter::repeat_n(b'x', sent));
    bytes
}

fn chunked(status: u16, chunks: &[&str]) -> Vec<u8> {
    let mut bytes = head(status, &[("transfer-encoding", "chunked")]);
    bytes.extend(b"\r\n");
    for chunk in chunks {
        bytes.extend(format!("{:x}\r\n{chunk}\r\n", chunk.len()).into_bytes());
    }
    bytes
}
