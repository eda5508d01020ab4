//! An answer, and the ways in which it goes wrong on its way.

use std::io;
use std::time::SystemTime;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::fault::Fault;
use super::http1::Wire;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(super) fn with_body(mut self, content_type: &str, body: Bytes) -> Self {
        self.body = body;
        self.with(header::CONTENT_TYPE, content_type)
    }

    /// The answer that a fault puts in the server's place.
    pub(super) fn of(fault: &Fault) -> Option<Self> {
        match fault {
            Fault::Status(status) | Fault::CommitThenStatus(status) => Some(Self::new(*status)),
            Fault::Answer {
                status,
                headers,
                body,
            } => {
                let mut answer = Self::new(*status);
                answer.body = Bytes::copy_from_slice(body.as_bytes());
                for (name, value) in headers {
                    let name: Result<HeaderName, _> = name.parse();
                    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                        answer.headers.append(name, value);
                    }
                }
                Some(answer)
            }
            _ => None,
        }
    }

    /// Status line and headers, ended. The lines about the framing are those that are given.
    fn head(&self, framing: &str, close: bool) -> BytesMut {
        let mut head = BytesMut::new();
        let reason = StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("");
        head.put_slice(format!("HTTP/1.1 {} {reason}\r\n", self.status).as_bytes());
        for (name, value) in &self.headers {
            if [
                header::CONTENT_LENGTH,
                header::TRANSFER_ENCODING,
                header::CONNECTION,
            ]
            .contains(name)
            {
                continue;
            }
            head.put_slice(name.as_str().as_bytes());
            head.put_slice(b": ");
            head.put_slice(value.as_bytes());
            head.put_slice(b"\r\n");
        }
        // A server with a clock dates its answers (RFC 9110, section 6.6.1).
        if !self.headers.contains_key(header::DATE) {
            let now = httpdate::fmt_http_date(SystemTime::now());
            head.put_slice(format!("date: {now}\r\n").as_bytes());
        }
        head.put_slice(framing.as_bytes());
        if close {
            head.put_slice(b"connection: close\r\n");
        }
        head.put_slice(b"\r\n");
        head
    }

    fn has_no_body(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    /// Writes the whole answer.
    pub(super) async fn write(
        &self,
        wire: &mut Wire,
        method: &Method,
        close: bool,
    ) -> io::Result<()> {
        let framing = match self.has_no_body() {
            true => String::new(),
            false => format!("content-length: {}\r\n", self.body.len()),
        };
        let mut message = self.head(&framing, close);
        if method != Method::HEAD && !self.has_no_body() {
            message.extend_from_slice(&self.body);
        }
        wire.write(&message).await
    }

    /// Acts out what a fault does to an answer.
    pub(super) async fn deliver(
        &self,
        mut wire: Wire,
        fault: &Fault,
        method: &Method,
        close: bool,
    ) -> Delivered {
        // At least one byte has to be missing, or it is no cut.
        let announced = self.body.len().max(1);
        let part = |after: usize| &self.body[..after.min(announced - 1).min(self.body.len())];
        match fault {
            Fault::CommitThenDropReply | Fault::Crash => {}
            Fault::CommitThenReset | Fault::CloseBeforeReading => {
                wire.reset();
                return Delivered::Closed;
            }
            Fault::CutAnswer { after } => {
                let mut message = self.head(&format!("content-length: {announced}\r\n"), false);
                message.extend_from_slice(part(*after));
                let _ = wire.write(&message).await;
            }
            Fault::CutChunked { after } => {
                let mut message = self.head("transfer-encoding: chunked\r\n", false);
                let part = &self.body[..(*after).min(self.body.len())];
                if !part.is_empty() {
                    message.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    message.extend_from_slice(part);
                    message.extend_from_slice(b"\r\n");
                }
                let _ = wire.write(&message).await;
            }
            Fault::StallBeforeHeaders => wire.gone().await,
            Fault::StallInBody { after } => {
                let mut message = self.head(&format!("content-length: {announced}\r\n"), false);
                message.extend_from_slice(part(*after));
                let _ = wire.write(&message).await;
                wire.gone().await;
            }
            Fault::Garbage => {
                let _ = wire.write(GARBAGE).await;
            }
            _ => {
                let stands_in = Self::of(fault);
                let answer = stands_in.as_ref().unwrap_or(self);
                return match answer.write(&mut wire, method, close).await {
                    Err(_) => Delivered::Unread,
                    Ok(()) if !close => Delivered::Open(wire),
                    Ok(()) if wire.close().await => Delivered::Closed,
                    Ok(()) => Delivered::Unread,
                };
            }
        }
        wire.close().await;
        Delivered::Closed
    }
}

/// What is left of the connection.
pub(super) enum Delivered {
    /// It can be used again.
    Open(Wire),
    Closed,
    /// The client was gone before it had read the answer.
    Unread,
}

impl Delivered {
    pub(super) fn open(self) -> Option<Wire> {
        match self {
            Self::Open(wire) => Some(wire),
            Self::Closed | Self::Unread => None,
        }
    }
}

pub(super) const GARBAGE: &[u8] = b"\x16\x03\x01 this is not HTTP\r\n\r\n";
