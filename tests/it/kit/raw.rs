//! A client by hand, which sends exactly what a test says: one connection an attempt, no retries.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// One attempt in the making.
#[derive(Clone)]
pub(crate) struct Attempt {
    to: SocketAddr,
    target: String,
    lines: Vec<String>,
    body: Vec<u8>,
}

/// What came back; empty where nothing did.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) text: String,
}

impl Attempt {
    pub(crate) fn post(to: SocketAddr, target: &str) -> Self {
        Self {
            to,
            target: target.to_owned(),
            lines: vec!["content-type: application/json".to_owned()],
            body: br#"{"amount":100}"#.to_vec(),
        }
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.line(&format!("Idempotency-Key: {key}"))
    }

    pub(crate) fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut message = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.target,
            self.to,
            self.body.len()
        );
        for line in &self.lines {
            message += line;
            message += "\r\n";
        }
        message += "\r\n";
        [message.as_bytes(), &self.body].concat()
    }

    /// Sends it and reads until the server closes.
    pub(crate) fn send(&self) -> Came {
        let Ok(mut stream) = TcpStream::connect(self.to) else {
            return Came {
                text: "refused".to_owned(),
            };
        };
        let mut came = Vec::new();
        if stream.write_all(&self.bytes()).is_ok() {
            // A reset is one of the things that come.
            let _ = stream.read_to_end(&mut came);
        }
        Came {
            text: String::from_utf8_lossy(&came).into_owned(),
        }
    }

    /// The status that came.
    pub(crate) fn status(&self) -> u16 {
        self.send().status()
    }
}

impl Came {
    pub(crate) fn status(&self) -> u16 {
        self.text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn body(&self) -> &str {
        self.text
            .split_once("\r\n\r\n")
            .map_or("", |(_, body)| body)
    }
}
