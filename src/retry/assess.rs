//! From what one attempt brought to the verdict on it.

use http::StatusCode;

use super::failure::{Failure, Reach};
use super::reason::StoppedBy;
use super::verdict::{Answer, Assessment, Outcome, Protection, Verdict};
use crate::contract::{Meaning, Replay};

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
