//! The gate: a POST or PATCH without a key is repeated only when it certainly was not processed. Every combination of facts
//! is tried.

use http::StatusCode;
use idempotency::contract::{Meaning, Replay};
use idempotency::retry::{
    Answer, Assessment, Failure, Outcome, Protection, StoppedBy, Verdict, assess,
};

use super::{KEYED, PROTECTIONS};

const MEANINGS: [Meaning; 6] = [
    Meaning::Plain,
    Meaning::InProgress,
    Meaning::Mismatch,
    Meaning::AlreadyDone,
    Meaning::KeyUnusable,
    Meaning::NotExecuted,
];

/// Every answer that can be described, and whether an earlier attempt's outcome is unknown.
fn for_every_answer(mut look: impl FnMut(Answer, bool)) {
    const BOTH: [bool; 2] = [false, true];
    for status in (100..=999).map(|status| StatusCode::from_u16(status).unwrap()) {
        for meaning in MEANINGS {
            for marker in [Replay::Fresh, Replay::Replayed, Replay::Unknown] {
                for should_retry in [None, Some(false), Some(true)] {
                    for flags in 0..16_u8 {
                        let [conflict_is_final, expected_continue, direct, unknown_before] =
                            [1, 2, 4, 8].map(|bit| BOTH[usize::from(flags & bit != 0)]);
                        let answer = Answer {
                            status,
                            meaning,
                            marker,
                            should_retry,
                            conflict_is_final,
                            expected_continue,
                            direct,
                        };
                        look(answer, unknown_before);
                    }
                }
            }
        }
    }
}

fn sends_again(assessment: Assessment) -> bool {
    matches!(
        assessment.verdict,
        Verdict::Retry { .. } | Verdict::InProgress
    )
}

#[test]
fn no_answer_but_a_too_early_of_the_first_hop_repeats_an_unsafe_request_without_a_key() {
    let mut repeated = 0;
    for_every_answer(|answer, unknown_before| {
        if sends_again(assess(
            Protection::None,
            Outcome::Answer(answer),
            unknown_before,
        )) {
            assert_eq!(answer.status.as_u16(), 425, "{answer:?}");
            assert!(answer.direct, "{answer:?}");
            assert_ne!(answer.should_retry, Some(false), "{answer:?}");
            repeated += 1;
        }
    });
    // One status, six meanings, three markers, two words that do not forbid it, three flags that do not matter.
    assert_eq!(repeated, 6 * 3 * 2 * 8);
}

#[test]
fn no_failure_but_those_before_processing_on_the_first_hop_repeats_an_unsafe_request_without_a_key()
{
    let allowed = [
        Failure::Resolve,
        Failure::Connect,
        Failure::ConnectTimeout,
        Failure::Handshake,
        Failure::StreamRefused,
        Failure::GoAway,
    ];
    let refused = [
        Failure::Request,
        Failure::RequestBody,
        Failure::RequestBodyInFlight,
        Failure::Certificate,
        Failure::Timeout,
        Failure::Closed,
        Failure::Reset,
        Failure::Malformed,
        Failure::Truncated,
        Failure::Stalled,
        Failure::Redirect,
        Failure::Middleware,
        Failure::Other,
    ];
    for unknown_before in [false, true] {
        let again = |failure, direct| {
            sends_again(assess(
                Protection::None,
                Outcome::Failure { failure, direct },
                unknown_before,
            ))
        };
        for failure in allowed {
            assert!(again(failure, true), "{failure:?}");
            assert!(!again(failure, false), "{failure:?} behind a redirect");
        }
        for failure in refused {
            assert!(!again(failure, true), "{failure:?}");
            assert!(!again(failure, false), "{failure:?} behind a redirect");
        }
    }
}

#[test]
fn without_a_key_the_last_answer_is_always_handed_out() {
    for_every_answer(|answer, unknown_before| {
        for protection in [Protection::Method, Protection::None] {
            let assessment = assess(protection, Outcome::Answer(answer), unknown_before);
            let handed_out = match assessment.verdict {
                Verdict::Done => true,
                Verdict::Retry { else_done, .. } | Verdict::Never { else_done, .. } => else_done,
                Verdict::InProgress => false,
            };
            assert!(handed_out, "{protection:?} {answer:?}");
        }
    });
}

#[test]
fn a_keyed_operation_is_never_stopped_by_the_gate() {
    for_every_answer(|answer, unknown_before| {
        for protection in KEYED {
            let assessment = assess(protection, Outcome::Answer(answer), unknown_before);
            let gated = matches!(
                assessment.verdict,
                Verdict::Never {
                    because: StoppedBy::UnsafeWithoutKey,
                    ..
                }
            );
            assert!(!gated, "{answer:?}");
        }
    });
}

#[test]
fn a_success_that_means_nothing_in_particular_is_always_done() {
    for_every_answer(|answer, unknown_before| {
        if answer.status.is_success() && answer.meaning == Meaning::Plain {
            for protection in PROTECTIONS {
                let assessment = assess(protection, Outcome::Answer(answer), unknown_before);
                assert_eq!(assessment.verdict, Verdict::Done, "{answer:?}");
            }
        }
    });
}

#[test]
fn nothing_behind_a_followed_redirect_proves_that_there_was_no_effect() {
    for_every_answer(|answer, unknown_before| {
        if !answer.direct {
            for protection in PROTECTIONS {
                let assessment = assess(protection, Outcome::Answer(answer), unknown_before);
                assert!(!assessment.reach.proves_no_effect(), "{answer:?}");
            }
        }
    });
}

#[test]
fn an_expectation_is_only_dropped_where_it_was_refused() {
    for_every_answer(|answer, unknown_before| {
        for protection in PROTECTIONS {
            let assessment = assess(protection, Outcome::Answer(answer), unknown_before);
            if let Verdict::Retry { without_expect, .. } = assessment.verdict {
                let refused = answer.expected_continue && answer.status.as_u16() == 417;
                assert_eq!(without_expect, refused, "{answer:?}");
            }
        }
    });
}
