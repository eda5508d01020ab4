//! One row for every way in which an attempt can fail to bring an answer.

use std::collections::HashSet;

use idempotency::retry::{Failure, Outcome, Protection, Reach, StoppedBy, Verdict, assess};

use super::{PROTECTIONS, assessed, never, retry_or_error};

const AGAIN: Verdict = retry_or_error();
const GATED: Verdict = never(StoppedBy::UnsafeWithoutKey);
const FINAL: Verdict = never(StoppedBy::NotRetryable);

/// What a failure means.
struct Row {
    failure: Failure,
    /// With a key, or with a method that may be repeated.
    protected: Verdict,
    /// A POST without a key: on the first hop, and where a redirect may have been followed.
    unprotected: [Verdict; 2],
    /// How far it got: on the first hop, and where a redirect may have been followed.
    reach: [Reach; 2],
}

const fn row(
    failure: Failure,
    protected: Verdict,
    unprotected: [Verdict; 2],
    reach: [Reach; 2],
) -> Row {
    Row {
        failure,
        protected,
        unprotected,
        reach,
    }
}

const ROWS: [Row; 19] = {
    use Failure as F;
    use Reach::{MaybeProcessed as Maybe, NeverSent as Unsent, NotProcessed as Refused};
    [
        row(F::Request, FINAL, [FINAL, FINAL], [Unsent, Unsent]),
        row(F::RequestBody, FINAL, [FINAL, FINAL], [Unsent, Unsent]),
        row(
            F::RequestBodyInFlight,
            FINAL,
            [FINAL, FINAL],
            [Maybe, Maybe],
        ),
        row(F::Resolve, AGAIN, [AGAIN, GATED], [Unsent, Maybe]),
        row(F::Connect, AGAIN, [AGAIN, GATED], [Unsent, Maybe]),
        row(F::ConnectTimeout, AGAIN, [AGAIN, GATED], [Unsent, Maybe]),
        row(F::Handshake, AGAIN, [AGAIN, GATED], [Unsent, Maybe]),
        row(F::Certificate, FINAL, [FINAL, FINAL], [Unsent, Maybe]),
        row(F::StreamRefused, AGAIN, [AGAIN, GATED], [Refused, Maybe]),
        row(F::GoAway, AGAIN, [AGAIN, GATED], [Refused, Maybe]),
        row(F::Timeout, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Closed, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Reset, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Malformed, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Truncated, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Stalled, AGAIN, [GATED, GATED], [Maybe, Maybe]),
        row(F::Redirect, FINAL, [FINAL, FINAL], [Maybe, Maybe]),
        row(F::Middleware, FINAL, [FINAL, FINAL], [Maybe, Maybe]),
        row(F::Other, AGAIN, [GATED, GATED], [Maybe, Maybe]),
    ]
};

#[test]
fn every_failure_under_every_protection() {
    for row in ROWS {
        for (index, direct) in [true, false].into_iter().enumerate() {
            for protection in PROTECTIONS {
                let verdict = match protection {
                    Protection::None => row.unprotected[index],
                    _ => row.protected,
                };
                for unknown_before in [false, true] {
                    let failure = row.failure;
                    assert_eq!(
                        assess(
                            protection,
                            Outcome::Failure { failure, direct },
                            unknown_before
                        ),
                        assessed(verdict, row.reach[index]),
                        "{failure:?}, direct: {direct}, {protection:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_what_was_never_sent_or_not_processed_proves_that_nothing_happened() {
    assert!(Reach::NeverSent.proves_no_effect());
    assert!(Reach::NotProcessed.proves_no_effect());
    assert!(!Reach::Answered.proves_no_effect());
    assert!(!Reach::MaybeProcessed.proves_no_effect());
}

#[test]
fn the_texts_of_two_failures_differ_and_are_fragments() {
    let mut texts = HashSet::new();
    for row in &ROWS {
        let text = row.failure.to_string();
        assert!(!text.ends_with('.') && !text.is_empty(), "{text}");
        assert!(
            texts.insert(text),
            "{:?} has a text of its own",
            row.failure
        );
    }
    assert_eq!(
        Failure::ConnectTimeout.to_string(),
        "the connection was not made in time"
    );
}

#[test]
fn the_names_of_failures_are_stable() {
    let names: Vec<_> = ROWS.iter().map(|row| row.failure.name()).collect();
    assert_eq!(
        names,
        [
            "request",
            "request_body",
            "request_body",
            "name_resolution",
            "connect",
            "connect_timeout",
            "tls_handshake",
            "tls_certificate",
            "stream_refused",
            "go_away",
            "timeout",
            "connection_closed",
            "connection_reset",
            "malformed_answer",
            "truncated_answer",
            "stalled_answer",
            "redirect",
            "middleware",
            "other",
        ]
    );
}
