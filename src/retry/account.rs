//! The account of one origin: what operations and time have earned, and what retries have taken.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::budget::Rates;

/// For how long an operation counts towards the extra load: ten slots of one second.
const SLOTS: usize = 10;
/// One retry in what operations earn, which is hundredths: an operation earns its percentage.
const RETRY: u64 = 100;
/// One retry in what time earns, which is billionths: a nanosecond earns the retries per second, without a remainder.
const TIMED_RETRY: u64 = 1_000_000_000;
/// The bits of a slot that count operations. Those above say which second they belong to.
const COUNT: u64 = u32::MAX as u64;
/// How many threads count without getting in each other's way.
const STRIPES: usize = 4;
/// The most operations that a slot counts. The room above is for threads that looked at it at the same moment.
const MOST: u64 = COUNT - 0xffff;

/// The account of one origin, and afterwards of another.
///
/// Every operation makes a deposit, so a deposit takes no lock, and threads that make many do not wait for each other's cache
/// lines: each counts in a stripe, and what all of them only read is apart from the stripes.
///
/// A deposit by one thread may be overtaken by others between its steps. Then it counts in the second that is the newest by
/// then, or for the origin that the account has been given to. It is counted at most once, so no more retries are granted than
/// were earned, but for one operation's worth for each deposit that was under way at that moment.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Account {
    origin: AtomicU64,
    /// The newest second that anybody has named. It never goes back.
    second: AtomicU64,
    /// The next account in the chain.
    pub(super) next: AtomicU16,
    /// Whether it was used since it was last looked at for that.
    used: AtomicBool,
    stripes: [Stripe; STRIPES],
    purse: Mutex<Purse>,
}

/// The operations of the last ten seconds that some of the threads have counted. A slot is [stamped](stamp) with its second.
#[derive(Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; SLOTS]);

/// What only retries change.
#[derive(Default)]
struct Purse {
    /// What retries have taken from each slot, in hundredths of a retry.
    taken: [u64; SLOTS],
    /// The second that the newest slot of `taken` stands for.
    second: u64,
    /// What is left of the fixed allowance, in billionths of a retry; one second's worth at most.
    reserve: u64,
    /// Up to when the reserve has been paid.
    paid_until: Duration,
}

impl Account {
    /// Gives the account to an origin that nobody knows: with a full reserve and no operations.
    pub(super) fn open(&self, origin: u64, now: Duration, rates: Rates) {
        let mut purse = self.purse();
        let second = self.advance(now);
        purse.advance(second);
        // What the origin before it has left counts as taken. The slots themselves belong to the deposits.
        for age in 0..SLOTS as u64 {
            if let Some(second) = second.checked_sub(age) {
                purse.taken[slot(second)] = self.earned(second, rates);
            }
        }
        purse.reserve = full_reserve(rates);
        purse.paid_until = now;
        self.origin.store(origin, Release);
    }

    pub(super) fn belongs_to(&self, origin: u64) -> bool {
        self.origin.load(Acquire) == origin
    }

    pub(super) fn origin(&self) -> u64 {
        self.origin.load(Acquire)
    }

    /// Writes only what changes: all threads read it.
    pub(super) fn note_use(&self) {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }

    /// Whether it was used since the last call.
    pub(super) fn forget_use(&self) -> bool {
        self.used.swap(false, Relaxed)
    }

    /// Counts one operation in the newest second.
    pub(super) fn deposit(&self, now: Duration) {
        let stripe = &self.stripes[stripe()];
        let mut second = self.advance(now);
        loop {
            let slot = &stripe.0[slot(second)];
            let seen = slot.load(Acquire);
            if is_of(seen, second) {
                if seen & COUNT < MOST {
                    slot.fetch_add(1, Release);
                }
                return;
            }
            // Read after the slot. A slot is stamped by those who have seen its second, so if this is still the newest, the slot
            // is from a round before and nobody misses it.
            let newest = self.second.load(Acquire);
            if newest == second
                && slot
                    .compare_exchange(seen, stamp(second) | 1, AcqRel, Relaxed)
                    .is_ok()
            {
                return;
            }
            second = newest;
        }
    }

    /// Takes one retry. `None` when the account is another origin's.
    pub(super) fn withdraw(&self, origin: u64, now: Duration, rates: Rates) -> Option<bool> {
        let mut purse = self.purse();
        if !self.belongs_to(origin) {
            return None;
        }
        let second = self.advance(now);
        purse.advance(second);
        purse.pay(now, rates);
        // The oldest first: it would be forgotten next.
        let left: [(usize, u64); SLOTS] = std::array::from_fn(|step| {
            let age = (SLOTS - 1 - step) as u64;
            second.checked_sub(age).map_or((0, 0), |second| {
                let slot = slot(second);
                let earned = self.earned(second, rates);
                (slot, earned.saturating_sub(purse.taken[slot]))
            })
        });
        Some(purse.withdraw(&left))
    }

    /// The newest second, `now` included.
    fn advance(&self, now: Duration) -> u64 {
        let second = now.as_secs();
        let newest = self.second.load(Acquire);
        if second > newest {
            self.second.fetch_max(second, AcqRel).max(second)
        } else {
            newest
        }
    }

    /// What the operations of a second have earned, in hundredths of a retry.
    fn earned(&self, second: u64, rates: Rates) -> u64 {
        let slots = self
            .stripes
            .iter()
            .map(|stripe| stripe.0[slot(second)].load(Acquire));
        let operations: u64 = slots
            .filter(|seen| is_of(*seen, second))
            .map(|seen| seen & COUNT)
            .sum();
        operations.saturating_mul(u64::from(rates.extra_load_percent))
    }

    /// A panic cannot happen while the lock is held: the arithmetic saturates or has room for every input.
    fn purse(&self) -> MutexGuard<'_, Purse> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Purse {
    /// Forgets what was taken from slots that now stand for another second.
    fn advance(&mut self, second: u64) {
        let passed = second.saturating_sub(self.second);
        for step in 1..=passed.min(SLOTS as u64) {
            self.taken[slot(self.second + step)] = 0;
        }
        self.second = self.second.max(second);
    }

    /// Pays what time has earned.
    fn pay(&mut self, now: Duration, rates: Rates) {
        // A duration is below 2^94 ns, so the product fits.
        let elapsed = now.saturating_sub(self.paid_until).as_nanos();
        let gained =
            u64::try_from(elapsed * u128::from(rates.retries_per_second)).unwrap_or(u64::MAX);
        self.reserve = self.reserve.saturating_add(gained).min(full_reserve(rates));
        self.paid_until = self.paid_until.max(now);
    }

    /// Takes one retry from what is left of the slots, first from the first, or else from the reserve.
    fn withdraw(&mut self, left: &[(usize, u64); SLOTS]) -> bool {
        let earned = left
            .iter()
            .fold(0_u64, |sum, (_, left)| sum.saturating_add(*left));
        if earned < RETRY {
            let enough = self.reserve >= TIMED_RETRY;
            if enough {
                self.reserve -= TIMED_RETRY;
            }
            return enough;
        }
        let mut due = RETRY;
        for (slot, left) in left {
            let taken = due.min(*left);
            self.taken[*slot] += taken;
            due -= taken;
        }
        true
    }
}

/// One second's worth of the fixed allowance.
fn full_reserve(rates: Rates) -> u64 {
    u64::from(rates.retries_per_second) * TIMED_RETRY
}

fn slot(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).unwrap_or(0)
}

/// An empty slot of that second: it names the round of ten seconds. The same number comes back after 1361 years.
fn stamp(second: u64) -> u64 {
    (second / SLOTS as u64) << 32
}

fn is_of(slot: u64, second: u64) -> bool {
    slot & !COUNT == stamp(second)
}

/// Which stripe this thread counts in.
fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const OURS: u64 = 7;

    fn rates(extra_load_percent: u32, retries_per_second: u32) -> Rates {
        Rates {
            extra_load_percent,
            retries_per_second,
        }
    }

    fn opened(now: Duration, rates: Rates) -> Account {
        let account = Account::default();
        account.open(OURS, now, rates);
        account
    }

    fn granted(account: &Account, now: Duration, rates: Rates) -> u64 {
        let mut granted = 0;
        while account.withdraw(OURS, now, rates) == Some(true) {
            granted += 1;
        }
        granted
    }

    #[test]
    fn what_operations_earn_saturates() {
        let rates = rates(u32::MAX, 0);
        let account = opened(Duration::ZERO, rates);
        let full = stamp(0) | MOST;
        for stripe in &account.stripes {
            stripe.0[0].store(full, Relaxed);
        }
        account.deposit(Duration::ZERO);
        for stripe in &account.stripes {
            assert_eq!(stripe.0[0].load(Relaxed), full);
        }
        assert_eq!(account.earned(0, rates), u64::MAX);
        assert_eq!(account.withdraw(OURS, Duration::ZERO, rates), Some(true));
        assert_eq!(account.purse().taken[0], RETRY);
    }

    #[test]
    fn the_slot_that_would_be_forgotten_next_pays() {
        let rates = rates(60, 0);
        let account = opened(Duration::ZERO, rates);
        account.deposit(Duration::ZERO);
        account.deposit(Duration::from_secs(4));
        account.deposit(Duration::from_secs(9));
        assert_eq!(granted(&account, Duration::from_secs(9), rates), 1);
        let purse = account.purse();
        assert_eq!(
            [purse.taken[0], purse.taken[4], purse.taken[9]],
            [60, 40, 0]
        );
    }

    #[test]
    fn the_reserve_has_room_for_the_longest_time_at_the_highest_rate() {
        let rates = rates(0, u32::MAX);
        let account = opened(Duration::ZERO, rates);
        account.purse().reserve = 0;
        account.purse().pay(Duration::MAX, rates);
        assert_eq!(account.purse().reserve, 4_294_967_295_000_000_000);
        assert_eq!(account.withdraw(OURS, Duration::MAX, rates), Some(true));
    }

    #[test]
    fn another_origin_finds_a_full_reserve_and_no_operations() {
        let rates = rates(100, 3);
        let account = opened(Duration::ZERO, rates);
        for second in 0..15 {
            account.deposit(Duration::from_secs(second));
        }
        let now = Duration::from_secs(14);
        assert_eq!(account.withdraw(OURS, now, rates), Some(true));
        account.open(8, now, rates);
        assert_eq!(account.withdraw(OURS, now, rates), None);
        account.deposit(now);
        let granted = std::iter::repeat_with(|| account.withdraw(8, now, rates))
            .take_while(|granted| *granted == Some(true))
            .count();
        assert_eq!(granted, 4);
    }

    /// In every round all threads meet a slot that still holds a second from long ago.
    #[test]
    fn no_deposit_is_lost_when_threads_begin_a_second_together() {
        const THREADS: u64 = 2 * STRIPES as u64;
        const DEPOSITS: u64 = 50;
        let rates = rates(100, 0);
        let account = opened(Duration::ZERO, rates);
        let together = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (account, together) = (&account, &together);
                scope.spawn(move || {
                    for round in 0..200 {
                        let now = Duration::from_secs(10 * round);
                        together.wait();
                        for _ in 0..DEPOSITS {
                            account.deposit(now);
                        }
                        let all_are_in = together.wait();
                        if all_are_in.is_leader() {
                            let granted = granted(account, now, rates);
                            assert_eq!(granted, THREADS * DEPOSITS, "round {round}, {thread}");
                        }
                        together.wait();
                    }
                });
            }
        });
    }

    /// Whatever the order in which threads name the seconds of a window, each deposit pays for one retry.
    #[test]
    fn no_deposit_is_lost_between_threads_whose_clocks_differ() {
        let rates = rates(100, 0);
        let account = opened(Duration::ZERO, rates);
        let during: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u64)
                .map(|thread| {
                    let account = &account;
                    scope.spawn(move || {
                        let mut granted = 0;
                        for step in 0..1000 {
                            let now = Duration::from_secs((step * (thread + 1)) % 10);
                            account.deposit(now);
                            if step % 3 == 0 {
                                let paid = account.withdraw(OURS, now, rates);
                                assert_eq!(paid, Some(true), "more deposits than withdrawals");
                                granted += 1;
                            }
                        }
                        granted
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a thread"))
                .sum()
        });
        let now = Duration::from_secs(9);
        assert_eq!(during + granted(&account, now, rates), 8000);
    }
}
