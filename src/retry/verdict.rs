//! What one attempt meant.

use std::fmt;

use http::StatusCode;

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
    fn permits_repeat(self) -> bool {
        self != Self::None
    }
}

/// How far an attempt got, as far as it can be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// No byte of the request reached the server: the connection was never made.
    NeverSent,
    /// The server said, in a way that a standard or its contract makes binding, that it did not process the request:
    /// HTTP/2 `REFUSED_STREAM` or a GOAWAY below the stream (RFC 9113, sections 6.8 and 8.7), 425 Too Early (RFC 8470,
    /// section 5.2), or an answer that the contract defines as "not executed".
    NotProcessed,
    /// An answer came that speaks of the operation.
    Answered,
    /// The request may have been processed, and nothing says whether it was.
    MaybeProcessed,
}

impl Reach {
    /// Whether it is proven that the attempt had no effect.
    #[must_use]
    pub fn proves_no_effect(self) -> bool {
        matches!(self, Self::NeverSent | Self::NotProcessed)
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverSent => "never sent",
            Self::NotProcessed => "not processed",
            Self::Answered => "answered",
            Self::MaybeProcessed => "maybe processed",
        })
    }
}

/// How an attempt failed to bring a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The request could not be built or is not one that can be sent.
    Request,
    /// The caller's own body stream failed before anything was sent.
    RequestBody,
    /// The caller's own body stream failed while it was being sent.
    RequestBodyInFlight,
    /// The host name did not resolve.
    Resolve,
    /// The connection was not made: refused, unreachable, reset during the handshake.
    Connect,
    /// The connection was not made in time.
    ConnectTimeout,
    /// The TLS handshake failed for a reason that may pass.
    Handshake,
    /// The TLS handshake failed for good: the certificate was refused, or the server sent a fatal alert.
    Certificate,
    /// HTTP/2: the server refused the stream (RFC 9113, section 8.7).
    StreamRefused,
    /// HTTP/2: the server went away below our stream (RFC 9113, section 6.8).
    GoAway,
    /// No answer within the attempt's time.
    Timeout,
    /// The connection closed before an answer began.
    Closed,
    /// The connection was reset before an answer began.
    Reset,
    /// What came was not HTTP.
    Malformed,
    /// The answer began and was cut off.
    Truncated,
    /// The answer began and did not end within the attempt's time.
    Stalled,
    /// A redirect could not be followed.
    Redirect,
    /// A middleware of the caller's failed.
    Middleware,
    /// A middleware of the caller's changed the operation's key, body, method or URL, and the attempt was stopped.
    Altered,
    /// Something else broke on the way.
    Other,
}

impl Failure {
    /// A short, stable name, as OpenTelemetry's `error.type` wants it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::RequestBody | Self::RequestBodyInFlight => "request_body",
            Self::Resolve => "name_resolution",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Handshake => "tls_handshake",
            Self::Certificate => "tls_certificate",
            Self::StreamRefused => "stream_refused",
            Self::GoAway => "go_away",
            Self::Timeout => "timeout",
            Self::Closed => "connection_closed",
            Self::Reset => "connection_reset",
            Self::Malformed => "malformed_answer",
            Self::Truncated => "truncated_answer",
            Self::Stalled => "stalled_answer",
            Self::Redirect => "redirect",
            Self::Middleware => "middleware",
            Self::Altered => "altered_by_middleware",
            Self::Other => "other",
        }
    }

    /// Whether the request never got a connection, provided that no redirect was followed on the way.
    fn is_before_connection(self) -> bool {
        matches!(
            self,
            Self::Resolve
                | Self::Connect
                | Self::ConnectTimeout
                | Self::Handshake
                | Self::Certificate
        )
    }

    /// How far a request got that failed so.
    ///
    /// `direct` says that the failure can only be the first hop's. After a followed redirect a refused connection is the
    /// redirect target's, and the first server may have done the work.
    fn reach(self, direct: bool) -> Reach {
        match self {
            Self::Request | Self::RequestBody => Reach::NeverSent,
            // Our own guard stopped it, as the last before the wire.
            Self::Altered if direct => Reach::NeverSent,
            _ if direct && self.is_before_connection() => Reach::NeverSent,
            Self::StreamRefused | Self::GoAway if direct => Reach::NotProcessed,
            _ => Reach::MaybeProcessed,
        }
    }

    /// Whether sending the same request again can end otherwise.
    fn may_heal(self) -> bool {
        !matches!(
            self,
            Self::Request
                | Self::RequestBody
                | Self::RequestBodyInFlight
                | Self::Certificate
                | Self::Redirect
                | Self::Middleware
                | Self::Altered
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "the request could not be built",
            Self::RequestBody => "the request body failed before anything was sent",
            Self::RequestBodyInFlight => "the request body failed while it was being sent",
            Self::Resolve => "the host name did not resolve",
            Self::Connect => "the connection was not made",
            Self::ConnectTimeout => "the connection was not made in time",
            Self::Handshake => "the TLS handshake failed",
            Self::Certificate => "the TLS certificate or handshake was refused",
            Self::StreamRefused => "the server refused the stream",
            Self::GoAway => "the server went away before it took the request",
            Self::Timeout => "no answer within the attempt's time",
            Self::Closed => "the connection closed before an answer",
            Self::Reset => "the connection was reset before an answer",
            Self::Malformed => "the answer was not valid HTTP",
            Self::Truncated => "the answer was cut off",
            Self::Stalled => "the answer did not end within the attempt's time",
            Self::Redirect => "a redirect could not be followed",
            Self::Middleware => "a middleware failed",
            Self::Altered => "a middleware changed the operation",
            Self::Other => "the exchange failed",
        })
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
    fn advice(&self) -> Option<bool> {
        self.should_retry.filter(|_| !self.status.is_success())
    }

    /// Whether the answer refuses the caller's `Expect` (RFC 9110, section 15.5.18).
    fn refuses_expectation(&self) -> bool {
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
    const fn new(verdict: Verdict, reach: Reach) -> Self {
        Self { verdict, reach }
    }

    const fn never(because: StoppedBy, else_done: bool, reach: Reach) -> Self {
        Self::new(Verdict::Never { because, else_done }, reach)
    }

    const fn retry(reach: Reach) -> Self {
        Self::new(
            Verdict::Retry {
                else_done: false,
                without_expect: false,
            },
            reach,
        )
    }
}

/// Says what one attempt meant.
///
/// `unknown_before` says that an earlier attempt of the same operation ended without anybody knowing whether it was processed.
///
/// # Examples
///
/// ```
/// use http::StatusCode;
/// use idempotency::retry::{assess, Answer, Outcome, Protection, Reach, Verdict};
///
/// let lost = Outcome::Answer(Answer::plain(StatusCode::BAD_GATEWAY));
/// assert!(matches!(assess(Protection::DrawnKey, lost, false).verdict, Verdict::Retry { .. }));
/// // Without a key nothing says that the gateway's server did not take the payment.
/// assert!(matches!(assess(Protection::None, lost, false).verdict, Verdict::Never { else_done: true, .. }));
/// assert_eq!(assess(Protection::None, lost, false).reach, Reach::MaybeProcessed);
/// ```
#[must_use]
#[inline]
pub fn assess(protection: Protection, outcome: Outcome, unknown_before: bool) -> Assessment {
    match outcome {
        // What every operation hopes for.
        Outcome::Answer(answer)
            if answer.status.is_success() && answer.meaning == Meaning::Plain =>
        {
            Assessment::new(Verdict::Done, Reach::Answered)
        }
        Outcome::Failure { failure, direct } => assess_failure(protection, failure, direct),
        Outcome::Answer(answer) if protection.is_keyed() => {
            assess_keyed(protection, answer, unknown_before)
        }
        Outcome::Answer(answer) => assess_unkeyed(protection, answer),
    }
}

fn assess_failure(protection: Protection, failure: Failure, direct: bool) -> Assessment {
    let reach = failure.reach(direct);
    // The gate: without a key or a repeatable method, only what was certainly not processed is sent again.
    let permitted = protection.permits_repeat() || reach.proves_no_effect();
    if permitted && failure.may_heal() {
        Assessment::retry(reach)
    } else {
        let because = if failure.may_heal() {
            StoppedBy::UnsafeWithoutKey
        } else {
            StoppedBy::NotRetryable
        };
        Assessment::never(because, false, reach)
    }
}

fn assess_keyed(protection: Protection, answer: Answer, unknown_before: bool) -> Assessment {
    match answer.meaning {
        // That the key is refused now says nothing of what an earlier attempt has done with it.
        Meaning::KeyUnusable if unknown_before => {
            return Assessment::never(StoppedBy::NotRetryable, false, Reach::Answered);
        }
        Meaning::Mismatch | Meaning::AlreadyDone | Meaning::KeyUnusable => {
            return Assessment::new(Verdict::Done, Reach::Answered);
        }
        // A stored answer is final even where its status would be worth a retry: the server will repeat it for ever.
        _ if answer.marker == Replay::Replayed => {
            return Assessment::new(Verdict::Done, Reach::Answered);
        }
        Meaning::InProgress => {
            return Assessment::new(Verdict::InProgress, Reach::MaybeProcessed);
        }
        _ => {}
    }
    let reach = reach_of(answer);
    match answer.advice() {
        Some(true) => {
            let verdict = Verdict::Retry {
                else_done: false,
                without_expect: answer.refuses_expectation(),
            };
            return Assessment::new(verdict, reach);
        }
        Some(false) => return without_retry(answer, reach, unknown_before),
        None => {}
    }
    if is_transient(answer.status) {
        return Assessment::retry(reach);
    }
    match answer.status {
        StatusCode::CONFLICT if answer.conflict_is_final => Assessment::new(Verdict::Done, reach),
        StatusCode::CONFLICT if unknown_before => {
            Assessment::new(Verdict::InProgress, Reach::MaybeProcessed)
        }
        StatusCode::CONFLICT => Assessment::new(
            Verdict::Retry {
                else_done: protection == Protection::DrawnKey,
                without_expect: false,
            },
            reach,
        ),
        _ if answer.refuses_expectation() => Assessment::new(
            Verdict::Retry {
                else_done: true,
                without_expect: true,
            },
            reach,
        ),
        _ => without_retry(answer, reach, unknown_before),
    }
}

/// The verdict on an answer that ends the loop without a replay marker. What another attempt may heal is never the operation's
/// answer, even where the server asks not to be asked again.
fn without_retry(answer: Answer, reach: Reach, unknown_before: bool) -> Assessment {
    if is_transient(answer.status) || (unknown_before && speaks_of_the_attempt(answer.status)) {
        return Assessment::never(StoppedBy::NotRetryable, false, reach);
    }
    Assessment::new(Verdict::Done, reach)
}

fn assess_unkeyed(protection: Protection, answer: Answer) -> Assessment {
    let reach = reach_of(answer);
    // The gate. A contract's word that nothing happened is not enough here: no configuration can lift it.
    let permitted = protection.permits_repeat() || is_too_early(answer);
    let without_expect = answer.refuses_expectation();
    let worth_it = answer
        .advice()
        .unwrap_or_else(|| is_transient(answer.status) || without_expect);
    // Without a key the client answers as reqwest does: whatever the server said last is the answer.
    if !worth_it {
        Assessment::new(Verdict::Done, reach)
    } else if permitted {
        Assessment::new(
            Verdict::Retry {
                else_done: true,
                without_expect,
            },
            reach,
        )
    } else {
        Assessment::never(StoppedBy::UnsafeWithoutKey, true, reach)
    }
}

/// How far an answered attempt got.
fn reach_of(answer: Answer) -> Reach {
    if is_too_early(answer) || (answer.direct && answer.meaning == Meaning::NotExecuted) {
        Reach::NotProcessed
    } else if is_transient(answer.status) {
        Reach::MaybeProcessed
    } else {
        Reach::Answered
    }
}

/// Whether the server was unwilling to process the request (RFC 8470, section 5.2).
fn is_too_early(answer: Answer) -> bool {
    answer.direct && answer.status == StatusCode::TOO_EARLY
}

/// Statuses that another attempt may heal: 408, 425, 429, 500, 502, 503, 504, the unregistered 512 to 599, and from 600 on what
/// is no status at all and counts as a server error (RFC 9110, section 15).
///
/// 501 and 505 to 511 say what the server cannot do at all (RFC 9110, section 15.6; RFC 6585, section 6).
fn is_transient(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        408 | 425 | 429 | 500 | 502..=504 | 512..
    )
}

/// Statuses that speak of the attempt (who sent it, whereto, how large), not of the operation.
///
/// After an attempt of unknown outcome they settle nothing: the operation may have been executed under the credentials or the
/// address of before.
fn speaks_of_the_attempt(status: StatusCode) -> bool {
    status.is_redirection()
        || matches!(
            status.as_u16(),
            401 | 403 | 407 | 408 | 413 | 421 | 425 | 429 | 431 | 501 | 505..=511
        )
}
