//! The server's wait is a floor under our own, and never cut short.

use std::time::Duration;

use idempotency::retry::{Backoff, RetryPolicy, Situation, StoppedBy, WaitReason};

use super::{IN_PROGRESS, RETRY, assert_gives_up, assert_waits, ms, s};

fn hinted(policy: &RetryPolicy, hint: Duration) -> Situation {
    Situation {
        attempts: 1,
        hint: Some(hint),
        ..Situation::begin(policy)
    }
}

fn constant(delay: Duration) -> RetryPolicy {
    RetryPolicy::builder()
        .backoff(Backoff::constant(delay))
        .build()
        .unwrap()
}

/// B46, B54: a longer hint is obeyed, a shorter one does not shorten the backoff.
#[test]
fn the_longer_of_hint_and_backoff_is_waited() {
    let policy = constant(s(1));
    for (hint, delay, why) in [
        (Duration::ZERO, s(1), WaitReason::Backoff),
        (Duration::from_nanos(1), s(1), WaitReason::Backoff),
        (s(1), s(1), WaitReason::Backoff),
        (
            s(1) + Duration::from_nanos(1),
            s(1) + Duration::from_nanos(1),
            WaitReason::ServerHint,
        ),
        (ms(59_999), ms(59_999), WaitReason::ServerHint),
    ] {
        assert_waits(&policy, &hinted(&policy, hint), RETRY, delay, why);
    }
}

#[test]
fn a_zero_hint_leaves_the_jittered_backoff_in_force() {
    let policy = RetryPolicy::standard();
    let situation = Situation {
        attempts: 3,
        roll: u64::MAX,
        ..hinted(&policy, Duration::ZERO)
    };
    assert_waits(&policy, &situation, RETRY, ms(400), WaitReason::Backoff);
}

#[test]
fn a_hint_is_a_floor_under_no_backoff_as_well() {
    let policy = RetryPolicy::immediate(3);
    assert_waits(
        &policy,
        &hinted(&policy, s(2)),
        RETRY,
        s(2),
        WaitReason::ServerHint,
    );
    assert_waits(
        &policy,
        &hinted(&policy, Duration::ZERO),
        RETRY,
        Duration::ZERO,
        WaitReason::Backoff,
    );
}

/// B53: not waited for in part, and not followed by an early retry.
#[test]
fn a_hint_past_the_deadline_stops_at_once() {
    let policy = constant(ms(100));
    for hint in [s(60), s(3600), Duration::MAX] {
        assert_gives_up(&policy, &hinted(&policy, hint), RETRY, StoppedBy::Deadline);
    }
    let late = Situation {
        elapsed: s(50),
        ..hinted(&policy, s(10))
    };
    assert_gives_up(&policy, &late, RETRY, StoppedBy::Deadline);
}

#[test]
fn a_hint_above_the_longest_wait_stops_at_once() {
    let policy = constant(ms(100))
        .to_builder()
        .max_wait(s(5))
        .build()
        .unwrap();
    for assessment in [RETRY, IN_PROGRESS] {
        for hint in [s(5) + Duration::from_nanos(1), s(3600), Duration::MAX] {
            assert_gives_up(
                &policy,
                &hinted(&policy, hint),
                assessment,
                StoppedBy::WaitTooLong,
            );
        }
    }
    assert_waits(
        &policy,
        &hinted(&policy, s(5)),
        RETRY,
        s(5),
        WaitReason::ServerHint,
    );
    assert_waits(
        &policy,
        &hinted(&policy, s(5)),
        IN_PROGRESS,
        s(5),
        WaitReason::InProgressHint,
    );
}

#[test]
fn the_longest_wait_binds_the_server_and_not_the_backoff() {
    let policy = constant(s(7)).to_builder().max_wait(s(5)).build().unwrap();
    assert_waits(
        &policy,
        &hinted(&policy, s(5)),
        RETRY,
        s(7),
        WaitReason::Backoff,
    );
}

#[test]
fn without_a_deadline_any_hint_is_waited_for() {
    let policy = constant(ms(100))
        .to_builder()
        .no_deadline()
        .build()
        .unwrap();
    let day = s(86_400);
    assert_waits(
        &policy,
        &hinted(&policy, day),
        RETRY,
        day,
        WaitReason::ServerHint,
    );
    let forgotten = Situation {
        key_window: Some(day),
        ..hinted(&policy, day)
    };
    assert_gives_up(&policy, &forgotten, RETRY, StoppedBy::KeyWindow);
}
