//! The policy: how often, how long, how much.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::budget::RetryBudget;

/// How an operation is retried: attempts, timeouts, backoff, caps and budget. Checked once, when it is built; cheap to clone.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use idempotency::RetryPolicy;
///
/// let policy = RetryPolicy::builder()
///     .max_attempts(NonZeroU32::MIN.saturating_add(5))
///     .deadline(Duration::from_secs(20))
///     .build()?;
/// assert_eq!(policy.max_attempts().get(), 6);
/// # Ok::<(), idempotency::retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryPolicy(Arc<Settings>);

#[derive(Clone, Debug)]
struct Settings {
    max_attempts: NonZeroU32,
    connect_timeout: Duration,
    attempt_timeout: Duration,
    stall_timeout: Duration,
    deadline: Option<Duration>,
    backoff: Backoff,
    max_wait: Option<Duration>,
    in_progress_cap: Duration,
    poll_first: Duration,
    poll_max: Duration,
    budget: Option<RetryBudget>,
    request_buffer: usize,
    response_buffer: usize,
}

/// 2 MiB: what JSON APIs stay far below, and what a thousand operations in flight can hold in 2 GiB.
const DEFAULT_BUFFER: usize = 2 * 1024 * 1024;

impl RetryPolicy {
    /// The defaults, for applications: see the methods of [`RetryPolicyBuilder`] for each and its reason.
    #[must_use]
    pub fn standard() -> Self {
        Self(Arc::new(Settings::standard()))
    }

    /// One attempt, no waiting for an operation in progress: for callers that retry by themselves and want the key, the
    /// classification and the report. The timeouts stand as in [`standard`](Self::standard).
    #[must_use]
    pub fn never() -> Self {
        Self(Arc::new(Settings {
            max_attempts: NonZeroU32::MIN,
            in_progress_cap: Duration::ZERO,
            budget: None,
            ..Settings::standard()
        }))
    }

    /// `attempts` attempts without any wait or budget, polls within 2 s: for tests against a mock server. Zero counts as one.
    /// A server's `Retry-After` is obeyed all the same.
    #[must_use]
    pub fn immediate(attempts: u32) -> Self {
        Self(Arc::new(Settings {
            max_attempts: NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN),
            backoff: Backoff::constant(Duration::ZERO),
            in_progress_cap: Duration::from_secs(2),
            poll_first: Duration::from_millis(1),
            poll_max: Duration::from_millis(10),
            budget: None,
            ..Settings::standard()
        }))
    }

    /// Starts from the defaults.
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder(Settings::standard())
    }

    /// Starts from this policy. The budget stays shared with it unless another is set.
    pub fn to_builder(&self) -> RetryPolicyBuilder {
        RetryPolicyBuilder(Settings::clone(&self.0))
    }

    /// The highest number of attempts, the first included.
    #[must_use]
    pub fn max_attempts(&self) -> NonZeroU32 {
        self.0.max_attempts
    }

    /// The time to make a connection.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.0.connect_timeout
    }

    /// The time for one attempt, from its first poll to the end of its buffered answer.
    #[must_use]
    pub fn attempt_timeout(&self) -> Duration {
        self.0.attempt_timeout
    }

    /// The longest silence in an answer that is streamed.
    #[must_use]
    pub fn stall_timeout(&self) -> Duration {
        self.0.stall_timeout
    }

    /// The time for the whole operation. [`None`] is no limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline
    }

    /// The backoff between attempts.
    #[must_use]
    pub fn backoff(&self) -> &Backoff {
        &self.0.backoff
    }

    /// The longest wait that a server may ask for. [`None`]: whatever time is left.
    #[must_use]
    pub fn max_wait(&self) -> Option<Duration> {
        self.0.max_wait
    }

    /// The longest time to wait for an operation in progress, from the first such answer on.
    #[must_use]
    pub fn in_progress_cap(&self) -> Duration {
        self.0.in_progress_cap
    }

    /// The wait before a poll of an operation in progress where the server names none; 0 is the first.
    #[must_use]
    pub fn poll_delay(&self, poll: u32) -> Duration {
        Backoff::exponential(self.0.poll_first, self.0.poll_max)
            .ceiling(poll)
            .unwrap_or(self.0.poll_max)
    }

    /// The shared retry budget. [`None`]: no budget.
    #[must_use]
    pub fn budget(&self) -> Option<&RetryBudget> {
        self.0.budget.as_ref()
    }

    /// Up to how many bytes of a streamed request body are buffered so that it can be sent again.
    #[must_use]
    pub fn request_buffer(&self) -> usize {
        self.0.request_buffer
    }

    /// Up to how many bytes of an answer are read inside the attempt.
    #[must_use]
    pub fn response_buffer(&self) -> usize {
        self.0.response_buffer
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::standard()
    }
}

impl Settings {
    fn standard() -> Self {
        Self {
            max_attempts: NonZeroU32::MIN.saturating_add(3),
            connect_timeout: Duration::from_secs(3),
            attempt_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            deadline: Some(Duration::from_secs(60)),
            backoff: Backoff::default(),
            max_wait: None,
            in_progress_cap: Duration::from_secs(30),
            poll_first: Duration::from_millis(500),
            poll_max: Duration::from_secs(5),
            budget: Some(RetryBudget::default()),
            request_buffer: DEFAULT_BUFFER,
            response_buffer: DEFAULT_BUFFER,
        }
    }
}

/// Builds a [`RetryPolicy`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct RetryPolicyBuilder(Settings);

impl RetryPolicyBuilder {
    /// The highest number of attempts, the first included. Default: 4, which rides out a restart and a bad balancer without
    /// quadrupling what a dead server gets (the budget sees to the rest).
    pub fn max_attempts(mut self, attempts: NonZeroU32) -> Self {
        self.0.max_attempts = attempts;
        self
    }

    /// The time to make a connection, TLS included. Default: 3 s, one lost SYN and its repetition (RFC 6298: 1 s, then 2 s).
    /// It is a setting of the connection pool: the client takes it from its own policy, not from a request's.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.0.connect_timeout = timeout;
        self
    }

    /// The time for one attempt, answer included. Default: 10 s, so that a lost answer costs a sixth of the default deadline.
    /// It is cut to what the deadline leaves.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.0.attempt_timeout = timeout;
        self
    }

    /// The longest silence in an answer that is streamed, or in the rest of one past the response buffer. Default: 30 s; a
    /// live stream may pause, a dead one must not hang for ever.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.0.stall_timeout = timeout;
        self
    }

    /// The time for the whole operation, waits included. Default: 60 s, below the shortest window in which servers are known to
    /// remember a key (5 minutes).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.0.deadline = Some(deadline);
        self
    }

    /// No deadline. Attempts, caps and the key's window still end the operation.
    pub fn no_deadline(mut self) -> Self {
        self.0.deadline = None;
        self
    }

    /// The backoff between attempts. Default: [`Backoff::default`].
    pub fn backoff(mut self, backoff: impl Into<Backoff>) -> Self {
        self.0.backoff = backoff.into();
        self
    }

    /// The longest wait that a server may ask for; above it the operation ends at once and hands the hint to the caller.
    /// Default: whatever time the deadline leaves.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.0.max_wait = Some(wait);
        self
    }

    /// The longest time to wait for an operation in progress, from the first such answer on. Default: 30 s, three times the
    /// default attempt timeout: what runs longer is a job, not a request. Zero does not wait.
    pub fn in_progress_cap(mut self, cap: Duration) -> Self {
        self.0.in_progress_cap = cap;
        self
    }

    /// How often to ask after an operation in progress where the server gives no hint: first after `first`, then doubling up
    /// to `max`. Default: 500 ms to 5 s.
    pub fn in_progress_polling(mut self, first: Duration, max: Duration) -> Self {
        self.0.poll_first = first;
        self.0.poll_max = max;
        self
    }

    /// The shared retry budget. Default: [`RetryBudget::default`], new for each [`RetryPolicy::builder`].
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.0.budget = Some(budget);
        self
    }

    /// No budget: an outage may multiply the load by [`max_attempts`](Self::max_attempts).
    pub fn no_budget(mut self) -> Self {
        self.0.budget = None;
        self
    }

    /// Up to how many bytes of a streamed request body are buffered so that it can be sent again. Default: 2 MiB. A larger body
    /// is sent once, and the attempt list says so.
    pub fn request_buffer(mut self, bytes: usize) -> Self {
        self.0.request_buffer = bytes;
        self
    }

    /// Up to how many bytes of an answer are read inside the attempt. Default: 2 MiB. Past that the rest is streamed behind the
    /// stall timeout, and the response says so. Of an error the first 64 KiB are read in any case: they say what it means.
    pub fn response_buffer(mut self, bytes: usize) -> Self {
        self.0.response_buffer = bytes;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`PolicyError`], which names the setting and its value: a timeout, deadline or polling interval of zero, or an interval
    /// that begins above its own cap.
    pub fn build(self) -> Result<RetryPolicy, PolicyError> {
        let settings = &self.0;
        not_zero("connect_timeout", settings.connect_timeout)?;
        not_zero("attempt_timeout", settings.attempt_timeout)?;
        not_zero("stall_timeout", settings.stall_timeout)?;
        if let Some(deadline) = settings.deadline {
            not_zero("deadline", deadline)?;
        }
        not_zero("in_progress.first", settings.poll_first)?;
        ordered(
            "in_progress.first",
            settings.poll_first,
            "in_progress.max",
            settings.poll_max,
        )?;
        if let Some((base, cap)) = settings.backoff.exponential_bounds() {
            ordered("backoff.base", base, "backoff.cap", cap)?;
        }
        Ok(RetryPolicy(Arc::new(self.0)))
    }
}

fn not_zero(setting: &'static str, value: Duration) -> Result<(), PolicyError> {
    if value.is_zero() {
        return Err(PolicyError::Zero { setting });
    }
    Ok(())
}

fn ordered(
    low: &'static str,
    low_value: Duration,
    high: &'static str,
    high_value: Duration,
) -> Result<(), PolicyError> {
    if low_value > high_value {
        return Err(PolicyError::Disordered {
            low,
            low_value,
            high,
            high_value,
        });
    }
    Ok(())
}

/// Why a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A duration that must not be zero is.
    #[error("`{setting}` is 0s: give it a duration above zero")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A range begins above its end.
    #[error(
        "`{low}` is {low_value:?}, above `{high}`, which is {high_value:?}: lower the one or raise the other"
    )]
    Disordered {
        /// The setting that should be lower.
        low: &'static str,
        /// Its value.
        low_value: Duration,
        /// The setting that should be higher.
        high: &'static str,
        /// Its value.
        high_value: Duration,
    },
    /// A number that must not be zero is.
    #[error("`{setting}` is 0: the first attempt counts, so the least is 1")]
    NoAttempts {
        /// The setting.
        setting: &'static str,
    },
    /// A text is no duration.
    #[error(
        "`{setting}` is {text:?}, which is no duration: write it like \"250ms\", \"3s\" or \"1m 30s\""
    )]
    NotADuration {
        /// The setting.
        setting: &'static str,
        /// The text.
        text: String,
    },
}
