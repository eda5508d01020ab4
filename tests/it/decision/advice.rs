//! The server's own verdict on a retry, the contract's word on conflicts, and `Expect`.

use idempotency::contract::{Meaning, Replay};
use idempotency::retry::{
    Answer, Assessment, Outcome, Protection, Reach, StoppedBy, Verdict, assess,
};

use super::{
    DONE, IN_PROGRESS, KEYED, PROTECTIONS, RETRY, assert_assessed, assessed, never, never_but_done,
    plain, retry_or_done, retry_or_error,
};

fn advised(status: u16, should_retry: bool) -> Answer {
    Answer {
        should_retry: Some(should_retry),
        ..plain(status)
    }
}

/// Sent again on the server's word: the status alone would have been an answer.
const ON_ITS_WORD: Assessment = assessed(retry_or_error(), Reach::Answered);
/// No answer, and not sent again on the server's word.
const STOPPED: Assessment = assessed(never(StoppedBy::NotRetryable), Reach::MaybeProcessed);

/// An answer that speaks of the attempt while the outcome of an earlier one is open.
const ANSWERED_BUT_OPEN: Assessment = assessed(never(StoppedBy::NotRetryable), Reach::Answered);

#[test]
fn with_a_key_the_servers_verdict_beats_the_status() {
    for protection in KEYED {
        for unknown_before in [false, true] {
            for (status, yes, no) in [
                (400, ON_ITS_WORD, DONE),
                (409, ON_ITS_WORD, DONE),
                (500, RETRY, STOPPED),
                (
                    501,
                    ON_ITS_WORD,
                    if unknown_before {
                        ANSWERED_BUT_OPEN
                    } else {
                        DONE
                    },
                ),
                (503, RETRY, STOPPED),
            ] {
                assert_assessed(protection, advised(status, true), unknown_before, yes);
                assert_assessed(protection, advised(status, false), unknown_before, no);
            }
        }
    }
}

#[test]
fn a_success_is_not_sent_again_whatever_a_header_says() {
    for protection in PROTECTIONS {
        for unknown_before in [false, true] {
            for status in [200, 201, 202, 204, 299] {
                for word in [true, false] {
                    assert_assessed(protection, advised(status, word), unknown_before, DONE);
                }
            }
        }
    }
}

#[test]
fn without_a_key_the_servers_verdict_counts_for_repeatable_methods_only() {
    for unknown_before in [false, true] {
        for (status, reach) in [
            (400, Reach::Answered),
            (409, Reach::Answered),
            (500, Reach::MaybeProcessed),
            (503, Reach::MaybeProcessed),
        ] {
            let yes = advised(status, true);
            let no = advised(status, false);
            assert_assessed(
                Protection::Method,
                yes,
                unknown_before,
                assessed(retry_or_done(), reach),
            );
            assert_assessed(
                Protection::Method,
                no,
                unknown_before,
                assessed(Verdict::Done, reach),
            );
            let gated = assessed(never_but_done(StoppedBy::UnsafeWithoutKey), reach);
            assert_assessed(Protection::None, yes, unknown_before, gated);
            assert_assessed(
                Protection::None,
                no,
                unknown_before,
                assessed(Verdict::Done, reach),
            );
        }
    }
}

#[test]
fn a_transient_answer_is_no_answer_even_where_the_server_forbids_a_retry() {
    for protection in KEYED {
        for unknown_before in [false, true] {
            for status in [408, 429, 500, 502, 503, 504, 512, 599, 600] {
                assert_assessed(protection, advised(status, false), unknown_before, STOPPED);
            }
            let early = assessed(never(StoppedBy::NotRetryable), Reach::NotProcessed);
            assert_assessed(protection, advised(425, false), unknown_before, early);
            let refused = Answer {
                meaning: Meaning::NotExecuted,
                ..advised(503, false)
            };
            assert_assessed(protection, refused, unknown_before, early);
        }
    }
}

#[test]
fn the_servers_verdict_changes_nothing_about_a_recognised_meaning_or_a_stored_answer() {
    for word in [true, false] {
        let with = |meaning| Answer {
            meaning,
            ..advised(409, word)
        };
        assert_assessed(Protection::DrawnKey, with(Meaning::Mismatch), true, DONE);
        assert_assessed(Protection::DrawnKey, with(Meaning::AlreadyDone), true, DONE);
        assert_assessed(
            Protection::DrawnKey,
            with(Meaning::KeyUnusable),
            false,
            DONE,
        );
        assert_assessed(
            Protection::DrawnKey,
            with(Meaning::InProgress),
            true,
            IN_PROGRESS,
        );
        let stored = Answer {
            marker: Replay::Replayed,
            ..advised(503, word)
        };
        assert_assessed(Protection::DrawnKey, stored, true, DONE);
    }
}

#[test]
fn a_contract_can_make_every_unrecognised_conflict_final() {
    let conflict = Answer {
        conflict_is_final: true,
        ..plain(409)
    };
    for protection in KEYED {
        for unknown_before in [false, true] {
            assert_assessed(protection, conflict, unknown_before, DONE);
            let running = Answer {
                meaning: Meaning::InProgress,
                ..conflict
            };
            assert_assessed(protection, running, unknown_before, IN_PROGRESS);
            let asked_again = Answer {
                should_retry: Some(true),
                ..conflict
            };
            assert_assessed(protection, asked_again, unknown_before, ON_ITS_WORD);
        }
    }
}

#[test]
fn a_refused_expectation_is_repeated_without_it_where_the_request_carried_one() {
    let refused = Answer {
        expected_continue: true,
        ..plain(417)
    };
    let again = |else_done| {
        let without_expect = true;
        assessed(
            Verdict::Retry {
                else_done,
                without_expect,
            },
            Reach::Answered,
        )
    };
    for unknown_before in [false, true] {
        for protection in [
            Protection::DrawnKey,
            Protection::GivenKey,
            Protection::Method,
        ] {
            assert_assessed(protection, refused, unknown_before, again(true));
            assert_assessed(protection, plain(417), unknown_before, DONE);
            let forbidden = Answer {
                should_retry: Some(false),
                ..refused
            };
            assert_assessed(protection, forbidden, unknown_before, DONE);
        }
        // On the server's word it is repeated too, and again without what it refused.
        let asked = Answer {
            should_retry: Some(true),
            ..refused
        };
        assert_assessed(Protection::DrawnKey, asked, unknown_before, again(false));
        assert_assessed(Protection::Method, asked, unknown_before, again(true));
        let gated = assessed(never_but_done(StoppedBy::UnsafeWithoutKey), Reach::Answered);
        assert_assessed(Protection::None, refused, unknown_before, gated);
    }
}

#[test]
fn an_expectation_changes_no_other_status() {
    for status in [400, 409, 425, 503] {
        for protection in PROTECTIONS {
            let with = Answer {
                expected_continue: true,
                ..plain(status)
            };
            let expected = assess(protection, Outcome::Answer(plain(status)), false);
            assert_assessed(protection, with, false, expected);
        }
    }
}
