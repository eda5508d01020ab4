//! An operation as the loop sees it, and what follows from its settings alone.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::Request;
use tokio::time::Instant;
use tracing::Span;

use super::engine::Engine;
use super::error::Effect;
use super::frozen::Frozen;
use super::operation::Overrides;
use super::past::Past;
use super::settle::KeyInUse;
use crate::contract::{Contract, IdempotencyKey};
use crate::retry::{Protection, RetryPolicy};

/// An operation as the loop sees it.
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) frozen: &'a Frozen,
    pub(crate) key: Option<&'a KeyInUse>,
    pub(crate) overrides: &'a Overrides,
    pub(crate) past: &'a Past,
    pub(crate) protection: Protection,
    /// When the operation began: now, or earlier where a middleware before ours calls a second time.
    pub(crate) began: Instant,
    /// Boxed, for most applications trace no operations.
    pub(crate) span: Option<Box<Span>>,
}

impl<'a> Job<'a> {
    #[inline]
    pub(crate) fn key(&self) -> Option<&'a IdempotencyKey> {
        self.key.map(|key| &key.key)
    }

    #[inline]
    pub(crate) fn contract(&self) -> &'a Contract {
        let own = self.overrides.contract.as_ref();
        own.unwrap_or(&self.engine.contract)
    }

    #[inline]
    pub(crate) fn policy(&self) -> &'a RetryPolicy {
        let own = self.overrides.policy.as_ref();
        own.unwrap_or(&self.engine.policy)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.overrides.deadline.or(self.policy().deadline())
    }

    /// What is certain when there is no answer.
    pub(crate) fn effect(&self) -> Effect {
        self.past.effect(self.protection)
    }

    pub(crate) fn deadline_at(&self) -> Option<Instant> {
        self.began.checked_add(self.deadline()?)
    }

    /// When the next attempt has to be over.
    #[inline]
    pub(crate) fn attempt_ends(&self, began: Instant) -> Option<Instant> {
        let own = self.policy().attempt_timeout();
        if began == self.began {
            return began.checked_add(self.deadline().map_or(own, |deadline| own.min(deadline)));
        }
        match (began.checked_add(own), self.deadline_at()) {
            (Some(own), Some(deadline)) => Some(own.min(deadline)),
            (own, deadline) => own.or(deadline),
        }
    }

    #[inline]
    pub(crate) fn key_window(&self) -> Option<Duration> {
        self.key.and_then(|_| self.contract().window().bound())
    }

    /// Up to how much of a streamed body is kept. Without protection there is no second attempt to keep it for.
    pub(crate) fn body_limit(&self) -> Option<usize> {
        (self.protection != Protection::None).then(|| self.policy().request_buffer())
    }

    /// Adds the headers that go along with the key, which begin with the first attempt.
    #[inline]
    pub(crate) fn accompany(&self, request: &mut Request) {
        let contract = self.contract();
        if self.key.is_some()
            && contract.companions().next().is_some()
            && let Some(first_sent) = self.past.first_sent()
        {
            for (name, value) in contract.companion_headers(first_sent) {
                request.headers_mut().entry(name).or_insert(value);
            }
        }
    }
}

/// The time since a moment before this process first asked. Budgets are shared between clients, so they count from one moment.
pub(crate) fn since_epoch(now: Instant) -> Duration {
    /// Runtimes with a paused clock, as in tests, each have a time of their own. One that lags behind the first must not stand
    /// still: its budgets would never fill again.
    const HEAD_START: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let epoch = *EPOCH.get_or_init(|| now.checked_sub(HEAD_START).unwrap_or(now));
    now.saturating_duration_since(epoch)
}
