//! The retry decision, as tables. What is expected stands in the tests as literal statuses, names and durations; none of it is
//! computed by the code under test.

mod advice;
mod backoff_growth;
mod budget_accounts;
mod config_files;
mod failures;
#[cfg(feature = "backoff")]
mod foreign_backoff;
mod gate;
mod hints;
mod limits;
mod meanings;
mod policies;
mod polling;
mod properties;
mod simulated_loop;
mod statuses;

use std::cell::Cell;
use std::time::Duration;

use http::StatusCode;
use idempotency::retry::{
    Answer, Assessment, Decision, Outcome, Protection, Reach, RetryPolicy, Situation, StoppedBy,
    Verdict, WaitReason, assess, decide,
};

const PROTECTIONS: [Protection; 4] = [
    Protection::DrawnKey,
    Protection::GivenKey,
    Protection::Method,
    Protection::None,
];

const KEYED: [Protection; 2] = [Protection::DrawnKey, Protection::GivenKey];

/// The operation's answer.
const DONE: Assessment = assessed(Verdict::Done, Reach::Answered);
/// To be polled.
const IN_PROGRESS: Assessment = assessed(Verdict::InProgress, Reach::MaybeProcessed);
/// To be sent again, else an error; nobody knows whether it was processed.
const RETRY: Assessment = assessed(retry_or_error(), Reach::MaybeProcessed);

const fn assessed(verdict: Verdict, reach: Reach) -> Assessment {
    Assessment { verdict, reach }
}

/// To be sent again; if the limits do not allow it there is no answer.
const fn retry_or_error() -> Verdict {
    Verdict::Retry {
        else_done: false,
        without_expect: false,
    }
}

/// To be sent again; if the limits do not allow it the answer in hand is the answer.
const fn retry_or_done() -> Verdict {
    Verdict::Retry {
        else_done: true,
        without_expect: false,
    }
}

/// Not to be sent again, and no answer.
const fn never(because: StoppedBy) -> Verdict {
    Verdict::Never {
        because,
        else_done: false,
    }
}

/// Not to be sent again; the answer in hand is handed out.
const fn never_but_done(because: StoppedBy) -> Verdict {
    Verdict::Never {
        because,
        else_done: true,
    }
}

fn plain(status: u16) -> Answer {
    Answer::plain(StatusCode::from_u16(status).unwrap())
}

#[track_caller]
fn assert_assessed(
    protection: Protection,
    answer: Answer,
    unknown_before: bool,
    expected: Assessment,
) {
    assert_eq!(
        assess(protection, Outcome::Answer(answer), unknown_before),
        expected,
        "{protection:?}, unknown before: {unknown_before}, {answer:?}"
    );
}

/// A decision, and whether the budget was asked for it.
#[track_caller]
fn decided(
    policy: &RetryPolicy,
    situation: &Situation,
    assessment: Assessment,
    budget: bool,
) -> (Decision, bool) {
    let asked = Cell::new(false);
    let decision = decide(
        policy,
        situation,
        assessment,
        &mut policy.backoff().delays(),
        || {
            asked.set(true);
            budget
        },
    );
    (decision, asked.get())
}

#[track_caller]
fn assert_waits(
    policy: &RetryPolicy,
    situation: &Situation,
    assessment: Assessment,
    delay: Duration,
    why: WaitReason,
) {
    let (decision, asked) = decided(policy, situation, assessment, true);
    assert_eq!(decision, Decision::Wait { delay, why });
    assert_eq!(
        asked,
        matches!(why, WaitReason::Backoff | WaitReason::ServerHint),
        "a retry is paid for, a poll is not"
    );
}

/// Asserts the limit that stops, and that nothing was taken from the budget on the way.
#[track_caller]
fn assert_gives_up(
    policy: &RetryPolicy,
    situation: &Situation,
    assessment: Assessment,
    limit: StoppedBy,
) {
    let (decision, asked) = decided(policy, situation, assessment, true);
    assert_eq!(decision, Decision::GiveUp(limit));
    assert!(
        !asked,
        "{limit:?} stopped it, so the budget must not be asked"
    );
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
