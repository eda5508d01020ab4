//! From the verdict, the history and the time: finish, wait, or give up.

use std::time::Duration;

use super::backoff::Delays;
use super::policy::RetryPolicy;
use super::reason::{StoppedBy, WaitReason};
use super::verdict::{Assessment, Verdict};

/// Where an operation stands when an attempt has just ended.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Attempts made so far, the one that just ended included; polls of an operation in progress do not count.
    pub attempts: u32,
    /// Polls made so far.
    pub polls: u32,
    /// Time since the operation began.
    pub elapsed: Duration,
    /// Time from the operation's begin to its first "in progress" answer.
    pub in_progress_since: Option<Duration>,
    /// The deadline, counted from the operation's begin. [`None`] is none.
    pub deadline: Option<Duration>,
    /// How old the key was when this operation began: the time since its first use.
    pub key_age: Duration,
    /// How long the server remembers a key. [`None`] is for ever, or that there is no key.
    pub key_window: Option<Duration>,
    /// Whether the body can be sent again.
    pub repeatable: bool,
    /// The wait that the server asked for.
    pub hint: Option<Duration>,
    /// A uniformly random number, for jitter.
    pub roll: u64,
}

/// What the loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Hand the answer to the caller: it is the operation's.
    Finish,
    /// Wait, then send again.
    Wait {
        /// For how long.
        delay: Duration,
        /// Who asked for it.
        why: WaitReason,
    },
    /// Stop.
    GiveUp(StoppedBy),
}

/// Decides what follows an attempt.
///
/// `delays` is the operation's own backoff sequence; `budget` is asked last, and only when everything else allows the retry,
/// so that a retry which is not made costs nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::StatusCode;
/// use idempotency::retry::{assess, decide, Answer, Decision, Outcome, Protection, RetryPolicy, Situation, StoppedBy};
///
/// let policy = RetryPolicy::standard();
/// let lost = assess(Protection::DrawnKey, Outcome::Answer(Answer::plain(StatusCode::BAD_GATEWAY)), false);
/// let mut situation = Situation::begin(&policy);
/// situation.attempts = 1;
/// situation.hint = Some(Duration::from_secs(2));
/// let mut delays = policy.backoff().delays();
/// let next = decide(&policy, &situation, lost, &mut delays, || true);
/// assert!(matches!(next, Decision::Wait { delay, .. } if delay == Duration::from_secs(2)));
///
/// situation.hint = Some(Duration::from_secs(3600));
/// assert_eq!(
///     decide(&policy, &situation, lost, &mut delays, || true),
///     Decision::GiveUp(StoppedBy::Deadline),
/// );
/// ```
pub fn decide(
    policy: &RetryPolicy,
    situation: &Situation,
    assessment: Assessment,
    delays: &mut Delays,
    budget: impl FnOnce() -> bool,
) -> Decision {
    match assessment.verdict {
        Verdict::Done => Decision::Finish,
        Verdict::Never { because, .. } => Decision::GiveUp(because),
        Verdict::InProgress => poll(policy, situation),
        Verdict::Retry { .. } => retry(policy, situation, delays, budget),
    }
}

impl Situation {
    /// An operation that has just begun under a policy, with a body that can be sent again and a key that never expires.
    #[must_use]
    pub fn begin(policy: &RetryPolicy) -> Self {
        Self {
            attempts: 0,
            polls: 0,
            elapsed: Duration::ZERO,
            in_progress_since: None,
            deadline: policy.deadline(),
            key_age: Duration::ZERO,
            key_window: None,
            repeatable: true,
            hint: None,
            roll: 0,
        }
    }

    /// Which limit of time a wait would run into, if any.
    fn too_late(&self, delay: Duration) -> Option<StoppedBy> {
        let then = self.elapsed.saturating_add(delay);
        if self.deadline.is_some_and(|deadline| then >= deadline) {
            return Some(StoppedBy::Deadline);
        }
        let age = self.key_age.saturating_add(then);
        self.key_window
            .is_some_and(|window| age >= window)
            .then_some(StoppedBy::KeyWindow)
    }
}

fn retry(
    policy: &RetryPolicy,
    situation: &Situation,
    delays: &mut Delays,
    budget: impl FnOnce() -> bool,
) -> Decision {
    if situation.attempts >= policy.max_attempts().get() {
        return Decision::GiveUp(StoppedBy::Attempts);
    }
    if !situation.repeatable {
        return Decision::GiveUp(StoppedBy::BodyNotRepeatable);
    }
    if exceeds_cap(policy, situation.hint) {
        return Decision::GiveUp(StoppedBy::WaitTooLong);
    }
    let retries = situation.attempts.saturating_sub(1);
    let Some(own) = delays.next(retries, situation.roll) else {
        return Decision::GiveUp(StoppedBy::Backoff);
    };
    let (delay, why) = match situation.hint {
        // The hint is a floor. A hint of zero, or of a moment that has passed, leaves the backoff in force.
        Some(hint) if hint > own => (hint, WaitReason::ServerHint),
        _ => (own, WaitReason::Backoff),
    };
    if let Some(limit) = situation.too_late(delay) {
        return Decision::GiveUp(limit);
    }
    if !budget() {
        return Decision::GiveUp(StoppedBy::Budget);
    }
    Decision::Wait { delay, why }
}

fn poll(policy: &RetryPolicy, situation: &Situation) -> Decision {
    if !situation.repeatable {
        return Decision::GiveUp(StoppedBy::BodyNotRepeatable);
    }
    if exceeds_cap(policy, situation.hint) {
        return Decision::GiveUp(StoppedBy::WaitTooLong);
    }
    let (delay, why) = match situation.hint {
        Some(hint) if !hint.is_zero() => (hint, WaitReason::InProgressHint),
        _ => (policy.poll_delay(situation.polls), WaitReason::InProgress),
    };
    let since = situation.in_progress_since.unwrap_or(situation.elapsed);
    let waited = situation.elapsed.saturating_sub(since);
    if waited.saturating_add(delay) > policy.in_progress_cap() {
        return Decision::GiveUp(StoppedBy::InProgressCap);
    }
    match situation.too_late(delay) {
        Some(limit) => Decision::GiveUp(limit),
        None => Decision::Wait { delay, why },
    }
}

fn exceeds_cap(policy: &RetryPolicy, hint: Option<Duration>) -> bool {
    match (hint, policy.max_wait()) {
        (Some(hint), Some(cap)) => hint > cap,
        _ => false,
    }
}
