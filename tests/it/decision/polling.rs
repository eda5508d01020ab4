//! Waiting for an operation that is in progress under the key.

use std::time::Duration;

use idempotency::retry::{Decision, RetryPolicy, Situation, StoppedBy, WaitReason};

use super::{IN_PROGRESS, assert_gives_up, assert_waits, decided, ms, s};

fn polled(policy: &RetryPolicy, polls: u32) -> Situation {
    Situation {
        attempts: 1,
        polls,
        ..Situation::begin(policy)
    }
}

#[test]
fn polls_are_half_a_second_apart_at_first_and_five_seconds_in_the_end() {
    let policy = RetryPolicy::standard();
    let delays = [500, 1000, 2000, 4000, 5000, 5000];
    for (polls, delay) in (0..).zip(delays) {
        assert_waits(
            &policy,
            &polled(&policy, polls),
            IN_PROGRESS,
            ms(delay),
            WaitReason::InProgress,
        );
    }
    for polls in [31, 32, 64, u32::MAX] {
        assert_waits(
            &policy,
            &polled(&policy, polls),
            IN_PROGRESS,
            s(5),
            WaitReason::InProgress,
        );
    }
}

#[test]
fn polls_have_no_jitter() {
    let policy = RetryPolicy::standard();
    for roll in [0, 1, u64::MAX] {
        let situation = Situation {
            roll,
            ..polled(&policy, 0)
        };
        assert_waits(
            &policy,
            &situation,
            IN_PROGRESS,
            ms(500),
            WaitReason::InProgress,
        );
    }
}

#[test]
fn a_poll_comes_when_the_server_says() {
    let policy = RetryPolicy::standard();
    for polls in [0, 3] {
        let hinted = |hint| Situation {
            hint: Some(hint),
            ..polled(&policy, polls)
        };
        for hint in [ms(1), ms(499), s(1), s(30)] {
            assert_waits(
                &policy,
                &hinted(hint),
                IN_PROGRESS,
                hint,
                WaitReason::InProgressHint,
            );
        }
    }
    let now = Situation {
        hint: Some(Duration::ZERO),
        ..polled(&policy, 1)
    };
    assert_waits(&policy, &now, IN_PROGRESS, s(1), WaitReason::InProgress);
}

#[test]
fn an_empty_budget_and_used_up_attempts_stop_no_poll() {
    let policy = RetryPolicy::standard();
    let situation = Situation {
        attempts: 4,
        ..polled(&policy, 0)
    };
    let delay = ms(500);
    let why = WaitReason::InProgress;
    assert_eq!(
        decided(&policy, &situation, IN_PROGRESS, false),
        (Decision::Wait { delay, why }, false)
    );
}

#[test]
fn the_cap_counts_from_the_first_answer_that_says_in_progress() {
    let policy = RetryPolicy::builder().no_deadline().build().unwrap();
    let waiting = |waited| Situation {
        elapsed: s(100) + waited,
        in_progress_since: Some(s(100)),
        ..polled(&policy, 9)
    };
    // The first such answer is the one in hand: nothing has been waited yet, however late it is.
    let first = Situation {
        elapsed: s(100),
        ..polled(&policy, 0)
    };
    assert_waits(
        &policy,
        &first,
        IN_PROGRESS,
        ms(500),
        WaitReason::InProgress,
    );
    assert_waits(
        &policy,
        &waiting(s(25)),
        IN_PROGRESS,
        s(5),
        WaitReason::InProgress,
    );
    assert_gives_up(
        &policy,
        &waiting(ms(25_001)),
        IN_PROGRESS,
        StoppedBy::InProgressCap,
    );
    assert_gives_up(
        &policy,
        &waiting(s(31)),
        IN_PROGRESS,
        StoppedBy::InProgressCap,
    );
    let hinted = Situation {
        hint: Some(ms(30_001)),
        ..first
    };
    assert_gives_up(&policy, &hinted, IN_PROGRESS, StoppedBy::InProgressCap);
}

#[test]
fn a_cap_of_zero_does_not_wait_at_all() {
    let policy = RetryPolicy::builder()
        .in_progress_cap(Duration::ZERO)
        .build()
        .unwrap();
    for policy in [policy, RetryPolicy::never()] {
        assert_gives_up(
            &policy,
            &polled(&policy, 0),
            IN_PROGRESS,
            StoppedBy::InProgressCap,
        );
        let hinted = Situation {
            hint: Some(Duration::from_nanos(1)),
            ..polled(&policy, 0)
        };
        assert_gives_up(&policy, &hinted, IN_PROGRESS, StoppedBy::InProgressCap);
    }
}

#[test]
fn the_deadline_ends_the_polls() {
    let policy = RetryPolicy::standard();
    let at = |elapsed| Situation {
        elapsed,
        in_progress_since: Some(s(55)),
        ..polled(&policy, 0)
    };
    assert_waits(
        &policy,
        &at(ms(59_499)),
        IN_PROGRESS,
        ms(500),
        WaitReason::InProgress,
    );
    assert_gives_up(&policy, &at(ms(59_500)), IN_PROGRESS, StoppedBy::Deadline);
}
