//! What the presets say, literally, and what the builder refuses.

use std::num::NonZeroU32;
use std::time::Duration;

use idempotency::retry::{
    Backoff, Origin, PolicyError, RetryBudget, RetryPolicy, RetryPolicyBuilder,
};

use super::{ms, s};

/// A policy in words, every setting of it.
pub(super) fn described(policy: &RetryPolicy) -> String {
    let budget = policy.budget().map_or_else(
        || "none".to_owned(),
        |budget| {
            format!(
                "{} % + {}/s",
                budget.extra_load_percent(),
                budget.retries_per_second()
            )
        },
    );
    [
        format!("attempts {}", policy.max_attempts()),
        format!("connect {:?}", policy.connect_timeout()),
        format!("attempt {:?}", policy.attempt_timeout()),
        format!("stall {:?}", policy.stall_timeout()),
        format!("deadline {:?}", policy.deadline()),
        format!("backoff {:?}", policy.backoff()),
        format!("longest wait {:?}", policy.max_wait()),
        format!("in progress {:?}", policy.in_progress_cap()),
        format!(
            "polls {:?} to {:?}",
            policy.poll_delay(0),
            policy.poll_delay(u32::MAX)
        ),
        format!("budget {budget}"),
        format!(
            "buffers {} {}",
            policy.request_buffer(),
            policy.response_buffer()
        ),
    ]
    .join("; ")
}

#[test]
fn the_standard_policy_says() {
    let expected = "attempts 4; connect 3s; attempt 10s; stall 30s; deadline Some(60s); \
                    backoff Exponential { base: 100ms, cap: 5s, .. }; longest wait None; in progress 30s; \
                    polls 500ms to 5s; budget 20 % + 10/s; buffers 2097152 2097152";
    assert_eq!(described(&RetryPolicy::standard()), expected);
    assert_eq!(described(&RetryPolicy::default()), expected);
    assert_eq!(
        described(&RetryPolicy::builder().build().unwrap()),
        expected
    );
}

#[test]
fn the_policy_that_never_retries_says() {
    assert_eq!(
        described(&RetryPolicy::never()),
        "attempts 1; connect 3s; attempt 10s; stall 30s; deadline Some(60s); \
         backoff Exponential { base: 100ms, cap: 5s, .. }; longest wait None; in progress 0ns; \
         polls 500ms to 5s; budget none; buffers 2097152 2097152"
    );
}

#[test]
fn the_policy_for_tests_says() {
    for (asked, attempts) in [(0, 1), (1, 1), (3, 3), (u32::MAX, u32::MAX)] {
        assert_eq!(
            described(&RetryPolicy::immediate(asked)),
            format!(
                "attempts {attempts}; connect 3s; attempt 10s; stall 30s; deadline Some(60s); \
                 backoff Constant(0ns); longest wait None; in progress 2s; \
                 polls 1ms to 10ms; budget none; buffers 2097152 2097152"
            )
        );
    }
}

#[test]
fn every_setting_is_taken() {
    let policy = RetryPolicy::builder()
        .max_attempts(NonZeroU32::new(7).unwrap())
        .connect_timeout(s(1))
        .attempt_timeout(s(2))
        .stall_timeout(s(3))
        .deadline(s(4))
        .backoff(Backoff::constant(s(5)))
        .max_wait(s(6))
        .in_progress_cap(s(7))
        .in_progress_polling(s(8), s(9))
        .budget(RetryBudget::new(10, 11))
        .request_buffer(12)
        .response_buffer(13)
        .build()
        .unwrap();
    let said = "attempts 7; connect 1s; attempt 2s; stall 3s; deadline Some(4s); backoff Constant(5s); \
                longest wait Some(6s); in progress 7s; polls 8s to 9s; budget 10 % + 11/s; buffers 12 13";
    assert_eq!(described(&policy), said);
    assert_eq!(described(&policy.to_builder().build().unwrap()), said);
    let endless = policy
        .to_builder()
        .no_deadline()
        .no_budget()
        .build()
        .unwrap();
    assert_eq!(endless.deadline(), None);
    assert!(endless.budget().is_none());
}

#[test]
fn an_attempt_timeout_beyond_the_deadline_is_taken_as_it_is() {
    let policy = RetryPolicy::builder()
        .deadline(s(1))
        .attempt_timeout(s(10))
        .build()
        .unwrap();
    assert_eq!(policy.attempt_timeout(), s(10));
}

#[test]
fn policies_made_from_one_share_its_budget_and_new_ones_do_not() {
    let origin = Origin::of("https", "api.example.com", 443);
    let spend = |policy: &RetryPolicy| policy.budget().unwrap().withdraw(origin, s(1));
    let first = RetryPolicy::builder()
        .budget(RetryBudget::new(0, 2))
        .build()
        .unwrap();
    assert!(spend(&first.clone()));
    assert!(spend(&first.to_builder().deadline(s(5)).build().unwrap()));
    assert!(!spend(&first));

    let own = RetryPolicy::standard();
    while spend(&own) {}
    assert!(spend(&RetryPolicy::standard()));
    assert!(spend(&RetryPolicy::builder().build().unwrap()));
}

#[track_caller]
fn assert_refused(builder: RetryPolicyBuilder, text: &str) {
    let error = builder.build().unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(std::error::Error::source(&error).is_none());
}

#[test]
fn a_zero_that_would_stop_everything_is_refused() {
    let build = RetryPolicy::builder;
    let zero = Duration::ZERO;
    let text = |setting| format!("`{setting}` is 0s: give it a duration above zero");
    assert_refused(build().connect_timeout(zero), &text("connect_timeout"));
    assert_refused(build().attempt_timeout(zero), &text("attempt_timeout"));
    assert_refused(build().stall_timeout(zero), &text("stall_timeout"));
    assert_refused(build().deadline(zero), &text("deadline"));
    assert_refused(
        build().in_progress_polling(zero, s(1)),
        &text("in_progress.first"),
    );
    // Polls that are not made are held to the same rule: a hint of zero would otherwise make one.
    let unused = build()
        .in_progress_cap(zero)
        .in_progress_polling(zero, zero);
    assert_refused(unused, &text("in_progress.first"));
}

#[test]
fn a_range_that_begins_above_its_end_is_refused() {
    assert_refused(
        RetryPolicy::builder().in_progress_polling(s(6), s(5)),
        "`in_progress.first` is 6s, above `in_progress.max`, which is 5s: lower the one or raise the other",
    );
    assert_refused(
        RetryPolicy::builder().backoff(Backoff::exponential(ms(5001), s(5))),
        "`backoff.base` is 5.001s, above `backoff.cap`, which is 5s: lower the one or raise the other",
    );
    assert!(
        RetryPolicy::builder()
            .backoff(Backoff::exponential(s(5), s(5)))
            .build()
            .is_ok()
    );
}

#[test]
fn a_refusal_can_be_matched() {
    let error = RetryPolicy::builder()
        .deadline(Duration::ZERO)
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        PolicyError::Zero {
            setting: "deadline"
        }
    );
}
