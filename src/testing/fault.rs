//! What can go wrong on the wire, as values.

use std::fmt;
use std::time::Duration;

/// One thing that goes wrong with one attempt.
///
/// ```
/// use idempotency::testing::{Fault, Faults};
/// use idempotency::testing::Fault::{CommitThenDropReply, Pass, Status};
///
/// // The first answer is lost after the work was done, the second attempt meets a busy gateway.
/// let story = Faults::from([CommitThenDropReply, Status(503), Pass]);
/// let limited = Faults::from([Fault::answer(429).with_header("retry-after", "1").times(3)]);
/// # let _ = (story, limited);
/// ```
///
/// | fault | is the work done? | what the client sees |
/// |---|---|---|
/// | `Pass` | yes | the answer |
/// | `RefuseConnections` | no | connection refused |
/// | `CloseBeforeReading` | no | a reset connection |
/// | `Status`, `Answer` | no | that answer |
/// | `Crash` | no, but the key is claimed | a closed connection, then "in progress" until the lease ends |
/// | `SlowHandler` | yes, slowly | the answer, later |
/// | `CommitThenDropReply` | yes | a closed connection |
/// | `CommitThenReset` | yes | a reset connection |
/// | `CommitThenStatus` | yes | that status: a gateway that gave up |
/// | `CutAnswer`, `CutChunked` | yes | status, headers and a part of the body |
/// | `StallBeforeHeaders` | yes | silence |
/// | `StallInBody` | yes | status, headers, a part of the body, silence |
/// | `Garbage` | yes | bytes that are not HTTP |
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing goes wrong.
    Pass,
    /// For this long nobody listens at the address. It begins before the attempt in front of it is answered, or, in the first
    /// place of a script, when the script is set. It takes no attempt: what a refused client sends is never seen.
    RefuseConnections(Duration),
    /// The connection is reset once the request's head has come, before anything is done.
    CloseBeforeReading,
    /// An answer with this status and an empty body, before any work: a gateway's, or a limiter's.
    Status(u16),
    /// An answer before any work. See [`Fault::answer`].
    Answer {
        /// Its status.
        status: u16,
        /// Its header lines.
        headers: Vec<(String, String)>,
        /// Its body.
        body: String,
    },
    /// The server takes the key and dies: nothing is done, the connection closes, and the key stays claimed until its lease
    /// ends.
    Crash,
    /// The work takes this long. Repeats that come in the meantime meet an operation in progress.
    SlowHandler(Duration),
    /// The work is done, then the connection closes without an answer.
    CommitThenDropReply,
    /// The work is done, then the connection is reset without an answer.
    CommitThenReset,
    /// The work is done, then a gateway answers this status in the server's place.
    CommitThenStatus(u16),
    /// The work is done, then the connection closes after this many bytes of the answer's body. Its length had been announced,
    /// and at least one byte is missing.
    CutAnswer {
        /// Bytes of the body that come.
        after: usize,
    },
    /// The work is done, then the connection closes after this many bytes of a chunked body.
    CutChunked {
        /// Bytes of the body that come.
        after: usize,
    },
    /// The work is done, and the server is silent until the client closes.
    StallBeforeHeaders,
    /// The work is done, and the server is silent after this many bytes of the body, until the client closes.
    StallInBody {
        /// Bytes of the body that come.
        after: usize,
    },
    /// The work is done, and what comes back is not HTTP.
    Garbage,
    /// The same fault on several attempts. See [`Fault::times`].
    Repeated {
        /// The fault.
        fault: Box<Fault>,
        /// On how many attempts.
        times: u32,
    },
}

impl Fault {
    /// An answer before any work.
    #[must_use]
    pub const fn answer(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// The answer with one more header line.
    ///
    /// # Panics
    ///
    /// When this is no [`Fault::answer`].
    #[must_use]
    #[track_caller]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let Self::Answer { headers, .. } = &mut self else {
            panic!("`with_header` belongs to `Fault::answer`, not to `{self:?}`");
        };
        headers.push((name.into(), value.into()));
        self
    }

    /// The answer with a body.
    ///
    /// # Panics
    ///
    /// When this is no [`Fault::answer`].
    #[must_use]
    #[track_caller]
    pub fn with_body(mut self, text: impl Into<String>) -> Self {
        let Self::Answer { body, .. } = &mut self else {
            panic!("`with_body` belongs to `Fault::answer`, not to `{self:?}`");
        };
        *body = text.into();
        self
    }

    /// The same fault on this many attempts.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self::Repeated {
            fault: Box::new(self),
            times,
        }
    }

    /// Whether it needs HTTP/1.1 to act it out.
    pub(super) fn needs_http(&self) -> bool {
        match self {
            Self::Status(_)
            | Self::Answer { .. }
            | Self::CommitThenStatus(_)
            | Self::CutChunked { .. }
            | Self::Crash => true,
            Self::Repeated { fault, .. } => fault.needs_http(),
            _ => false,
        }
    }
}

impl fmt::Display for Fault {
    /// What became of the answer, for the line of an attempt in a report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("nothing went wrong"),
            Self::RefuseConnections(lasting) => write!(f, "connections refused for {lasting:?}"),
            Self::CloseBeforeReading => f.write_str("the connection was reset before any work"),
            Self::Status(status) | Self::Answer { status, .. } => {
                write!(f, "answered {status} before any work")
            }
            Self::Crash => f.write_str("the server took the key and died"),
            Self::SlowHandler(lasting) => write!(f, "the work took {lasting:?}"),
            Self::CommitThenDropReply => f.write_str("the connection was closed before it"),
            Self::CommitThenReset => f.write_str("the connection was reset before it"),
            Self::CommitThenStatus(status) => {
                write!(f, "a gateway answered {status} in its place")
            }
            Self::CutAnswer { after } => write!(f, "cut after {after} bytes of its body"),
            Self::CutChunked { after } => {
                write!(f, "cut after {after} bytes of its chunked body")
            }
            Self::StallBeforeHeaders => f.write_str("silence before its headers"),
            Self::StallInBody { after } => {
                write!(f, "silence after {after} bytes of its body")
            }
            Self::Garbage => f.write_str("garbage came in its place"),
            Self::Repeated { fault, times } => write!(f, "{fault}, {times} times"),
        }
    }
}
