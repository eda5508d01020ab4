//! Why the loop stops, and why it waits.

use std::fmt;

/// The limit that ended an operation. It never replaces the cause: the error's kind still says what the last attempt met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoppedBy {
    /// Sending it again cannot help, or the server said so.
    NotRetryable,
    /// It has no key, its method is not idempotent, and it may have been processed.
    UnsafeWithoutKey,
    /// All attempts are used up.
    Attempts,
    /// The next attempt would not begin before the deadline.
    Deadline,
    /// The retry budget of this origin is empty.
    Budget,
    /// The backoff gave up.
    Backoff,
    /// The server asked for a longer wait than the policy allows.
    WaitTooLong,
    /// The operation was still in progress when the time for waiting was up.
    InProgressCap,
    /// The body is a stream that was larger than the buffer, so it could be sent once only.
    BodyNotRepeatable,
    /// The server may have forgotten the key by then: a repeat could execute the operation a second time.
    KeyWindow,
}

impl fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRetryable => "a retry cannot help",
            Self::UnsafeWithoutKey => "without a key it must not be sent again",
            Self::Attempts => "all attempts are used up",
            Self::Deadline => "the deadline leaves no time for another attempt",
            Self::Budget => "the retry budget is empty",
            Self::Backoff => "the backoff gave up",
            Self::WaitTooLong => "the server asked for a longer wait than allowed",
            Self::InProgressCap => "the time for waiting is up",
            Self::BodyNotRepeatable => "the body can be sent only once",
            Self::KeyWindow => "the server may forget the key before the next attempt",
        })
    }
}

/// Why the loop waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// Our own backoff.
    Backoff,
    /// The server's hint (`Retry-After` or a cousin).
    ServerHint,
    /// The operation is in progress; our own polling interval.
    InProgress,
    /// The operation is in progress; the server said when to ask again.
    InProgressHint,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backoff => "backoff",
            Self::ServerHint => "the server's hint",
            Self::InProgress => "in progress",
            Self::InProgressHint => "in progress, the server's hint",
        })
    }
}
