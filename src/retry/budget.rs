//! The retry budget: how much load retries may add.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHasher;

use super::accounts::Accounts;

/// A shared allowance for retries, kept apart for each origin.
///
/// While a server is down every client that retries three times sends it four times the load it already cannot bear. The budget
/// caps that: retries may add [`extra_load_percent`](Self::new) to the operations of the last ten seconds, and
/// `retries_per_second` on top, so that a client that sends little can still retry. When it is empty the operation ends with the
/// real last cause and says that the budget stopped it.
///
/// Clones share the allowance. A policy carries one, so all clones of a client, and all policies made from one, draw on the
/// same.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use idempotency::retry::{Origin, RetryBudget};
///
/// let budget = RetryBudget::new(10, 0);
/// let origin = Origin::of("https", "api.example.com", 443);
/// let now = Duration::ZERO;
/// for _ in 0..10 {
///     budget.deposit(origin, now);
/// }
/// assert!(budget.withdraw(origin, now));
/// assert!(!budget.withdraw(origin, now));
/// ```
#[derive(Clone)]
pub struct RetryBudget {
    rates: Rates,
    accounts: Arc<Accounts>,
}

/// What operations and time earn.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub(super) extra_load_percent: u32,
    pub(super) retries_per_second: u32,
}

/// A scheme, host and port, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(u64);

impl Origin {
    /// The origin of a URL's parts. Host names are compared as they are: a URL parser has lowered them.
    #[must_use]
    #[inline]
    pub fn of(scheme: &str, host: &str, port: u16) -> Self {
        // A name that is made to collide with another gains nothing but a share in its budget, so the hash may be a quick one.
        let mut hasher = FxHasher::default();
        (scheme, host, port).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl RetryBudget {
    /// A budget of its own: at most `extra_load_percent` more requests than operations, and `retries_per_second` on top.
    #[must_use]
    pub fn new(extra_load_percent: u32, retries_per_second: u32) -> Self {
        Self {
            rates: Rates {
                extra_load_percent,
                retries_per_second,
            },
            accounts: Arc::default(),
        }
    }

    /// How much load retries may add, in percent of the operations.
    #[must_use]
    pub fn extra_load_percent(&self) -> u32 {
        self.rates.extra_load_percent
    }

    /// How many retries a second are allowed whatever the number of operations.
    #[must_use]
    pub fn retries_per_second(&self) -> u32 {
        self.rates.retries_per_second
    }

    /// Counts one operation, once, however many attempts it takes. `now` is the time since any fixed moment.
    #[inline]
    pub fn deposit(&self, origin: Origin, now: Duration) {
        if self.rates.extra_load_percent > 0 {
            self.accounts.get(origin.0, now, self.rates).deposit(now);
        }
    }

    /// Takes the allowance for one retry. False when there is none.
    #[must_use]
    pub fn withdraw(&self, origin: Origin, now: Duration) -> bool {
        loop {
            let account = self.accounts.get(origin.0, now, self.rates);
            // Nothing is granted where the account was given to another origin meanwhile: that one would pay.
            if let Some(granted) = account.withdraw(origin.0, now, self.rates) {
                return granted;
            }
        }
    }
}

impl Default for RetryBudget {
    /// 20 % extra load and 10 retries a second, the values that Finagle settled on and that tower and reqwest share.
    fn default() -> Self {
        Self::new(20, 10)
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget")
            .field("extra_load_percent", &self.rates.extra_load_percent)
            .field("retries_per_second", &self.rates.retries_per_second)
            .finish_non_exhaustive()
    }
}
