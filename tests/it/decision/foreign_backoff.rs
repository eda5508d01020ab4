//! Values of the `backoff` crate as the policy's backoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backoff::backoff::{Backoff as _, Stop, Zero};
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use idempotency::Client;
use idempotency::retry::{
    Backoff, Decision, RetryPolicy, Situation, StoppedBy, WaitReason, decide,
};

use super::{IN_PROGRESS, RETRY, assert_gives_up, assert_waits, ms, s};
use crate::support::{ScriptedServer, Step};

/// 100 ms doubling to 300 ms, without jitter.
fn doubling() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(ms(100))
        .with_multiplier(2.0)
        .with_randomization_factor(0.0)
        .with_max_interval(ms(300))
        .with_max_elapsed_time(None)
        .build()
}

#[track_caller]
fn assert_delays(backoff: &Backoff, expected: &[Option<Duration>]) {
    let mut delays = backoff.delays();
    let waited: Vec<_> = (0..)
        .take(expected.len())
        .map(|retry| delays.next(retry, 0))
        .collect();
    assert_eq!(waited, expected);
}

#[test]
fn every_operation_begins_from_the_start() {
    let backoff = Backoff::from(doubling());
    let expected = [Some(ms(100)), Some(ms(200)), Some(ms(300)), Some(ms(300))];
    assert_delays(&backoff, &expected);
    assert_delays(&backoff, &expected);
    assert_delays(&backoff.clone(), &expected);
}

#[test]
fn a_value_that_was_used_before_is_reset() {
    let mut used = doubling();
    assert_eq!(used.next_backoff(), Some(ms(100)));
    assert_eq!(used.next_backoff(), Some(ms(200)));
    assert_delays(&Backoff::from(used), &[Some(ms(100)), Some(ms(200))]);
}

#[test]
fn two_operations_at_once_do_not_disturb_each_other() {
    let backoff = Backoff::from(doubling());
    let (mut one, mut other) = (backoff.delays(), backoff.delays());
    assert_eq!(one.next(0, 0), Some(ms(100)));
    assert_eq!(one.next(1, 0), Some(ms(200)));
    assert_eq!(other.next(0, 0), Some(ms(100)));
    assert_eq!(one.next(2, 0), Some(ms(300)));
}

/// A backoff of a stranger's: so many waits of a second, then none. It counts how often it is made and reset.
struct Countdown {
    full: u32,
    left: u32,
    resets: Arc<AtomicU32>,
}

impl backoff::backoff::Backoff for Countdown {
    fn next_backoff(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        Some(s(1))
    }

    fn reset(&mut self) {
        self.left = self.full;
        self.resets.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_custom_backoff_is_made_and_reset_once_for_each_operation() {
    let (made, resets) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let backoff = Backoff::from_factory({
        let (made, resets) = (Arc::clone(&made), Arc::clone(&resets));
        move || {
            made.fetch_add(1, Ordering::Relaxed);
            Countdown {
                full: 2,
                left: 0,
                resets: Arc::clone(&resets),
            }
        }
    });
    for operation in 1..=3 {
        assert_delays(&backoff, &[Some(s(1)), Some(s(1)), None, None]);
        assert_eq!(made.load(Ordering::Relaxed), operation);
        assert_eq!(resets.load(Ordering::Relaxed), operation);
    }
}

fn policy(backoff: impl Into<Backoff>) -> RetryPolicy {
    RetryPolicy::builder().backoff(backoff).build().unwrap()
}

fn after_one_attempt(policy: &RetryPolicy) -> Situation {
    Situation {
        attempts: 1,
        ..Situation::begin(policy)
    }
}

#[test]
fn none_from_it_gives_up() {
    let policy = policy(Backoff::from_factory(|| Stop {}));
    assert_gives_up(
        &policy,
        &after_one_attempt(&policy),
        RETRY,
        StoppedBy::Backoff,
    );
    // A server's hint does not revive it.
    let hinted = Situation {
        hint: Some(s(1)),
        ..after_one_attempt(&policy)
    };
    assert_gives_up(&policy, &hinted, RETRY, StoppedBy::Backoff);
}

#[test]
fn it_is_asked_once_for_each_retry_and_not_for_polls() {
    let policy = policy(doubling());
    let mut delays = policy.backoff().delays();
    let mut after = |attempts, assessment| {
        let situation = Situation {
            attempts,
            ..Situation::begin(&policy)
        };
        decide(&policy, &situation, assessment, &mut delays, || true)
    };
    let waits = |delay, why| Decision::Wait { delay, why };
    assert_eq!(after(1, RETRY), waits(ms(100), WaitReason::Backoff));
    assert_eq!(
        after(2, IN_PROGRESS),
        waits(ms(500), WaitReason::InProgress)
    );
    assert_eq!(after(2, RETRY), waits(ms(200), WaitReason::Backoff));
    assert_eq!(after(3, RETRY), waits(ms(300), WaitReason::Backoff));
    assert_eq!(after(4, RETRY), Decision::GiveUp(StoppedBy::Attempts));
}

#[test]
fn the_hint_and_the_deadline_bind_it_like_any_other() {
    let policy = policy(doubling());
    let hinted = |hint| Situation {
        hint: Some(hint),
        ..after_one_attempt(&policy)
    };
    assert_waits(
        &policy,
        &hinted(ms(99)),
        RETRY,
        ms(100),
        WaitReason::Backoff,
    );
    assert_waits(
        &policy,
        &hinted(ms(101)),
        RETRY,
        ms(101),
        WaitReason::ServerHint,
    );
    assert_gives_up(&policy, &hinted(s(60)), RETRY, StoppedBy::Deadline);
    let immediate = self::policy(Backoff::from_factory(|| Zero {}));
    assert_waits(
        &immediate,
        &after_one_attempt(&immediate),
        RETRY,
        Duration::ZERO,
        WaitReason::Backoff,
    );
}

#[test]
fn it_names_no_ceiling_and_shows_as_foreign() {
    let backoff = Backoff::from(doubling());
    assert_eq!(backoff.ceiling(0), None);
    assert_eq!(format!("{backoff:?}"), "Foreign");
    assert_eq!(format!("{:?}", backoff.delays()), "Delays(Foreign)");
}

/// The loop keeps the value from one retry to the next, and begins anew for every operation.
#[tokio::test(start_paused = true)]
async fn it_goes_on_from_retry_to_retry() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    let policy = RetryPolicy::builder()
        .backoff(Backoff::from(doubling()))
        .build()
        .unwrap();
    let client = Client::builder().policy(policy).build().unwrap();
    for _ in 0..2 {
        let operation = client.post(server.url("/orders")).body("x").idempotent();
        let error = operation.send().await.unwrap_err();
        let waits = error.attempts().iter().filter_map(|attempt| attempt.wait());
        let waits: Vec<_> = waits.map(|(wait, _)| wait).collect();
        assert_eq!(waits, [ms(100), ms(200), ms(300)]);
    }
}
