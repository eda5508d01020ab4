//! What a contract recognises in an answer, and the replay marker, before any status rule.

use idempotency::contract::{Meaning, Replay};
use idempotency::retry::{Answer, Protection, Reach, StoppedBy};

use super::{
    DONE, IN_PROGRESS, KEYED, RETRY, assert_assessed, assessed, never, plain, retry_or_done,
    retry_or_error,
};

/// Every status that is retried without a marker, and the conflict.
const RETRYABLE: [u16; 11] = [408, 409, 425, 429, 500, 502, 503, 504, 512, 599, 600];

fn meaning(status: u16, meaning: Meaning) -> Answer {
    Answer {
        meaning,
        ..plain(status)
    }
}

fn marked(status: u16, marker: Replay) -> Answer {
    Answer {
        marker,
        ..plain(status)
    }
}

#[test]
fn a_retryable_status_with_the_replay_marker_is_stored_and_final() {
    for protection in KEYED {
        for unknown_before in [false, true] {
            for status in RETRYABLE {
                assert_assessed(
                    protection,
                    marked(status, Replay::Replayed),
                    unknown_before,
                    DONE,
                );
            }
        }
    }
}

#[test]
fn the_replay_marker_makes_an_answer_of_the_attempt_one_of_the_operation() {
    for status in [301, 401, 403, 407, 413, 421, 431, 501, 505, 511] {
        assert_assessed(
            Protection::DrawnKey,
            marked(status, Replay::Replayed),
            true,
            DONE,
        );
    }
}

#[test]
fn the_replay_marker_ends_even_a_wait_for_an_operation_in_progress() {
    let answer = Answer {
        marker: Replay::Replayed,
        ..meaning(409, Meaning::InProgress)
    };
    assert_assessed(Protection::GivenKey, answer, true, DONE);
}

#[test]
fn a_marker_that_says_fresh_changes_no_verdict() {
    assert_assessed(
        Protection::DrawnKey,
        marked(503, Replay::Fresh),
        false,
        RETRY,
    );
    assert_assessed(
        Protection::DrawnKey,
        marked(409, Replay::Fresh),
        true,
        IN_PROGRESS,
    );
    let open = assessed(never(StoppedBy::NotRetryable), Reach::Answered);
    assert_assessed(Protection::DrawnKey, marked(401, Replay::Fresh), true, open);
}

#[test]
fn a_marker_means_nothing_without_a_key() {
    let retried = assessed(retry_or_done(), Reach::MaybeProcessed);
    assert_assessed(
        Protection::Method,
        marked(503, Replay::Replayed),
        false,
        retried,
    );
}

#[test]
fn a_recognised_operation_in_progress_is_waited_for_whatever_its_status() {
    for protection in KEYED {
        for unknown_before in [false, true] {
            for status in [202, 400, 409, 423, 425, 429, 503] {
                let answer = meaning(status, Meaning::InProgress);
                assert_assessed(protection, answer, unknown_before, IN_PROGRESS);
            }
        }
    }
}

#[test]
fn a_recognised_mismatch_or_repetition_is_final_whatever_its_status() {
    for protection in KEYED {
        for unknown_before in [false, true] {
            for recognised in [Meaning::Mismatch, Meaning::AlreadyDone] {
                for status in [400, 409, 412, 422, 429, 500, 503] {
                    let answer = meaning(status, recognised);
                    assert_assessed(protection, answer, unknown_before, DONE);
                }
            }
        }
    }
}

#[test]
fn a_refused_key_is_final_unless_an_earlier_attempt_may_have_used_it() {
    for protection in KEYED {
        for status in [400, 409, 412, 422, 429, 500, 503] {
            let refused = meaning(status, Meaning::KeyUnusable);
            assert_assessed(protection, refused, false, DONE);
            let settles_nothing = assessed(never(StoppedBy::NotRetryable), Reach::Answered);
            assert_assessed(protection, refused, true, settles_nothing);
        }
    }
}

#[test]
fn an_answer_that_says_not_executed_is_judged_by_its_status_and_proves_it() {
    for protection in KEYED {
        let answer = |status| meaning(status, Meaning::NotExecuted);
        let refused = |verdict| assessed(verdict, Reach::NotProcessed);
        assert_assessed(protection, answer(503), false, refused(retry_or_error()));
        assert_assessed(protection, answer(503), true, refused(retry_or_error()));
        assert_assessed(protection, answer(429), false, refused(retry_or_error()));
        assert_assessed(protection, answer(412), false, refused(DONE.verdict));
        assert_assessed(protection, answer(412), true, refused(DONE.verdict));
        assert_assessed(
            protection,
            answer(401),
            true,
            refused(never(StoppedBy::NotRetryable)),
        );
    }
    let conflict = meaning(409, Meaning::NotExecuted);
    let refused = assessed(retry_or_done(), Reach::NotProcessed);
    assert_assessed(Protection::DrawnKey, conflict, false, refused);
    let final_conflict = Answer {
        conflict_is_final: true,
        ..conflict
    };
    assert_assessed(
        Protection::DrawnKey,
        final_conflict,
        false,
        assessed(DONE.verdict, Reach::NotProcessed),
    );
}

#[test]
fn a_refusal_behind_a_followed_redirect_proves_nothing() {
    let behind = |answer| Answer {
        direct: false,
        ..answer
    };
    for unknown_before in [false, true] {
        assert_assessed(
            Protection::DrawnKey,
            behind(plain(425)),
            unknown_before,
            RETRY,
        );
        let not_executed = behind(meaning(503, Meaning::NotExecuted));
        assert_assessed(Protection::GivenKey, not_executed, unknown_before, RETRY);
    }
}
