//! One request as a server saw it.

use std::fmt;

use tokio::time::Instant;

/// A request on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Number of the connection, from 0 in the order in which they were accepted.
    pub(crate) connection: usize,
    /// The method.
    pub(crate) method: String,
    /// The request target: path and query as sent.
    pub(crate) target: String,
    /// Header lines in the order and letter case of the wire (HTTP/2 has lower case only).
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its framing; as far as it was read.
    pub(crate) body: Vec<u8>,
    /// Whether the body was read to its end. False for steps that answer early, and where the client went away.
    pub(crate) complete: bool,
    /// When the head was complete.
    pub(crate) at: Instant,
}

/// The values of all lines of one header, in wire order; the name in any letter case.
pub(crate) fn header_lines<'a>(arrival: &'a Arrival, name: &str) -> Vec<&'a str> {
    arrival
        .headers
        .iter()
        .filter(|(line, _)| line.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

/// The readable form for failed assertions: request line, key lines, the beginning of the body.
impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        let shown = &self.body[..self.body.len().min(SHOWN)];
        let end = if self.complete { "complete" } else { "cut off" };
        writeln!(
            f,
            "{} {} on connection {}",
            self.method, self.target, self.connection
        )?;
        writeln!(
            f,
            "     idempotency-key: {:?}",
            header_lines(self, "idempotency-key")
        )?;
        write!(
            f,
            "     body, {} bytes, {end}: {}",
            self.body.len(),
            shown.escape_ascii()
        )
    }
}
