//! What holds of the decision for every input, the extreme ones included.

use std::num::NonZeroU32;
use std::time::Duration;

use idempotency::retry::{
    Assessment, Backoff, Decision, Reach, RetryPolicy, Situation, StoppedBy, Verdict, WaitReason,
};
use proptest::prelude::*;

use super::{DONE, IN_PROGRESS, RETRY, assessed, decided, never, retry_or_done};

/// Durations of every size, the ends included.
pub(super) fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        (0_u64..100_000).prop_map(Duration::from_millis),
        (any::<u64>(), 0_u32..1_000_000_000)
            .prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
}

fn above_zero() -> impl Strategy<Value = Duration> {
    any_duration().prop_filter("zero is refused", |duration| !duration.is_zero())
}

/// Numbers of every size: random ones are nearly always huge.
pub(super) fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..10, 0_u32..200, Just(u32::MAX), any::<u32>()]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    prop_oneof![
        (any_duration(), any_duration())
            .prop_map(|(one, other)| Backoff::exponential(one.min(other), one.max(other))),
        any_duration().prop_map(Backoff::constant),
        Just(Backoff::from_fn(|_| None)),
    ]
}

prop_compose! {
    fn any_policy()(
        attempts in any_count(),
        backoff in any_backoff(),
        deadline in prop::option::of(above_zero()),
        max_wait in prop::option::of(any_duration()),
        cap in any_duration(),
        polls in (above_zero(), above_zero()),
    ) -> RetryPolicy {
        let mut builder = RetryPolicy::builder()
            .max_attempts(NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN))
            .backoff(backoff)
            .in_progress_cap(cap)
            .in_progress_polling(polls.0.min(polls.1), polls.0.max(polls.1));
        if let Some(wait) = max_wait {
            builder = builder.max_wait(wait);
        }
        builder = match deadline {
            Some(deadline) => builder.deadline(deadline),
            None => builder.no_deadline(),
        };
        builder.build().unwrap()
    }
}

prop_compose! {
    fn any_situation()(
        counts in (any_count(), any_count()),
        elapsed in any_duration(),
        in_progress_since in prop::option::of(any_duration()),
        deadline in prop::option::of(any_duration()),
        key_age in any_duration(),
        key_window in prop::option::of(any_duration()),
        repeatable in prop::bool::weighted(0.8),
        hint in prop::option::of(any_duration()),
        roll in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
    ) -> Situation {
        Situation {
            attempts: counts.0,
            polls: counts.1,
            elapsed,
            in_progress_since,
            deadline,
            key_age,
            key_window,
            repeatable,
            hint,
            roll,
        }
    }
}

fn any_assessment() -> impl Strategy<Value = Assessment> {
    prop_oneof![
        4 => Just(RETRY),
        2 => Just(assessed(retry_or_done(), Reach::NotProcessed)),
        4 => Just(IN_PROGRESS),
        1 => Just(DONE),
        1 => Just(assessed(never(StoppedBy::NotRetryable), Reach::MaybeProcessed)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_wait_breaks_a_limit(
        policy in any_policy(),
        situation in any_situation(),
        assessment in any_assessment(),
        budget in any::<bool>(),
    ) {
        let (decision, asked) = decided(&policy, &situation, assessment, budget);
        if let Decision::Wait { delay, why } = decision {
            let end = situation.elapsed.checked_add(delay);
            prop_assert!(situation.repeatable);
            if let Some(deadline) = situation.deadline {
                prop_assert!(end.unwrap() < deadline, "the wait ends past the deadline");
            }
            if let Some(window) = situation.key_window {
                prop_assert!(end.unwrap().checked_add(situation.key_age).unwrap() < window);
            }
            let hint = situation.hint.unwrap_or(Duration::ZERO);
            if let Some(longest) = policy.max_wait() {
                prop_assert!(hint <= longest);
            }
            match why {
                WaitReason::Backoff | WaitReason::ServerHint => {
                    let is_retry = matches!(assessment.verdict, Verdict::Retry { .. });
                    prop_assert!(is_retry);
                    prop_assert!(delay >= hint, "the server's hint is a floor");
                    prop_assert!(situation.attempts < policy.max_attempts().get());
                    prop_assert!(asked && budget);
                }
                WaitReason::InProgress | WaitReason::InProgressHint => {
                    prop_assert_eq!(assessment.verdict, Verdict::InProgress);
                    prop_assert!(!delay.is_zero(), "polls are never a hot loop");
                    prop_assert!(hint.is_zero() || delay == hint);
                    prop_assert!(delay <= policy.in_progress_cap());
                    prop_assert!(!asked);
                }
                _ => prop_assert!(false, "{why:?} is not known to this test"),
            }
        }
    }

    #[test]
    fn the_budget_is_only_asked_for_a_retry_that_nothing_else_stops(
        policy in any_policy(),
        situation in any_situation(),
        assessment in any_assessment(),
    ) {
        let (granted, asked) = decided(&policy, &situation, assessment, true);
        let (refused, asked_again) = decided(&policy, &situation, assessment, false);
        prop_assert_eq!(asked, asked_again);
        if asked {
            let waits = matches!(granted, Decision::Wait { .. });
            prop_assert!(waits);
            prop_assert_eq!(refused, Decision::GiveUp(StoppedBy::Budget));
        } else {
            prop_assert_eq!(granted, refused);
            prop_assert_ne!(refused, Decision::GiveUp(StoppedBy::Budget));
        }
    }
}
