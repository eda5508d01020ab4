//! Whole operations, simulated: random outcomes under random policies, with time that passes as the decision says.

use std::num::NonZeroU32;
use std::time::Duration;

use idempotency::contract::{Meaning, Replay};
use idempotency::retry::{
    Answer, Backoff, Decision, Failure, Outcome, Protection, Reach, RetryPolicy, Situation,
    StoppedBy, WaitReason, assess, decide,
};
use proptest::prelude::*;

use super::{PROTECTIONS, ms, plain};

/// One exchange: what came of it, how long it took, and what the server asked for.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    outcome: Outcome,
    took: Duration,
    hint: Option<Duration>,
}

/// What was seen of one operation.
#[derive(Debug, Default)]
struct Seen {
    attempts: u32,
    polls: u32,
    waited: Duration,
    /// Reaches of the exchanges before the last.
    repeated_after: Vec<Reach>,
    end: Option<StoppedBy>,
}

/// Runs the loop until the decision ends it. The exchanges are repeated for ever.
fn simulate(policy: &RetryPolicy, protection: Protection, exchanges: &[Exchange]) -> Seen {
    let mut situation = Situation::begin(policy);
    let mut delays = policy.backoff().delays();
    let mut seen = Seen::default();
    let mut unknown_before = false;
    let mut is_poll = false;
    for exchange in exchanges.iter().cycle() {
        if is_poll {
            situation.polls += 1;
        } else {
            situation.attempts += 1;
        }
        situation.elapsed += exchange.took;
        situation.hint = exchange.hint;
        situation.roll = situation
            .roll
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let assessment = assess(protection, exchange.outcome, unknown_before);
        unknown_before |= assessment.reach == Reach::MaybeProcessed;
        let decision = decide(policy, &situation, assessment, &mut delays, || true);
        (seen.attempts, seen.polls) = (situation.attempts, situation.polls);
        match decision {
            Decision::Finish => return seen,
            Decision::GiveUp(limit) => {
                seen.end = Some(limit);
                return seen;
            }
            Decision::Wait { delay, why } => {
                is_poll = matches!(why, WaitReason::InProgress | WaitReason::InProgressHint);
                if is_poll {
                    situation.in_progress_since.get_or_insert(situation.elapsed);
                }
                situation.elapsed += delay;
                seen.waited = situation.elapsed;
                seen.repeated_after.push(assessment.reach);
            }
        }
    }
    unreachable!("the exchanges are repeated for ever")
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let failures = [
        Failure::Resolve,
        Failure::Connect,
        Failure::Certificate,
        Failure::StreamRefused,
        Failure::GoAway,
        Failure::Timeout,
        Failure::Reset,
        Failure::Truncated,
        Failure::Other,
    ];
    let meanings = [
        Meaning::Plain,
        Meaning::InProgress,
        Meaning::Mismatch,
        Meaning::NotExecuted,
    ];
    let markers = [
        Replay::Unknown,
        Replay::Unknown,
        Replay::Fresh,
        Replay::Replayed,
    ];
    let statuses = [
        200, 303, 401, 408, 409, 417, 422, 425, 429, 500, 501, 503, 599,
    ];
    let answers = (
        prop::sample::select(statuses.to_vec()),
        prop::sample::select(meanings.to_vec()),
        prop::sample::select(markers.to_vec()),
        prop::option::weighted(0.2, any::<bool>()),
        any::<(bool, bool)>(),
    );
    prop_oneof![
        (prop::sample::select(failures.to_vec()), any::<bool>())
            .prop_map(|(failure, direct)| Outcome::Failure { failure, direct }),
        answers.prop_map(
            |(status, meaning, marker, should_retry, (expected_continue, direct))| {
                Outcome::Answer(Answer {
                    meaning,
                    marker,
                    should_retry,
                    expected_continue,
                    direct,
                    ..plain(status)
                })
            }
        ),
    ]
}

/// Outcomes that keep a loop going, for ever if it is let.
fn lasting_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Answer(plain(503))),
        Just(Outcome::Answer(plain(409))),
        Just(Outcome::Answer(Answer {
            meaning: Meaning::InProgress,
            ..plain(409)
        })),
        Just(Outcome::Failure {
            failure: Failure::Reset,
            direct: true
        }),
    ]
}

fn exchange(outcome: impl Strategy<Value = Outcome>) -> impl Strategy<Value = Exchange> {
    let hint = prop::option::weighted(0.3, (0_u64..5_000).prop_map(ms));
    (outcome, (0_u64..3_000).prop_map(ms), hint).prop_map(|(outcome, took, hint)| Exchange {
        outcome,
        took,
        hint,
    })
}

fn exchanges(outcome: impl Strategy<Value = Outcome>) -> impl Strategy<Value = Vec<Exchange>> {
    prop::collection::vec(exchange(outcome), 1..8)
}

prop_compose! {
    fn any_policy()(
        attempts in 1_u32..12,
        deadline in prop::option::of(1_u64..30_000),
        base in 0_u64..500,
        cap in 500_u64..5_000,
        in_progress in 0_u64..10_000,
        first_poll in 1_u64..500,
    ) -> RetryPolicy {
        let builder = RetryPolicy::builder()
            .max_attempts(NonZeroU32::new(attempts).unwrap())
            .backoff(Backoff::exponential(ms(base), ms(cap)))
            .in_progress_cap(ms(in_progress))
            .in_progress_polling(ms(first_poll), ms(500));
        let builder = match deadline {
            Some(deadline) => builder.deadline(ms(deadline)),
            None => builder.no_deadline(),
        };
        builder.build().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn attempts_never_exceed_the_maximum_and_no_wait_ends_past_the_deadline(
        policy in any_policy(),
        protection in prop::sample::select(&PROTECTIONS[..]),
        exchanges in exchanges(any_outcome()),
    ) {
        let seen = simulate(&policy, protection, &exchanges);
        prop_assert!(seen.attempts <= policy.max_attempts().get(), "{seen:?}");
        if let Some(deadline) = policy.deadline() {
            prop_assert!(seen.waited < deadline, "{seen:?}");
        }
        if protection == Protection::None {
            prop_assert!(seen.repeated_after.iter().all(|reach| reach.proves_no_effect()), "{seen:?}");
        }
        if !protection.is_keyed() {
            prop_assert_eq!(seen.polls, 0);
        }
    }

    #[test]
    fn an_operation_without_a_deadline_ends_all_the_same(
        policy in any_policy(),
        exchanges in exchanges(lasting_outcome()),
    ) {
        let policy = policy.to_builder().no_deadline().build().unwrap();
        let seen = simulate(&policy, Protection::DrawnKey, &exchanges);
        let ended_by = [StoppedBy::Attempts, StoppedBy::InProgressCap];
        prop_assert!(seen.end.is_some_and(|limit| ended_by.contains(&limit)), "{seen:?}");
        // Polls are at least a millisecond apart.
        prop_assert!(u128::from(seen.polls) <= policy.in_progress_cap().as_millis(), "{seen:?}");
    }
}

/// B69, by a whole operation.
#[test]
fn a_server_that_is_down_is_tried_exactly_as_often_as_the_policy_says() {
    let down = Exchange {
        outcome: Outcome::Answer(plain(503)),
        took: ms(1),
        hint: None,
    };
    for attempts in [1, 3, 100] {
        let seen = simulate(
            &RetryPolicy::immediate(attempts),
            Protection::DrawnKey,
            &[down],
        );
        assert_eq!((seen.attempts, seen.polls), (attempts, 0));
        assert_eq!(seen.end, Some(StoppedBy::Attempts));
    }
}

/// B39: a lost answer, two refusals while it runs, then its answer; all within two attempts.
#[test]
fn waiting_for_a_lost_operation_costs_no_attempts() {
    let lost = Outcome::Failure {
        failure: Failure::Timeout,
        direct: true,
    };
    let exchanges = [
        lost,
        Outcome::Answer(plain(409)),
        Outcome::Answer(plain(409)),
        Outcome::Answer(plain(201)),
    ];
    let exchanges = exchanges.map(|outcome| Exchange {
        outcome,
        took: ms(1),
        hint: None,
    });
    let seen = simulate(&RetryPolicy::immediate(2), Protection::DrawnKey, &exchanges);
    assert_eq!((seen.attempts, seen.polls, seen.end), (2, 2, None));
}
