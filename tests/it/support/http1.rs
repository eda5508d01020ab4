//! Reading HTTP/1.1 requests by hand, leniently: whatever a client sends is recorded, not judged.

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::wire::{Arrival, header_lines};

/// The receiving side of one connection.
pub(super) struct Connection<S> {
    pub(super) stream: S,
    number: usize,
    seen: Arrivals,
    /// Received and not yet consumed.
    buffer: Vec<u8>,
}

/// A request whose head has been read and recorded.
pub(super) struct Request {
    pub(super) method: String,
    index: usize,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

impl<S: AsyncRead + Unpin> Connection<S> {
    pub(super) fn new(stream: S, number: usize, seen: Arrivals) -> Self {
        Self {
            stream,
            number,
            seen,
            buffer: Vec::new(),
        }
    }

    /// Whether bytes were received that nobody has consumed: the beginning of a pipelined request.
    pub(super) fn has_unread(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Reads and records the next head; `None` where the connection ended before one was complete.
    pub(super) async fn head(&mut self) -> Option<Request> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if !self.fill().await {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);

        let mut lines = text.split("\r\n");
        let mut start = lines
            .next()
            .unwrap_or_default()
            .split(' ')
            .map(str::to_owned);
        let header = |line: &str| match line.split_once(':') {
            Some((name, value)) => (name.to_owned(), value.trim().to_owned()),
            None => (line.to_owned(), String::new()),
        };
        let arrival = Arrival {
            connection: self.number,
            method: start.next().unwrap_or_default(),
            target: start.next().unwrap_or_default(),
            headers: lines.map(header).collect(),
            body: Vec::new(),
            complete: false,
            at: Instant::now(),
        };
        let framing = framing(&arrival);
        Some(Request {
            method: arrival.method.clone(),
            index: self.seen.begin(arrival),
            framing,
        })
    }

    /// Reads the body and records what came of it. `None` where the connection ended before the body did.
    pub(super) async fn body(&mut self, request: &Request) -> Option<Arrival> {
        let mut body = Vec::new();
        let complete = match request.framing {
            Framing::Length(length) => self.take(length, &mut body).await,
            Framing::Chunked => self.chunks(&mut body).await,
        };
        let arrival = self.seen.finish(request.index, body, complete);
        complete.then_some(arrival)
    }

    /// RFC 9112 section 7.1. Extensions and trailers are skipped.
    async fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let Some(line) = self.line().await else {
                return false;
            };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else {
                return false;
            };
            if size == 0 {
                break;
            }
            if !self.take(size, body).await || self.line().await.is_none() {
                return false;
            }
        }
        loop {
            match self.line().await {
                Some(trailer) if !trailer.is_empty() => {}
                end => return end.is_some(),
            }
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Some(line);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// Moves `length` bytes into `body`, or as many as come.
    async fn take(&mut self, length: usize, body: &mut Vec<u8>) -> bool {
        while self.buffer.len() < length && self.fill().await {}
        let came = self.buffer.len().min(length);
        body.extend(self.buffer.drain(..came));
        came == length
    }

    async fn fill(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.buffer).await;
        read.is_ok_and(|count| count > 0)
    }
}

fn framing(arrival: &Arrival) -> Framing {
    let coding = header_lines(arrival, "transfer-encoding");
    if coding
        .iter()
        .any(|value| value.eq_ignore_ascii_case("chunked"))
    {
        return Framing::Chunked;
    }
    let length = header_lines(arrival, "content-length");
    Framing::Length(
        length
            .first()
            .and_then(|value| value.parse().ok())
            .unwrap_or(0),
    )
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
