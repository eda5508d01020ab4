//! Sending exactly what a check says: no retry, no redirect, no header of ours.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::Url;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::run::Run;
use crate::contract::Replay;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) url: Url,
    pub(super) keys: Vec<String>,
    pub(super) headers: HeaderMap,
    pub(super) content_type: Option<String>,
    pub(super) body: Bytes,
}

/// An answer, or that there was none.
#[derive(Debug, Clone)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn with_keys(&self, keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Self {
            keys,
            ..self.clone()
        }
    }

    pub(super) fn with_body(&self, body: Bytes) -> Self {
        Self {
            body,
            ..self.clone()
        }
    }
}

impl Got {
    pub(super) const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    /// The request was turned away.
    pub(super) const fn is_refusal(&self) -> bool {
        self.status >= 400 && self.status < 500
    }

    pub(super) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The status, as a person reads it.
    pub(super) fn shown(&self) -> String {
        match self.status {
            0 => "no answer".to_owned(),
            status => status.to_string(),
        }
    }

    pub(super) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or_default()
    }

    fn lost() -> Self {
        Self {
            status: 0,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

impl Run {
    /// What the generic contract reads out of an answer's marker.
    pub(super) fn marker(&self, got: &Got) -> Replay {
        self.settings
            .contract
            .marker(got.code(), &got.headers, &got.body)
    }

    /// Sends a request. A lost answer has status 0.
    pub(super) async fn send(&self, ask: &Ask) -> Got {
        match self.try_send(ask).await {
            Ok(got) => got,
            Err(_) => Got::lost(),
        }
    }

    pub(super) async fn try_send(&self, ask: &Ask) -> Result<Got, reqwest::Error> {
        let mut headers = ask.headers.clone();
        for key in &ask.keys {
            // `append`: two keys are two lines.
            if let Ok(value) = HeaderValue::from_str(key) {
                headers.append(self.key_header.clone(), value);
            }
        }
        let mut request = self
            .http
            .request(self.settings.method.clone(), ask.url.clone())
            .body(ask.body.clone());
        if let Some(content_type) = &ask.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        if ask.body.is_empty() {
            // What a server may ask of a POST without a body (RFC 9110, section 8.6), and hyper leaves out.
            request = request.header(header::CONTENT_LENGTH, 0);
        }
        // reqwest's `headers` keeps all lines of a name.
        let answer = request.headers(headers).send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await?;
        Ok(Got {
            status,
            headers,
            body,
        })
    }

    /// Sends the first bytes of a request, as many as `part` says, and closes. Over plain HTTP only.
    pub(super) async fn send_and_leave(&self, ask: &Ask, part: Part) -> Option<()> {
        if ask.url.scheme() != "http" {
            return None;
        }
        let host = ask.url.host_str()?;
        let port = ask.url.port_or_known_default()?;
        let address: SocketAddr = tokio::net::lookup_host((host.trim_matches(['[', ']']), port))
            .await
            .ok()?
            .next()?;
        let target = match ask.url.query() {
            Some(query) => format!("{}?{query}", ask.url.path()),
            None => ask.url.path().to_owned(),
        };
        let mut message = format!(
            "{} {target} HTTP/1.1\r\nhost: {host}:{port}\r\n",
            self.settings.method
        )
        .into_bytes();
        let mut line = |name: &HeaderName, value: &[u8]| {
            message.extend_from_slice(name.as_str().as_bytes());
            message.extend_from_slice(b": ");
            message.extend_from_slice(value);
            message.extend_from_slice(b"\r\n");
        };
        for (name, value) in &ask.headers {
            line(name, value.as_bytes());
        }
        for key in &ask.keys {
            line(&self.key_header, key.as_bytes());
        }
        if let Some(content_type) = &ask.content_type {
            line(&header::CONTENT_TYPE, content_type.as_bytes());
        }
        line(
            &header::CONTENT_LENGTH,
            ask.body.len().to_string().as_bytes(),
        );
        message.extend_from_slice(b"\r\n");
        let body = match part {
            Part::Whole => &ask.body[..],
            Part::HalfTheBody => &ask.body[..ask.body.len() / 2],
        };
        message.extend_from_slice(body);
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&message).await.ok()?;
        stream.shutdown().await.ok()
    }
}

/// How much of a request is sent before the client is gone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Whole,
    HalfTheBody,
}
