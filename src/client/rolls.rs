//! Where jitter comes from.

use std::sync::atomic::{AtomicU64, Ordering};

/// The random numbers of a client, or the sequence of a seed.
#[derive(Debug, Default)]
pub(crate) struct Rolls(AtomicU64);

impl Rolls {
    /// A uniformly random number, the next of a sequence where there is a seed.
    pub(crate) fn next(&self, seed: Option<u64>) -> u64 {
        match seed {
            None => fastrand::u64(..),
            Some(seed) => {
                let turn = self.0.fetch_add(1, Ordering::Relaxed);
                fastrand::Rng::with_seed(seed.wrapping_add(turn)).u64(..)
            }
        }
    }
}
