//! The accounts of a budget: found without a lock, bounded, the least used forgotten.

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::account::Account;
use super::budget::Rates;

/// How many origins a budget keeps apart. Beyond that the least used are forgotten, which gives them a full budget again.
const MAX_ORIGINS: u16 = 1024;
/// As many chains as accounts, so that a chain has one account or two.
const CHAINS: usize = MAX_ORIGINS as usize;
/// One account, one more, two, four and so on up to 512: most budgets have one origin and pay for one.
const BLOCKS: usize = 11;
/// The end of a chain. No block has an account of that number.
const NONE: u16 = u16::MAX;

/// Accounts in chains by their origin's hash.
///
/// An account stays where it is and is given to another origin when its own is forgotten. So whoever looks needs no lock: the
/// worst that a change under its eyes does is to lead it into another chain, where it finds nothing and looks again under the
/// lock.
pub(super) struct Accounts {
    chains: [AtomicU16; CHAINS],
    blocks: [OnceLock<Box<[Account]>>; BLOCKS],
    register: Mutex<Register>,
}

/// Which accounts are given out.
#[derive(Default)]
struct Register {
    opened: u16,
    /// The account that was last asked whether it is still in use.
    hand: u16,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            chains: [const { AtomicU16::new(NONE) }; CHAINS],
            blocks: [const { OnceLock::new() }; BLOCKS],
            register: Mutex::default(),
        }
    }
}

impl Accounts {
    /// The account of an origin; a new one where it has none.
    pub(super) fn get(&self, origin: u64, now: Duration, rates: Rates) -> &Account {
        match self.find(origin) {
            Some(account) => account,
            None => self.open(origin, now, rates),
        }
    }

    fn find(&self, origin: u64) -> Option<&Account> {
        let mut number = self.chain(origin).load(Acquire);
        // Bounded, because a chain that others change may be longer than any ever was.
        for _ in 0..MAX_ORIGINS {
            let account = self.account(number)?;
            if account.belongs_to(origin) {
                account.note_use();
                return Some(account);
            }
            number = account.next.load(Acquire);
        }
        None
    }

    #[cold]
    fn open(&self, origin: u64, now: Duration, rates: Rates) -> &Account {
        let mut register = self.register();
        if let Some(account) = self.find(origin) {
            return account;
        }
        let (number, account) = self.free(&mut register);
        account.open(origin, now, rates);
        let chain = self.chain(origin);
        account.next.store(chain.load(Acquire), Release);
        chain.store(number, Release);
        account
    }

    /// An account that is in no chain: one more, or that of the least used origin.
    fn free(&self, register: &mut Register) -> (u16, &Account) {
        if register.opened < MAX_ORIGINS {
            let number = register.opened;
            register.opened += 1;
            let (block, place) = place(number);
            let accounts = self.blocks[block].get_or_init(|| {
                std::iter::repeat_with(Account::default)
                    .take(1 << block.saturating_sub(1))
                    .collect()
            });
            return (number, &accounts[place]);
        }
        // Each account that was used since the last round is spared once. All are used meanwhile where a round finds none.
        let mut left = MAX_ORIGINS;
        loop {
            register.hand = (register.hand + 1) % MAX_ORIGINS;
            left = left.saturating_sub(1);
            let number = register.hand;
            if let Some(account) = self.account(number)
                && (!account.forget_use() || left == 0)
            {
                self.unlink(number, account);
                return (number, account);
            }
        }
    }

    fn unlink(&self, number: u16, account: &Account) {
        let mut link = self.chain(account.origin());
        loop {
            let at = link.load(Acquire);
            if at == number {
                link.store(account.next.load(Acquire), Release);
                return;
            }
            match self.account(at) {
                Some(before) => link = &before.next,
                None => return,
            }
        }
    }

    fn chain(&self, origin: u64) -> &AtomicU16 {
        // An origin is a hash already, and its lowest bits are its best.
        &self.chains[usize::try_from(origin % CHAINS as u64).unwrap_or(0)]
    }

    fn account(&self, number: u16) -> Option<&Account> {
        let (block, place) = place(number);
        self.blocks.get(block)?.get()?.get(place)
    }

    /// A panic does not happen while the lock is held.
    fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The block of an account, and where in it.
fn place(number: u16) -> (usize, usize) {
    match number.checked_ilog2() {
        None => (0, 0),
        Some(log) => (log as usize + 1, usize::from(number) - (1 << log)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        extra_load_percent: 100,
        retries_per_second: 0,
    };
    const NOW: Duration = Duration::ZERO;

    /// The origins that are found by walking the chains.
    fn known(accounts: &Accounts) -> Vec<u64> {
        let mut known = Vec::new();
        for chain in &accounts.chains {
            let mut number = chain.load(Acquire);
            while let Some(account) = accounts.account(number) {
                known.push(account.origin());
                number = account.next.load(Acquire);
            }
        }
        known.sort_unstable();
        known
    }

    #[test]
    fn the_blocks_hold_every_account_once() {
        let places: Vec<_> = (0..MAX_ORIGINS).map(place).collect();
        let expected = (0..BLOCKS)
            .flat_map(|block| (0..1 << block.saturating_sub(1)).map(move |place| (block, place)));
        assert!(places.into_iter().eq(expected));
        assert!(Accounts::default().account(NONE).is_none());
    }

    #[test]
    fn one_origin_costs_one_account() {
        let accounts = Accounts::default();
        accounts.get(1, NOW, RATES);
        accounts.get(1, NOW, RATES);
        let built = accounts.blocks.iter().filter_map(OnceLock::get);
        assert_eq!(built.map(|block| block.len()).sum::<usize>(), 1);
    }

    #[test]
    fn no_more_than_1024_origins_are_remembered() {
        let accounts = Accounts::default();
        for origin in 0..10_000 {
            accounts.get(origin, NOW, RATES);
            assert!(accounts.find(origin).is_some());
        }
        assert_eq!(known(&accounts).len(), 1024);
    }

    /// All fit, though all hashes end alike.
    #[test]
    fn origins_of_one_chain_are_kept_apart() {
        let accounts = Accounts::default();
        let origins = (0..1024).map(|number| number * 1024);
        for origin in origins.clone() {
            accounts.get(origin, NOW, RATES).deposit(NOW);
        }
        for origin in origins.clone() {
            let account = accounts.find(origin).expect("known");
            assert_eq!(account.withdraw(origin, NOW, RATES), Some(true));
            assert_eq!(account.withdraw(origin, NOW, RATES), Some(false));
        }
        assert!(known(&accounts).into_iter().eq(origins));
    }

    #[test]
    fn those_that_were_used_again_outlive_those_that_were_not() {
        let accounts = Accounts::default();
        for origin in 0..1024 {
            accounts.get(origin, NOW, RATES);
        }
        for origin in (0..1024).step_by(2) {
            accounts.get(origin, NOW, RATES);
        }
        for origin in 2000..2512 {
            accounts.get(origin, NOW, RATES);
        }
        let expected = (0..1024).step_by(2).chain(2000..2512);
        assert!(known(&accounts).into_iter().eq(expected));
    }

    #[test]
    fn when_all_are_in_use_one_goes_all_the_same() {
        let accounts = Accounts::default();
        for origin in (0..1024).chain(0..1024) {
            accounts.get(origin, NOW, RATES);
        }
        accounts.get(5000, NOW, RATES);
        let known = known(&accounts);
        assert_eq!(known.len(), 1024);
        assert!(known.contains(&5000));
    }

    #[test]
    fn threads_that_meet_at_a_new_origin_share_its_account() {
        let accounts = Accounts::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for origin in 0..1000 {
                        accounts.get(origin, NOW, RATES).deposit(NOW);
                    }
                });
            }
        });
        for origin in 0..1000 {
            let account = accounts.find(origin).expect("known");
            let granted = std::iter::repeat_with(|| account.withdraw(origin, NOW, RATES))
                .take_while(|granted| *granted == Some(true))
                .count();
            assert_eq!(granted, 8, "origin {origin}");
        }
    }

    /// A crowd of passers-by changes chains all the time under the eyes of those who look for an origin in use.
    #[test]
    fn an_origin_in_use_is_found_while_others_come_and_go() {
        const DEPOSITS: usize = 20_000;
        let accounts = Accounts::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for origin in 1..DEPOSITS as u64 {
                    accounts.get(origin, NOW, RATES);
                }
            });
            for _ in 0..DEPOSITS {
                accounts.get(0, NOW, RATES).deposit(NOW);
            }
        });
        assert!(known(&accounts).windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(known(&accounts).len(), 1024);
    }
}
