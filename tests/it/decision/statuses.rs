//! One row for every status from 100 to 999, under every protection, before and after an attempt of unknown outcome.

use idempotency::retry::{Assessment, Protection, Reach, StoppedBy};

use super::{
    DONE, IN_PROGRESS, RETRY, assert_assessed, assessed, never, never_but_done, plain,
    retry_or_done, retry_or_error,
};

/// The first and the last status of a row, and what they mean.
type Rows = [(u16, u16, Assessment)];

const TOO_EARLY: Assessment = assessed(retry_or_error(), Reach::NotProcessed);
/// A final answer that speaks of the attempt while the outcome of an earlier one is open.
const STILL_OPEN: Assessment = assessed(never(StoppedBy::NotRetryable), Reach::Answered);
const REPEATED: Assessment = assessed(retry_or_done(), Reach::MaybeProcessed);
const REPEATED_EARLY: Assessment = assessed(retry_or_done(), Reach::NotProcessed);
const GATED: Assessment = assessed(
    never_but_done(StoppedBy::UnsafeWithoutKey),
    Reach::MaybeProcessed,
);

#[track_caller]
fn assert_rows(protection: Protection, unknown_before: bool, rows: &Rows) {
    let mut next = 100;
    for &(first, last, expected) in rows {
        assert_eq!(first, next, "the rows leave no status out");
        for status in first..=last {
            assert_assessed(protection, plain(status), unknown_before, expected);
        }
        next = last + 1;
    }
    assert_eq!(
        next, 1000,
        "the rows reach the last status that can be represented"
    );
}

fn keyed_at_first(conflict: Assessment) -> [(u16, u16, Assessment); 14] {
    [
        (100, 407, DONE),
        (408, 408, RETRY),
        (409, 409, conflict),
        (410, 424, DONE),
        (425, 425, TOO_EARLY),
        (426, 428, DONE),
        (429, 429, RETRY),
        (430, 499, DONE),
        (500, 500, RETRY),
        (501, 501, DONE),
        (502, 504, RETRY),
        (505, 511, DONE),
        (512, 599, RETRY),
        // RFC 9110, section 15: an invalid status is processed as a server error.
        (600, 999, RETRY),
    ]
}

const KEYED_AFTER_UNKNOWN: &Rows = &[
    (100, 299, DONE),
    (300, 399, STILL_OPEN),
    (400, 400, DONE),
    (401, 401, STILL_OPEN),
    (402, 402, DONE),
    (403, 403, STILL_OPEN),
    (404, 406, DONE),
    (407, 407, STILL_OPEN),
    (408, 408, RETRY),
    (409, 409, IN_PROGRESS),
    (410, 412, DONE),
    (413, 413, STILL_OPEN),
    (414, 420, DONE),
    (421, 421, STILL_OPEN),
    (422, 424, DONE),
    (425, 425, TOO_EARLY),
    (426, 428, DONE),
    (429, 429, RETRY),
    (430, 430, DONE),
    (431, 431, STILL_OPEN),
    (432, 499, DONE),
    (500, 500, RETRY),
    (501, 501, STILL_OPEN),
    (502, 504, RETRY),
    (505, 511, STILL_OPEN),
    (512, 999, RETRY),
];

fn unkeyed(transient: Assessment) -> [(u16, u16, Assessment); 12] {
    [
        (100, 407, DONE),
        (408, 408, transient),
        (409, 424, DONE),
        (425, 425, REPEATED_EARLY),
        (426, 428, DONE),
        (429, 429, transient),
        (430, 499, DONE),
        (500, 500, transient),
        (501, 501, DONE),
        (502, 504, transient),
        (505, 511, DONE),
        (512, 999, transient),
    ]
}

#[test]
fn every_status_under_a_drawn_key_at_first() {
    // Nobody else can be running the operation: a conflict that stays is the application's own.
    let conflict = assessed(retry_or_done(), Reach::Answered);
    assert_rows(Protection::DrawnKey, false, &keyed_at_first(conflict));
}

#[test]
fn every_status_under_a_given_key_at_first() {
    let conflict = assessed(retry_or_error(), Reach::Answered);
    assert_rows(Protection::GivenKey, false, &keyed_at_first(conflict));
}

#[test]
fn every_status_under_a_drawn_key_after_an_attempt_of_unknown_outcome() {
    assert_rows(Protection::DrawnKey, true, KEYED_AFTER_UNKNOWN);
}

#[test]
fn every_status_under_a_given_key_after_an_attempt_of_unknown_outcome() {
    assert_rows(Protection::GivenKey, true, KEYED_AFTER_UNKNOWN);
}

#[test]
fn every_status_of_an_idempotent_method_without_a_key() {
    for unknown_before in [false, true] {
        assert_rows(Protection::Method, unknown_before, &unkeyed(REPEATED));
    }
}

#[test]
fn every_status_of_an_unsafe_method_without_a_key() {
    for unknown_before in [false, true] {
        assert_rows(Protection::None, unknown_before, &unkeyed(GATED));
    }
}
