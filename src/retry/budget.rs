//! The retry budget: how much load retries may add.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quick_cache::sync::Cache;
use rustc_hash::{FxBuildHasher, FxHasher};

/// How many origins a budget keeps apart. Beyond that the least used are forgotten, which gives them a full budget again.
const MAX_ORIGINS: usize = 1024;
/// For how long an operation counts towards the extra load: ten slots of one second.
const SLOTS: usize = 10;
/// One retry in what operations earn, which is hundredths: an operation earns its percentage.
const RETRY: u64 = 100;
/// One retry in what time earns, which is billionths: a nanosecond earns the retries per second, without a remainder.
const TIMED_RETRY: u64 = 1_000_000_000;

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
    extra_load_percent: u32,
    retries_per_second: u32,
    accounts: Arc<Accounts>,
}

type Accounts = Cache<u64, Arc<Mutex<Account>>, quick_cache::UnitWeighter, FxBuildHasher>;

/// A scheme, host and port, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(u64);

impl Origin {
    /// The origin of a URL's parts. Host names are compared as they are: a URL parser has lowered them.
    #[must_use]
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
            extra_load_percent,
            retries_per_second,
            accounts: Arc::new(Cache::with(
                MAX_ORIGINS,
                MAX_ORIGINS as u64,
                quick_cache::UnitWeighter,
                FxBuildHasher,
                quick_cache::sync::DefaultLifecycle::default(),
            )),
        }
    }

    /// How much load retries may add, in percent of the operations.
    #[must_use]
    pub fn extra_load_percent(&self) -> u32 {
        self.extra_load_percent
    }

    /// How many retries a second are allowed whatever the number of operations.
    #[must_use]
    pub fn retries_per_second(&self) -> u32 {
        self.retries_per_second
    }

    /// Counts one operation, once, however many attempts it takes. `now` is the time since any fixed moment.
    pub fn deposit(&self, origin: Origin, now: Duration) {
        let amount = u64::from(self.extra_load_percent);
        if amount > 0 {
            self.with_account(origin, now, |account| account.deposit(amount));
        }
    }

    /// Takes the allowance for one retry. False when there is none.
    #[must_use]
    pub fn withdraw(&self, origin: Origin, now: Duration) -> bool {
        self.with_account(origin, now, Account::withdraw)
    }

    fn with_account<T>(
        &self,
        origin: Origin,
        now: Duration,
        act: impl FnOnce(&mut Account) -> T,
    ) -> T {
        let account = match self.accounts.get(&origin.0) {
            Some(account) => account,
            None => {
                let fresh = Account::new(now, self.retries_per_second);
                match self.accounts.get_or_insert_with(&origin.0, || {
                    Ok::<_, std::convert::Infallible>(Arc::new(Mutex::new(fresh)))
                }) {
                    Ok(account) => account,
                    Err(never) => match never {},
                }
            }
        };
        // A panic cannot happen while the lock is held: the arithmetic saturates or has room for every input.
        let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
        account.advance(now, self.retries_per_second);
        act(&mut account)
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
            .field("extra_load_percent", &self.extra_load_percent)
            .field("retries_per_second", &self.retries_per_second)
            .finish_non_exhaustive()
    }
}

/// The account of one origin.
struct Account {
    /// What the operations of each of the last ten seconds have earned and no retry has taken yet, in hundredths of a retry.
    earned: [u64; SLOTS],
    /// The second that the newest slot stands for.
    second: u64,
    /// What is left of the fixed allowance, in billionths of a retry; one second's worth at most.
    reserve: u64,
    /// Up to when the reserve has been paid.
    paid_until: Duration,
}

impl Account {
    fn new(now: Duration, retries_per_second: u32) -> Self {
        Self {
            earned: [0; SLOTS],
            second: now.as_secs(),
            reserve: full_reserve(retries_per_second),
            paid_until: now,
        }
    }

    fn advance(&mut self, now: Duration, retries_per_second: u32) {
        let second = now.as_secs();
        let passed = second.saturating_sub(self.second);
        for step in 1..=passed.min(SLOTS as u64) {
            self.earned[slot(self.second + step)] = 0;
        }
        self.second = self.second.max(second);

        // A duration is below 2^94 ns, so the product fits.
        let elapsed = now.saturating_sub(self.paid_until).as_nanos();
        let gained = u64::try_from(elapsed * u128::from(retries_per_second)).unwrap_or(u64::MAX);
        self.reserve = self
            .reserve
            .saturating_add(gained)
            .min(full_reserve(retries_per_second));
        self.paid_until = self.paid_until.max(now);
    }

    fn deposit(&mut self, amount: u64) {
        let newest = &mut self.earned[slot(self.second)];
        *newest = newest.saturating_add(amount);
    }

    fn withdraw(&mut self) -> bool {
        let earned = self
            .earned
            .iter()
            .fold(0_u64, |sum, slot| sum.saturating_add(*slot));
        if earned < RETRY {
            let enough = self.reserve >= TIMED_RETRY;
            if enough {
                self.reserve -= TIMED_RETRY;
            }
            return enough;
        }
        let mut due = RETRY;
        // The oldest first: it would be forgotten next.
        for step in 1..=SLOTS {
            let oldest = &mut self.earned[(slot(self.second) + step) % SLOTS];
            let taken = due.min(*oldest);
            *oldest -= taken;
            due -= taken;
        }
        true
    }
}

/// One second's worth of the fixed allowance.
fn full_reserve(retries_per_second: u32) -> u64 {
    u64::from(retries_per_second) * TIMED_RETRY
}

fn slot(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_1024_origins_are_remembered() {
        let budget = RetryBudget::default();
        for number in 0..10_000 {
            budget.deposit(Origin(number), Duration::ZERO);
        }
        assert!(budget.accounts.len() <= MAX_ORIGINS);
    }

    #[test]
    fn what_operations_earn_saturates() {
        let mut account = Account::new(Duration::ZERO, 0);
        account.earned = [u64::MAX - 1; SLOTS];
        account.deposit(u64::from(u32::MAX));
        assert_eq!(account.earned[0], u64::MAX);
        assert!(account.withdraw());
        // The slot that would be forgotten next has paid.
        assert_eq!(account.earned[1], u64::MAX - 1 - RETRY);
    }

    #[test]
    fn the_reserve_has_room_for_the_longest_time_at_the_highest_rate() {
        let mut account = Account::new(Duration::ZERO, u32::MAX);
        account.reserve = 0;
        account.advance(Duration::MAX, u32::MAX);
        assert_eq!(account.reserve, 4_294_967_295_000_000_000);
        assert!(account.withdraw());
    }
}
