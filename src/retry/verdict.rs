//! What one attempt meant.

use http::StatusCode;

use super::failure::{Failure, Reach};
use super::reason::StoppedBy;
use crate::contract::{Meaning, Replay};

/// What makes it safe to send an operation again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// An idempotency key that was drawn for this operation: nobody else can have used it.
    DrawnKey,
    /// An idempotency key that the caller brought: it may have been used before, elsewhere.
    GivenKey,
    /// No key, but a method that may be repeated (RFC 9110, section 9.2.2): GET, HEAD, OPTIONS, TRACE, PUT, DELETE.
    Method,
    /// Nothing: POST, PATCH or an unknown method without a key.
    None,
}

impl Protection {
    /// Whether the operation carries an idempotency key.
    #[must_use]
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::DrawnKey | Self::GivenKey)
    }

    /// Whether the operation may be repeated although it may have been processed.
    pub(super) fn permits_repeat(self) -> bool {
        self != Self::None
    }
}

/// The facts of an answer that the verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of the answer.
    pub status: StatusCode,
    /// What the contract says that it means.
    pub meaning: Meaning,
    /// The replay marker, [`Replay::Unknown`] where there is none.
    pub marker: Replay,
    /// The server's own verdict, from a header that the contract names.
    pub should_retry: Option<bool>,
    /// Whether the contract takes an unrecognised 409 as final.
    pub conflict_is_final: bool,
    /// Whether the caller's request carried `Expect`.
    pub expected_continue: bool,
    /// Whether the answer is the first hop's: no redirect of this attempt was followed. After a followed redirect a refusal is
    /// the redirect target's, and the first server may have done the work.
    pub direct: bool,
}

impl Answer {
    /// An answer of the first hop about which the contract has nothing to say.
    #[must_use]
    pub fn plain(status: StatusCode) -> Self {
        Self {
            status,
            meaning: Meaning::Plain,
            marker: Replay::Unknown,
            should_retry: None,
            conflict_is_final: false,
            expected_continue: false,
            direct: true,
        }
    }

    /// The server's own verdict, where it can mean something: a success is not sent again, whatever a header says.
    pub(super) fn advice(&self) -> Option<bool> {
        self.should_retry.filter(|_| !self.status.is_success())
    }

    /// Whether the answer refuses the caller's `Expect` (RFC 9110, section 15.5.18).
    pub(super) fn refuses_expectation(&self) -> bool {
        self.expected_continue && self.status == StatusCode::EXPECTATION_FAILED
    }
}

/// What one attempt brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete answer, or one that is streamed to the caller.
    Answer(Answer),
    /// None.
    Failure {
        /// What went wrong.
        failure: Failure,
        /// Whether the failure can only be the first hop's: the client carries this crate's redirect policy and no redirect
        /// of this attempt was followed.
        direct: bool,
    },
}

/// What to make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The answer in hand is the operation's answer, whatever its status.
    Done,
    /// Send it again, if the limits allow.
    Retry {
        /// Whether the answer in hand is the operation's answer if the limits do not allow it.
        else_done: bool,
        /// Whether to leave out `Expect` from now on (RFC 9110, section 10.1.1).
        without_expect: bool,
    },
    /// The operation is running under this key: wait and ask again.
    InProgress,
    /// Sending it again is not allowed or cannot help.
    Never {
        /// Which of the two.
        because: StoppedBy,
        /// Whether the answer in hand is the answer to hand out all the same.
        else_done: bool,
    },
}

/// The verdict on one attempt, and how far the attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Assessment {
    /// What to make of it.
    pub verdict: Verdict,
    /// How far it got.
    pub reach: Reach,
}

impl Assessment {
    pub(super) const fn new(verdict: Verdict, reach: Reach) -> Self {
        Self { verdict, reach }
    }

    pub(super) const fn never(because: StoppedBy, else_done: bool, reach: Reach) -> Self {
        Self::new(Verdict::Never { because, else_done }, reach)
    }

    pub(super) const fn retry(reach: Reach) -> Self {
        Self::new(
            Verdict::Retry {
                else_done: false,
                without_expect: false,
            },
            reach,
        )
    }
}
