//! Where an operation may be redirected to.
//!
//! A followed redirect sends the operation, or a GET in its place, somewhere else. For an operation that must not happen twice
//! that is only right where the method stays and the origin does: 307 and 308 to the same origin (RFC 9110, sections 15.4.8
//! and 15.4.9). Everything else is handed to the caller. It keeps the key at home, too.

use std::cell::Cell;
use std::sync::Arc;

use reqwest::redirect::{Attempt, Policy};

use super::past::Past;
use super::ticket::Passage;
use crate::retry::Failure;

/// How many redirects of one attempt are followed, as in reqwest.
const MAX_HOPS: usize = 10;

thread_local! {
    /// reqwest tells its redirect policy no method, so the loop leaves it here while it polls an attempt.
    static HOPS: Cell<Option<Hops>> = const { Cell::new(None) };
}

/// What the redirect policy has to know of an attempt, and what it leaves behind.
#[derive(Default)]
pub(crate) struct Hops {
    /// Whether the method is safe (RFC 9110, section 9.2.1).
    safe: bool,
    followed: Cell<bool>,
    exchanges: Cell<u32>,
    /// How many of them were the operation's own. A middleware that runs once per attempt may send it again.
    own: Cell<u32>,
    /// Whether the latest of those may have had an effect that its answer does not tell.
    doubtful: Cell<bool>,
    /// Whether that was so of one before it.
    unknown_before: Cell<bool>,
    altered: Cell<bool>,
    /// What middlewares on the way may not change.
    seal: Option<Arc<Passage>>,
    /// Which operation it is of: the address of its past.
    operation: usize,
    /// How the last exchange failed, where it did.
    failure: Cell<Option<Failure>>,
}

/// What a request is to the operation in whose attempt it is sent.
pub(crate) enum Likeness {
    /// The operation.
    Same,
    /// The operation, with this changed.
    Altered(&'static str),
    /// One for another purpose.
    Other,
}

impl Hops {
    #[inline]
    pub(crate) fn new(method: &http::Method, past: &Past, seal: Option<Arc<Passage>>) -> Self {
        Self {
            safe: method.is_safe(),
            operation: address(past),
            seal,
            ..Self::default()
        }
    }

    /// Makes this the attempt whose code runs on this thread, for as long as `poll` runs.
    pub(crate) fn enter<T>(hops: &mut Option<Self>, poll: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also when the polled code panics.
        struct Leave<'h>(&'h mut Option<Hops>);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                swap(self.0);
            }
        }
        swap(hops);
        let _leave = Leave(hops);
        poll()
    }

    fn current<T>(look: impl FnOnce(&Self) -> T) -> Option<T> {
        HOPS.try_with(|current| {
            let hops = current.take();
            let found = hops.as_ref().map(look);
            current.set(hops);
            found
        })
        .ok()
        .flatten()
    }

    /// Whether the answer of this attempt can only be its first hop's, on a client with this redirect policy.
    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        !self.followed.get() && self.exchanges.get() <= 1
    }

    /// Whether the attempt was stopped because a middleware had changed it, before anything of it had gone out.
    pub(crate) fn was_stopped(&self) -> bool {
        self.altered.get() && self.exchanges.get() == 0 && !self.followed.get()
    }

    /// Whether the operation went out before in this attempt, and nobody knows what came of it.
    #[inline]
    pub(crate) fn unknown_before(&self) -> bool {
        self.unknown_before.get()
    }

    /// Whether the operation went out more than once in this attempt.
    #[inline]
    pub(crate) fn processed_before(&self) -> bool {
        self.own.get() > 1
    }

    /// Whether a request is the operation, and as it should be.
    pub(crate) fn likeness(request: &reqwest::Request) -> Likeness {
        Self::current(|hops| {
            let seal = hops.seal.as_ref();
            let likeness = seal.map_or(Likeness::Other, |seal| seal.likeness(request));
            hops.altered
                .set(hops.altered.get() || matches!(likeness, Likeness::Altered(_)));
            likeness
        })
        .unwrap_or(Likeness::Other)
    }

    /// Whether this runs inside an attempt of that operation: a second loop in there would multiply the attempts.
    pub(crate) fn inside(past: &Past) -> bool {
        Self::current(|hops| hops.operation == address(past)).unwrap_or(false)
    }

    /// Whether this request is that of the attempt in which this runs, as its key says.
    pub(crate) fn is_attempts(request: &reqwest::Request) -> bool {
        Self::current(|hops| {
            let keyed = hops.seal.as_ref().filter(|seal| seal.key.is_some());
            keyed.is_some_and(|seal| matches!(seal.likeness(request), Likeness::Same))
        })
        .unwrap_or(false)
    }

    /// Whether this failure of this attempt can only be its first hop's.
    ///
    /// A middleware that runs once per attempt may send requests of its own, over another client. If such a one fails, the
    /// operation's own exchange either did not take place, or did not fail in the same way.
    pub(crate) fn is_direct_failure(&self, failure: Failure) -> bool {
        self.is_direct() && (self.exchanges.get() == 0 || self.failure.get() == Some(failure))
    }

    /// Takes note that an exchange of this attempt begins, below the middlewares that run once per attempt.
    /// `is_own` says whether it is the operation's.
    pub(crate) fn begin_exchange(is_own: bool) {
        // Outside of an attempt there is nothing to take note for.
        let _ = Self::current(|hops| {
            hops.exchanges.set(hops.exchanges.get().saturating_add(1));
            hops.failure.set(None);
            if is_own {
                hops.own.set(hops.own.get().saturating_add(1));
                // Until it has ended: it may be dropped on its way.
                if hops.doubtful.replace(true) {
                    hops.unknown_before.set(true);
                }
            }
        });
    }

    /// Takes note of how the exchange failed, and whether it may have had an effect that its answer does not tell.
    pub(crate) fn end_exchange(is_own: bool, failure: Option<Failure>, is_doubtful: bool) {
        let _ = Self::current(|hops| {
            hops.failure.set(failure);
            if is_own {
                hops.doubtful.set(is_doubtful);
            }
        });
    }
}

/// Exchanges an attempt for what is in its place on this thread. While the thread ends there is no such place, and nothing to find.
#[inline]
fn swap(hops: &mut Option<Hops>) {
    let _ = HOPS.try_with(|current| *hops = current.replace(hops.take()));
}

fn address(past: &Past) -> usize {
    std::ptr::from_ref(past).addr()
}

/// The redirect policy of this crate's clients, for clients of other people's.
///
/// Requests with a safe method are redirected as reqwest does, ten times at the most. Those with any other follow 307 and 308
/// to the same scheme, host and port; every other redirect is returned as the answer. It works inside this crate's loop, which
/// tells it the method; requests that go past the loop are treated as reqwest treats them.
///
/// Without it a followed 303 whose target refuses the connection looks exactly like a request that was never sent. So on a client
/// that is not known to carry it ([`IdempotencyMiddleware::trust_redirects`](crate::IdempotencyMiddleware::trust_redirects)) a
/// refused connection counts as an unknown outcome.
///
/// # Examples
///
/// ```
/// let client = reqwest::Client::builder()
///     .redirect(idempotency::redirect_policy())
///     .retry(reqwest::retry::never().max_retries_per_request(0))
///     .build()?;
/// # let _ = client;
/// # Ok::<(), reqwest::Error>(())
/// ```
#[must_use]
pub fn redirect_policy() -> Policy {
    let standard = Policy::limited(MAX_HOPS);
    Policy::custom(move |attempt| {
        let safe = Hops::current(|hops| hops.safe).unwrap_or(true);
        if safe || keeps_the_operation_at_home(&attempt) {
            let _ = Hops::current(|hops| hops.followed.set(true));
            standard.redirect(attempt)
        } else {
            attempt.stop()
        }
    })
}

fn keeps_the_operation_at_home(attempt: &Attempt<'_>) -> bool {
    matches!(attempt.status().as_u16(), 307 | 308)
        && attempt
            .previous()
            .last()
            .is_some_and(|previous| previous.origin() == attempt.url().origin())
}
