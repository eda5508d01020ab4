//! What happened: the list of attempts, and what it comes to.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use smallvec::SmallVec;

use super::response::Meta;
use crate::contract::{IdempotencyKey, Replay};
use crate::retry::{Failure, Reach, StoppedBy, WaitReason};

/// Most operations have one attempt, and that one needs no room of its own.
pub(crate) type Log = SmallVec<[Attempt; 1]>;

/// Everything that happened to an operation. Responses and errors carry it.
///
/// # Examples
///
/// A report is found in the extensions of a [`reqwest::Response`] that came through the
/// [`IdempotencyMiddleware`](crate::IdempotencyMiddleware):
///
/// ```
/// use idempotency::Report;
///
/// fn log(response: &reqwest::Response) {
///     if let Some(report) = Report::of(response) {
///         println!("{} attempts, {}", report.attempts().len(), report.replay());
///     }
/// }
/// # let bare = reqwest::Response::from(http::Response::new("no report in here"));
/// # assert!(Report::of(&bare).is_none());
/// # log(&bare);
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) attempts: Log,
    pub(crate) replay: Replay,
    pub(crate) followed_unknown: bool,
    pub(crate) stopped_by: Option<StoppedBy>,
    pub(crate) buffered: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) echo_mismatch: bool,
}

impl Report {
    /// The report in the extensions of a response. [`None`] where it did not come through this crate.
    #[must_use]
    pub fn of(response: &reqwest::Response) -> Option<&Self> {
        response.extensions().get::<Meta>().map(|meta| &meta.report)
    }

    pub(crate) fn empty() -> Self {
        Self {
            key: None,
            attempts: Log::new(),
            replay: Replay::Unknown,
            followed_unknown: false,
            stopped_by: None,
            buffered: false,
            retry_after: None,
            echo_mismatch: false,
        }
    }

    /// The operation's key. [`None`] where it has none.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.key.as_ref()
    }

    /// The attempts, in the order in which they were made.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Whether the answer is the stored answer of an earlier attempt.
    #[must_use]
    pub fn replay(&self) -> Replay {
        self.replay
    }

    /// Whether the answer came after an attempt of unknown outcome and does not say that it is a replay. An "already exists" may
    /// then speak of what this very operation has made.
    #[must_use]
    pub fn followed_unknown(&self) -> bool {
        self.followed_unknown
    }

    /// The limit that ended the operation, where one did.
    #[must_use]
    pub fn stopped_by(&self) -> Option<StoppedBy> {
        self.stopped_by
    }

    /// Whether the whole answer was read inside the attempt. If not, its rest is a stream that no retry can bring back.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        self.buffered
    }

    /// Whether the server named another key in its answer than the one that was sent, where the contract has a header for that. The
    /// answer may then be that of another operation, mixed up on the way: [`replay`](Self::replay) is [`Replay::Unknown`], and the
    /// trace has a warning. Look the operation up before you rely on it.
    #[must_use]
    pub fn echo_mismatch(&self) -> bool {
        self.echo_mismatch
    }

    /// How long the server asked to wait, in its last answer.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// One attempt: what happened, how far it got, how long it took, how long we waited afterwards and who asked for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) poll: bool,
    pub(crate) began: Nanos,
    pub(crate) took: Nanos,
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Option<Failure>,
    pub(crate) reach: Reach,
    pub(crate) wait: Option<(Nanos, WaitReason)>,
}

/// A duration in half the room: operations that sleep hold their attempts. It ends at 584 years.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nanos(u64);

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from(*self).fmt(f)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl Attempt {
    /// Which attempt it was, counted from 1. Polls of an operation in progress count here, since each is a request.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it asked after an operation in progress, which costs no attempt of the policy's.
    #[must_use]
    pub fn is_poll(&self) -> bool {
        self.poll
    }

    /// When it began, from the operation's begin on.
    #[must_use]
    pub fn began(&self) -> Duration {
        self.began.into()
    }

    /// How long it took.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took.into()
    }

    /// The status of its answer; also of one that was cut off.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// How it failed to bring a complete answer.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// How far it got.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// How long the loop waited after it, and who asked for that. [`None`] after the last.
    #[must_use]
    pub fn wait(&self) -> Option<(Duration, WaitReason)> {
        self.wait.map(|(delay, why)| (delay.into(), why))
    }
}

impl fmt::Display for Attempt {
    /// One line for a log: `attempt 2: 503, maybe processed, 12ms; waited 150ms (backoff)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.poll { "poll" } else { "attempt" };
        write!(f, "{kind} {}: ", self.number)?;
        match (self.status, self.failure) {
            (Some(status), Some(failure)) => write!(f, "{}, {failure}", status.as_u16())?,
            (Some(status), None) => write!(f, "{}", status.as_u16())?,
            (None, Some(failure)) => write!(f, "{failure}")?,
            (None, None) => f.write_str("nothing")?,
        }
        write!(f, ", {}, {}", self.reach, Short(self.took()))?;
        if let Some((delay, why)) = self.wait() {
            write!(f, "; waited {} ({why})", Short(delay))?;
        }
        Ok(())
    }
}

/// A duration to the millisecond.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}",
            Duration::from_millis(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_in_half_the_room_is_the_same_duration() {
        for duration in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_secs(86_400),
        ] {
            let nanos = Nanos::from(duration);
            assert_eq!(Duration::from(nanos), duration);
            assert_eq!(format!("{nanos:?}"), format!("{duration:?}"));
        }
        assert_eq!(
            Duration::from(Nanos::from(Duration::MAX)),
            Duration::from_nanos(u64::MAX)
        );
    }
}
