//! HTTP/1.1 messages, read off a socket whole and kept as they came.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What went over a connection, counted.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    buffer: BytesMut,
    meter: Arc<Meter>,
}

/// The head of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestHead {
    pub(super) raw: Bytes,
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub(super) struct ResponseHead {
    pub(super) raw: Bytes,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
}

/// How the end of a body is told (RFC 9112, section 6.3), and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked(Chunk),
    UntilClose,
}

/// Where in the chunked coding (RFC 9112, section 7.1) the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    End,
}

/// A part of a body: as it stands on the wire, and without the coding.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) raw: Bytes,
    pub(super) data: Bytes,
}

/// A whole body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) raw: BytesMut,
    pub(super) data: BytesMut,
}

const LARGEST_HEAD: usize = 128 * 1024;
const MOST_HEADERS: usize = 256;

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Wire {
    pub(super) fn new(stream: TcpStream, meter: Arc<Meter>) -> Self {
        // A request that waits for an acknowledgement would change who wins a race.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            buffer: BytesMut::new(),
            meter,
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        self.meter.read.fetch_add(count as u64, Ordering::SeqCst);
        Ok(count > 0)
    }

    async fn fill_or_break(&mut self) -> io::Result<()> {
        match self.fill().await? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads a head. `None` where the connection ended before one began.
    async fn head(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            // Empty lines before a request are skipped (RFC 9112, section 2.2).
            while self.buffer.starts_with(b"\r\n") {
                self.buffer.advance(2);
            }
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                return Ok(Some(self.buffer.split_to(end + 4).freeze()));
            }
            if self.buffer.len() > LARGEST_HEAD {
                return Err(broken("the head is larger than 128 KiB"));
            }
            let begun = !self.buffer.is_empty();
            match self.fill().await {
                Ok(true) => {}
                Ok(false) if begun => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(false) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn request_head(&mut self) -> io::Result<Option<RequestHead>> {
        let Some(raw) = self.head().await? else {
            return Ok(None);
        };
        let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut lines);
        parsed
            .parse(&raw)
            .map_err(|_| broken("what came is no HTTP/1.1 request"))?;
        let (Some(method), Some(target), Some(version)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(broken("what came is no HTTP/1.1 request"));
        };
        let method = method.parse().map_err(|_| broken("no method"))?;
        let target = target.to_owned();
        let headers = header_map(parsed.headers)?;
        let framing = framing(&headers)?.unwrap_or(Framing::Length(0));
        Ok(Some(RequestHead {
            keep_alive: keep_alive(&headers, version),
            raw: raw.clone(),
            method,
            target,
            headers,
            framing,
        }))
    }

    /// Reads the head of the answer to a request. Interim answers are read like others.
    pub(super) async fn response_head(&mut self, to: &Method) -> io::Result<ResponseHead> {
        let raw = self.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut lines);
        parsed
            .parse(&raw)
            .map_err(|_| broken("what came is no HTTP/1.1 answer"))?;
        let (Some(status), Some(version)) = (parsed.code, parsed.version) else {
            return Err(broken("what came is no HTTP/1.1 answer"));
        };
        let headers = header_map(parsed.headers)?;
        let bodiless = to == Method::HEAD || matches!(status, 100..=199 | 204 | 304);
        let framing = match bodiless {
            true => Framing::Length(0),
            false => framing(&headers)?.unwrap_or(Framing::UntilClose),
        };
        Ok(ResponseHead {
            keep_alive: keep_alive(&headers, version) && framing != Framing::UntilClose,
            raw: raw.clone(),
            status,
            headers,
            framing,
        })
    }

    /// Reads the next part of a body; `None` after its end.
    pub(super) async fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<Piece>> {
        loop {
            match framing {
                Framing::Length(0) | Framing::Chunked(Chunk::End) => return Ok(None),
                Framing::UntilClose => {
                    if self.buffer.is_empty() && !self.fill().await? {
                        *framing = Framing::Length(0);
                        continue;
                    }
                    let raw = self.buffer.split().freeze();
                    return Ok(Some(Piece {
                        data: raw.clone(),
                        raw,
                    }));
                }
                Framing::Length(left) => return self.some(left).await.map(Some),
                Framing::Chunked(chunk) => match chunk {
                    Chunk::Data(0) => *chunk = Chunk::DataEnd,
                    Chunk::Data(left) => return self.some(left).await.map(Some),
                    Chunk::Size => {
                        let line = self.line().await?;
                        *chunk = match httparse::parse_chunk_size(&line) {
                            Ok(httparse::Status::Complete((_, 0))) => Chunk::Trailer,
                            Ok(httparse::Status::Complete((_, size))) => Chunk::Data(size),
                            _ => return Err(broken("broken chunk")),
                        };
                        return Ok(Some(coding(line)));
                    }
                    Chunk::DataEnd => {
                        let line = self.line().await?;
                        if line.len() != 2 {
                            return Err(broken("broken chunk"));
                        }
                        *chunk = Chunk::Size;
                        return Ok(Some(coding(line)));
                    }
                    Chunk::Trailer => {
                        let line = self.line().await?;
                        if line.len() == 2 {
                            *chunk = Chunk::End;
                        }
                        return Ok(Some(coding(line)));
                    }
                    Chunk::End => return Ok(None),
                },
            }
        }
    }

    async fn some(&mut self, left: &mut u64) -> io::Result<Piece> {
        if self.buffer.is_empty() {
            self.fill_or_break().await?;
        }
        let count = usize::try_from(*left).unwrap_or(usize::MAX);
        let raw = self.buffer.split_to(count.min(self.buffer.len())).freeze();
        *left -= raw.len() as u64;
        Ok(Piece {
            data: raw.clone(),
            raw,
        })
    }

    async fn line(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                return Ok(self.buffer.split_to(end + 2).freeze());
            }
            if self.buffer.len() > LARGEST_HEAD {
                return Err(broken("broken chunk"));
            }
            self.fill_or_break().await?;
        }
    }

    pub(super) async fn body(&mut self, mut framing: Framing) -> io::Result<Body> {
        let mut body = Body::default();
        while let Some(piece) = self.piece(&mut framing).await? {
            body.raw.extend_from_slice(&piece.raw);
            body.data.extend_from_slice(&piece.data);
        }
        Ok(body)
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Before the write: whoever has read the bytes may look at the count.
        let count = bytes.len() as u64;
        self.meter.written.fetch_add(count, Ordering::SeqCst);
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        // To a client that has closed already the write succeeds, and what comes back is a reset.
        match self.stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Resolves when the other side has closed. What it sends meanwhile stays unread.
    pub(super) async fn gone(&self) {
        loop {
            match self.stream.peek(&mut [0]).await {
                Ok(0) | Err(_) => return,
                // The beginning of the next request: a side that still speaks is there. Unread bytes keep the socket
                // readable, so readiness cannot be waited for.
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Closes so that the other side sees a reset.
    pub(super) fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Closes in order: what was written arrives, even where the other side's last bytes are unread. Says whether the other
    /// side closed in order too: one that has unread bytes when it closes sends a reset (RFC 9293, section 3.10.4).
    pub(super) async fn close(mut self) -> bool {
        if self.stream.shutdown().await.is_err() {
            return false;
        }
        let rest = async {
            loop {
                self.buffer.clear();
                match self.fill().await {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(_) => return false,
                }
            }
        };
        let ended = tokio::time::timeout(Duration::from_millis(500), rest).await;
        ended.unwrap_or(true)
    }
}

fn coding(raw: Bytes) -> Piece {
    Piece {
        raw,
        data: Bytes::new(),
    }
}

fn header_map(lines: &[httparse::Header<'_>]) -> io::Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name: HeaderName = line.name.parse().map_err(|_| broken("broken header"))?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| broken("broken header"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn framing(headers: &HeaderMap) -> io::Result<Option<Framing>> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return match has_token(headers, header::TRANSFER_ENCODING, "chunked") {
            true => Ok(Some(Framing::Chunked(Chunk::Size))),
            false => Err(broken("a transfer coding that is not chunked")),
        };
    }
    let Some(length) = headers.get(header::CONTENT_LENGTH) else {
        return Ok(None);
    };
    let length = length.to_str().ok().and_then(|length| length.parse().ok());
    length
        .map(|length| Some(Framing::Length(length)))
        .ok_or_else(|| broken("a length that is no number"))
}

fn keep_alive(headers: &HeaderMap, minor_version: u8) -> bool {
    match minor_version {
        0 => has_token(headers, header::CONNECTION, "keep-alive"),
        _ => !has_token(headers, header::CONNECTION, "close"),
    }
}

pub(super) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
