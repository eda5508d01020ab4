//! The policy as it stands in a configuration file.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backoff::Backoff;
use super::budget::RetryBudget;
use super::policy::{PolicyError, RetryPolicy};

/// A [`RetryPolicy`] for configuration files: every setting optional, durations as a person writes them (`"250ms"`, `"1m 30s"`).
///
/// What is left out stays as in [`RetryPolicy::standard`]. An unknown setting is an error of the parser, so that a misspelt
/// `deadline` does not go unnoticed.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use idempotency::retry::RetryConfig;
///
/// let config: RetryConfig = serde_json::from_str(
///     r#"{
///         "max_attempts": 6,
///         "deadline": "2m",
///         "backoff": { "exponential": { "base": "250ms", "cap": "10s" } },
///         "budget": { "extra_load_percent": 10, "retries_per_second": 5 }
///     }"#,
/// )?;
/// let policy = config.build()?;
/// assert_eq!(policy.deadline(), Some(Duration::from_secs(120)));
/// assert_eq!(policy.attempt_timeout(), Duration::from_secs(10));
///
/// let wrong: RetryConfig = serde_json::from_str(r#"{ "deadline": "soon" }"#)?;
/// assert_eq!(
///     wrong.build().unwrap_err().to_string(),
///     r#"`deadline` is "soon", which is no duration: write it like "250ms", "3s" or "1m 30s""#,
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RetryConfig {
    /// See [`RetryPolicyBuilder::max_attempts`](super::RetryPolicyBuilder::max_attempts). Zero is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// See [`RetryPolicyBuilder::connect_timeout`](super::RetryPolicyBuilder::connect_timeout).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<String>,
    /// See [`RetryPolicyBuilder::attempt_timeout`](super::RetryPolicyBuilder::attempt_timeout).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<String>,
    /// See [`RetryPolicyBuilder::stall_timeout`](super::RetryPolicyBuilder::stall_timeout).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_timeout: Option<String>,
    /// See [`RetryPolicyBuilder::deadline`](super::RetryPolicyBuilder::deadline). `"none"` is no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// See [`RetryPolicyBuilder::backoff`](super::RetryPolicyBuilder::backoff).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffConfig>,
    /// See [`RetryPolicyBuilder::max_wait`](super::RetryPolicyBuilder::max_wait).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<String>,
    /// See [`RetryPolicyBuilder::in_progress_cap`](super::RetryPolicyBuilder::in_progress_cap).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<InProgressConfig>,
    /// See [`RetryPolicyBuilder::budget`](super::RetryPolicyBuilder::budget).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetConfig>,
    /// In bytes. See [`RetryPolicyBuilder::request_buffer`](super::RetryPolicyBuilder::request_buffer).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_buffer: Option<usize>,
    /// In bytes. See [`RetryPolicyBuilder::response_buffer`](super::RetryPolicyBuilder::response_buffer).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_buffer: Option<usize>,
}

/// The backoff in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum BackoffConfig {
    /// Doubling with full jitter. See [`Backoff::exponential`].
    Exponential {
        /// The ceiling of the first wait.
        base: String,
        /// The ceiling of every later one.
        cap: String,
    },
    /// The same wait every time. See [`Backoff::constant`].
    Constant(String),
}

/// The waiting for an operation in progress in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct InProgressConfig {
    /// The longest time to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// The wait before the first poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The longest wait between two polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// The retry budget in a configuration file. What is left out stays as in [`RetryBudget::default`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BudgetConfig {
    /// See [`RetryBudget::new`].
    pub extra_load_percent: u32,
    /// See [`RetryBudget::new`].
    pub retries_per_second: u32,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        let standard = RetryBudget::default();
        Self {
            extra_load_percent: standard.extra_load_percent(),
            retries_per_second: standard.retries_per_second(),
        }
    }
}

impl RetryConfig {
    /// The policy that the settings describe, with a retry budget of its own.
    ///
    /// # Errors
    ///
    /// [`PolicyError`], which names the setting and its value.
    pub fn build(&self) -> Result<RetryPolicy, PolicyError> {
        let mut policy = RetryPolicy::builder();
        if let Some(attempts) = self.max_attempts {
            policy =
                policy.max_attempts(NonZeroU32::new(attempts).ok_or(PolicyError::NoAttempts {
                    setting: "max_attempts",
                })?);
        }
        if let Some(text) = &self.connect_timeout {
            policy = policy.connect_timeout(duration("connect_timeout", text)?);
        }
        if let Some(text) = &self.attempt_timeout {
            policy = policy.attempt_timeout(duration("attempt_timeout", text)?);
        }
        if let Some(text) = &self.stall_timeout {
            policy = policy.stall_timeout(duration("stall_timeout", text)?);
        }
        policy = match self.deadline.as_deref() {
            None => policy,
            Some("none") => policy.no_deadline(),
            Some(text) => policy.deadline(duration("deadline", text)?),
        };
        if let Some(backoff) = &self.backoff {
            policy = policy.backoff(backoff.build()?);
        }
        if let Some(text) = &self.max_wait {
            policy = policy.max_wait(duration("max_wait", text)?);
        }
        if let Some(in_progress) = &self.in_progress {
            let standard = RetryPolicy::standard();
            policy = policy
                .in_progress_cap(duration_or(
                    "in_progress.cap",
                    in_progress.cap.as_deref(),
                    standard.in_progress_cap(),
                )?)
                .in_progress_polling(
                    duration_or(
                        "in_progress.first",
                        in_progress.first.as_deref(),
                        standard.poll_delay(0),
                    )?,
                    duration_or(
                        "in_progress.max",
                        in_progress.max.as_deref(),
                        standard.poll_delay(u32::MAX),
                    )?,
                );
        }
        if let Some(budget) = &self.budget {
            policy = policy.budget(RetryBudget::new(
                budget.extra_load_percent,
                budget.retries_per_second,
            ));
        }
        if let Some(bytes) = self.request_buffer {
            policy = policy.request_buffer(bytes);
        }
        if let Some(bytes) = self.response_buffer {
            policy = policy.response_buffer(bytes);
        }
        policy.build()
    }
}

impl TryFrom<RetryConfig> for RetryPolicy {
    type Error = PolicyError;

    fn try_from(config: RetryConfig) -> Result<Self, PolicyError> {
        config.build()
    }
}

impl BackoffConfig {
    fn build(&self) -> Result<Backoff, PolicyError> {
        Ok(match self {
            Self::Exponential { base, cap } => Backoff::exponential(
                duration("backoff.base", base)?,
                duration("backoff.cap", cap)?,
            ),
            Self::Constant(delay) => Backoff::constant(duration("backoff.constant", delay)?),
        })
    }
}

fn duration_or(
    setting: &'static str,
    text: Option<&str>,
    default: Duration,
) -> Result<Duration, PolicyError> {
    text.map_or(Ok(default), |text| duration(setting, text))
}

fn duration(setting: &'static str, text: &str) -> Result<Duration, PolicyError> {
    humantime::parse_duration(text).map_err(|_| PolicyError::NotADuration {
        setting,
        text: text.to_owned(),
    })
}
