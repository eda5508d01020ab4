//! Every limit that can stop a retry, and the order in which they count.

use std::num::NonZeroU32;

use idempotency::retry::{
    Backoff, Decision, Reach, RetryPolicy, RetryPolicyBuilder, Situation, StoppedBy, WaitReason,
};

use super::{
    DONE, IN_PROGRESS, RETRY, assert_gives_up, assert_waits, assessed, decided, ms, never,
    never_but_done, s,
};

/// Ten attempts, 100 ms apart, within a minute.
fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .max_attempts(NonZeroU32::new(10).unwrap())
        .backoff(Backoff::constant(ms(100)))
        .deadline(s(60))
}

fn after_one_attempt(policy: &RetryPolicy) -> Situation {
    Situation {
        attempts: 1,
        ..Situation::begin(policy)
    }
}

#[test]
fn a_final_answer_finishes_without_looking_at_any_limit() {
    let policy = policy().build().unwrap();
    let beyond_everything = Situation {
        attempts: u32::MAX,
        polls: u32::MAX,
        elapsed: s(3600),
        repeatable: false,
        hint: Some(s(3600)),
        ..Situation::begin(&policy)
    };
    assert_eq!(
        decided(&policy, &beyond_everything, DONE, false),
        (Decision::Finish, false)
    );
}

#[test]
fn a_verdict_of_never_stops_with_its_own_reason() {
    let policy = policy().build().unwrap();
    let situation = after_one_attempt(&policy);
    for because in [StoppedBy::NotRetryable, StoppedBy::UnsafeWithoutKey] {
        for verdict in [never(because), never_but_done(because)] {
            assert_gives_up(
                &policy,
                &situation,
                assessed(verdict, Reach::MaybeProcessed),
                because,
            );
        }
    }
}

#[test]
fn the_limits_of_a_retry_count_in_order() {
    let strict = policy()
        .max_wait(s(300))
        .backoff(Backoff::from_fn(|_| None))
        .build()
        .unwrap();
    let mut situation = Situation {
        attempts: 10,
        repeatable: false,
        hint: Some(s(301)),
        key_age: s(3600),
        key_window: Some(s(3600)),
        ..Situation::begin(&strict)
    };
    assert_gives_up(&strict, &situation, RETRY, StoppedBy::Attempts);
    situation.attempts = 9;
    assert_gives_up(&strict, &situation, RETRY, StoppedBy::BodyNotRepeatable);
    situation.repeatable = true;
    assert_gives_up(&strict, &situation, RETRY, StoppedBy::WaitTooLong);
    situation.hint = Some(s(300));
    assert_gives_up(&strict, &situation, RETRY, StoppedBy::Backoff);

    let patient = strict
        .to_builder()
        .backoff(Backoff::constant(ms(100)))
        .build()
        .unwrap();
    assert_gives_up(&patient, &situation, RETRY, StoppedBy::Deadline);
    situation.hint = None;
    assert_gives_up(&patient, &situation, RETRY, StoppedBy::KeyWindow);
    situation.key_window = None;
    assert_eq!(
        decided(&patient, &situation, RETRY, false),
        (Decision::GiveUp(StoppedBy::Budget), true)
    );
    assert_waits(&patient, &situation, RETRY, ms(100), WaitReason::Backoff);
}

#[test]
fn the_limits_of_a_poll_count_in_order() {
    let policy = policy()
        .max_wait(s(300))
        .in_progress_cap(s(100))
        .build()
        .unwrap();
    let mut situation = Situation {
        // Polls are not attempts, so having used all of those up does not stop one.
        attempts: 10,
        repeatable: false,
        hint: Some(s(301)),
        key_age: s(3600),
        key_window: Some(s(3600)),
        ..Situation::begin(&policy)
    };
    assert_gives_up(
        &policy,
        &situation,
        IN_PROGRESS,
        StoppedBy::BodyNotRepeatable,
    );
    situation.repeatable = true;
    assert_gives_up(&policy, &situation, IN_PROGRESS, StoppedBy::WaitTooLong);
    situation.hint = Some(s(101));
    assert_gives_up(&policy, &situation, IN_PROGRESS, StoppedBy::InProgressCap);
    situation.hint = Some(s(100));
    assert_gives_up(&policy, &situation, IN_PROGRESS, StoppedBy::Deadline);
    situation.hint = Some(s(59));
    assert_gives_up(&policy, &situation, IN_PROGRESS, StoppedBy::KeyWindow);
    situation.key_window = None;
    assert_waits(
        &policy,
        &situation,
        IN_PROGRESS,
        s(59),
        WaitReason::InProgressHint,
    );
}

/// B69: the number names attempts, the first included, and is met exactly.
#[test]
fn exactly_as_many_attempts_are_made_as_the_policy_names() {
    for most in [1, 3, u32::MAX] {
        let policy = policy()
            .max_attempts(NonZeroU32::new(most).unwrap())
            .no_deadline()
            .build()
            .unwrap();
        let after = |attempts| Situation {
            attempts,
            ..Situation::begin(&policy)
        };
        assert_gives_up(&policy, &after(most), RETRY, StoppedBy::Attempts);
        if most > 1 {
            assert_waits(&policy, &after(1), RETRY, ms(100), WaitReason::Backoff);
            assert_waits(
                &policy,
                &after(most - 1),
                RETRY,
                ms(100),
                WaitReason::Backoff,
            );
        }
    }
}

/// B63: a wait is only begun when another attempt can begin after it.
#[test]
fn a_wait_that_would_end_at_the_deadline_is_not_begun() {
    let policy = policy().build().unwrap();
    let at = |elapsed| Situation {
        elapsed,
        ..after_one_attempt(&policy)
    };
    assert_waits(
        &policy,
        &at(ms(59_899)),
        RETRY,
        ms(100),
        WaitReason::Backoff,
    );
    assert_gives_up(&policy, &at(ms(59_900)), RETRY, StoppedBy::Deadline);
    assert_gives_up(&policy, &at(s(61)), RETRY, StoppedBy::Deadline);

    let endless = policy.to_builder().no_deadline().build().unwrap();
    let late = Situation {
        elapsed: s(86_400),
        ..after_one_attempt(&endless)
    };
    assert_waits(&endless, &late, RETRY, ms(100), WaitReason::Backoff);
}

/// B12: past the window a repeat is a new operation.
#[test]
fn a_key_is_not_used_at_or_past_the_end_of_its_window() {
    let policy = policy().build().unwrap();
    let aged = |age| Situation {
        elapsed: s(1),
        key_age: age,
        key_window: Some(s(900)),
        ..after_one_attempt(&policy)
    };
    for (assessment, delay, why) in [
        (RETRY, ms(100), WaitReason::Backoff),
        (IN_PROGRESS, ms(500), WaitReason::InProgress),
    ] {
        let last = s(899) - delay;
        assert_waits(&policy, &aged(last - ms(1)), assessment, delay, why);
        assert_gives_up(&policy, &aged(last), assessment, StoppedBy::KeyWindow);
        assert_gives_up(&policy, &aged(s(5000)), assessment, StoppedBy::KeyWindow);
    }
}

#[test]
fn the_texts_of_limits_and_waits_are_fragments() {
    assert_eq!(StoppedBy::NotRetryable.to_string(), "a retry cannot help");
    assert_eq!(
        StoppedBy::UnsafeWithoutKey.to_string(),
        "without a key it must not be sent again"
    );
    assert_eq!(StoppedBy::Attempts.to_string(), "all attempts are used up");
    assert_eq!(
        StoppedBy::Deadline.to_string(),
        "the deadline leaves no time for another attempt"
    );
    assert_eq!(StoppedBy::Budget.to_string(), "the retry budget is empty");
    assert_eq!(StoppedBy::Backoff.to_string(), "the backoff gave up");
    assert_eq!(
        StoppedBy::WaitTooLong.to_string(),
        "the server asked for a longer wait than allowed"
    );
    assert_eq!(
        StoppedBy::InProgressCap.to_string(),
        "the time for waiting is up"
    );
    assert_eq!(
        StoppedBy::BodyNotRepeatable.to_string(),
        "the body can be sent only once"
    );
    assert_eq!(
        StoppedBy::KeyWindow.to_string(),
        "the server may forget the key before the next attempt"
    );
    assert_eq!(WaitReason::Backoff.to_string(), "backoff");
    assert_eq!(WaitReason::ServerHint.to_string(), "the server's hint");
    assert_eq!(WaitReason::InProgress.to_string(), "in progress");
    assert_eq!(
        WaitReason::InProgressHint.to_string(),
        "in progress, the server's hint"
    );
}
