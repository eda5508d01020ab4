//! What earlier attempts of an operation have left behind.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::error::Effect;
use super::job::Job;
use super::trace;
use crate::retry::{Protection, Reach};

/// The memory of one operation, shared by every `send` of it: what may have been processed already.
///
/// It outlives a dropped `send`. Without it an operation that was given up in mid-flight would report its next answer as fresh.
#[derive(Debug, Default)]
pub(crate) struct Past {
    in_flight: AtomicU32,
    answered: AtomicBool,
    unknown: AtomicBool,
    first_sent: Mutex<Option<Instant>>,
    first_sent_wall: OnceLock<SystemTime>,
    /// When the key was first used, in another life of the operation.
    earlier: OnceLock<SystemTime>,
}

impl Past {
    /// The past of an operation that was sent before, by somebody who is not there to say how it ended.
    pub(crate) fn sent_before(&self, first: SystemTime) {
        self.unknown.store(true, Ordering::Release);
        self.earlier.get_or_init(|| first);
    }

    /// Takes note that an attempt sets out. Whatever happens to the returned value, the attempt is accounted for.
    #[inline]
    pub(crate) fn set_out<'a>(job: &'a Job<'a>, now: Instant) -> Flight<'a> {
        job.past.first_attempt().get_or_insert(now);
        job.past.in_flight.fetch_add(1, Ordering::AcqRel);
        Flight { job, landed: false }
    }

    /// Whether an attempt ended with nobody knowing whether it was processed.
    #[inline]
    pub(crate) fn is_unknown(&self) -> bool {
        self.unknown.load(Ordering::Acquire)
    }

    /// Whether any attempt so far may have been processed.
    #[inline]
    pub(crate) fn may_be_processed(&self) -> bool {
        self.is_unknown() || self.answered.load(Ordering::Acquire)
    }

    /// Whether no attempt so far, nor one under way, can have had an effect.
    pub(crate) fn is_clean(&self) -> bool {
        !self.may_be_processed() && self.in_flight.load(Ordering::Acquire) == 0
    }

    /// What is certain of the operation when there is no answer.
    pub(crate) fn effect(&self, protection: Protection) -> Effect {
        // A key that the caller brought may have been sent before, by somebody whose attempts we cannot see.
        if protection == Protection::GivenKey || !self.is_clean() {
            Effect::Unknown
        } else {
            Effect::NotExecuted
        }
    }

    #[inline]
    fn first_attempt(&self) -> MutexGuard<'_, Option<Instant>> {
        self.first_sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// When the first attempt set out, on the wall's clock. The same at every call.
    pub(crate) fn first_sent(&self) -> Option<SystemTime> {
        if let Some(earlier) = self.earlier.get() {
            return Some(*earlier);
        }
        let first = (*self.first_attempt())?;
        let wall = self.first_sent_wall.get_or_init(|| {
            let now = SystemTime::now();
            now.checked_sub(first.elapsed()).unwrap_or(now)
        });
        Some(*wall)
    }

    /// How old the key is: the time since its first use. The system's clock is asked only where the first use was in another
    /// life; a clock that went back makes the key as old as it can be told, never negative.
    #[inline]
    pub(crate) fn key_age(&self) -> Duration {
        match (self.earlier.get(), *self.first_attempt()) {
            (Some(first), _) => SystemTime::now().duration_since(*first).unwrap_or_default(),
            (None, Some(first)) => first.elapsed(),
            (None, None) => Duration::ZERO,
        }
    }
}

/// An attempt under way. Dropped without [`land`](Self::land) it counts as one of unknown outcome.
pub(crate) struct Flight<'a> {
    pub(crate) job: &'a Job<'a>,
    landed: bool,
}

impl Flight<'_> {
    /// Whether another attempt of the same operation ended unknown, or is under way at the same time.
    #[inline]
    pub(crate) fn unknown_before(&self) -> bool {
        self.job.past.is_unknown() || self.job.past.in_flight.load(Ordering::Acquire) > 1
    }

    /// Whether another attempt of the same operation may have been processed.
    #[inline]
    pub(crate) fn processed_before(&self) -> bool {
        self.unknown_before() || self.job.past.may_be_processed()
    }

    /// The attempt is over and got this far.
    #[inline]
    pub(crate) fn land(mut self, reach: Reach) {
        self.landed = true;
        match reach {
            Reach::NeverSent | Reach::NotProcessed => {}
            Reach::Answered => self.job.past.answered.store(true, Ordering::Release),
            Reach::MaybeProcessed => self.job.past.unknown.store(true, Ordering::Release),
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed {
            // When its future is dropped, nothing else enters the operation's span.
            let dropped = || trace::dropped(self.job.key());
            match &self.job.span {
                Some(span) => span.in_scope(dropped),
                None => dropped(),
            }
            self.job.past.unknown.store(true, Ordering::Release);
        }
        self.job.past.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
