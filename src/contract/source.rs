//! Where new keys come from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use super::IdempotencyKey;

/// Draws the keys of new operations.
///
/// ```
/// use idempotency::contract::KeySource;
///
/// let source = KeySource::seeded(7);
/// let replayed_test = KeySource::seeded(7);
/// assert_eq!(source.draw(), replayed_test.draw());
/// assert_ne!(source.draw(), source.draw());
/// ```
///
/// The default is [`random`](Self::random). The others are for tests and for applications with a
/// scheme of their own.
#[derive(Clone, Default)]
pub struct KeySource(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    Random,
    Seeded(Arc<Sequence>),
    Fixed(IdempotencyKey),
    Function(Arc<dyn Fn() -> IdempotencyKey + Send + Sync>),
}

struct Sequence {
    seed: u64,
    drawn: AtomicU64,
}

impl KeySource {
    /// Random UUIDs, see [`IdempotencyKey::random`].
    #[must_use]
    pub const fn random() -> Self {
        Self(Source::Random)
    }

    /// The same sequence of different keys for the same seed, for tests that compare what was sent.
    ///
    /// Clones share the sequence. Keys are shaped like random UUIDs but anybody can compute them.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let drawn = AtomicU64::new(0);
        Self(Source::Seeded(Arc::new(Sequence { seed, drawn })))
    }

    /// The same key for every operation, for a test that sends one operation.
    ///
    /// **Never in production**: the second operation under one key is refused, or answered with the
    /// first one's answer, and does not happen.
    #[must_use]
    pub const fn fixed(key: IdempotencyKey) -> Self {
        Self(Source::Fixed(key))
    }

    /// Keys from a function of the application. It has to return a new key on each call.
    #[must_use]
    pub fn from_fn(draw: impl Fn() -> IdempotencyKey + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(draw)))
    }

    /// Draws the key of a new operation.
    #[must_use]
    pub fn draw(&self) -> IdempotencyKey {
        match &self.0 {
            Source::Random => IdempotencyKey::random(),
            Source::Seeded(sequence) => sequence.next(),
            Source::Fixed(key) => key.clone(),
            Source::Function(draw) => draw(),
        }
    }
}

impl Sequence {
    fn next(&self) -> IdempotencyKey {
        // Only the count itself is shared, nothing is published through it.
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut hash = Sha256::new();
        hash.update(self.seed.to_be_bytes());
        hash.update(count.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let (bytes, _) = hash.split_first_chunk().expect("32 bytes hold 16");
        let uuid: Uuid = Builder::from_random_bytes(*bytes).into_uuid();
        IdempotencyKey::from(uuid)
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Random => f.write_str("KeySource::random"),
            Source::Seeded(sequence) => write!(f, "KeySource::seeded({})", sequence.seed),
            Source::Fixed(key) => write!(f, "KeySource::fixed({key:?})"),
            Source::Function(_) => f.write_str("KeySource::from_fn"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_of_different_keys() {
        let draw = |seed| {
            let source = KeySource::seeded(seed);
            (0..100).map(|_| source.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        let both: HashSet<_> = draw(1).into_iter().chain(draw(2)).collect();
        assert_eq!(both.len(), 200);
        assert!(
            both.iter()
                .all(|key| key.uuid().is_some_and(|uuid| uuid.get_version_num() == 4))
        );
    }

    #[test]
    fn clones_share_the_sequence() {
        let source = KeySource::seeded(1);
        let keys = [source.draw(), source.clone().draw(), source.draw()];
        let again = KeySource::seeded(1);
        assert_eq!(keys, [again.draw(), again.draw(), again.draw()]);
    }

    #[test]
    fn random_fixed_and_function_draw_what_they_say() {
        let source = KeySource::default();
        assert_ne!(source.draw(), source.draw());
        let key = IdempotencyKey::parse("k-1").unwrap();
        assert_eq!(KeySource::fixed(key.clone()).draw(), key);
        let drawn = key.clone();
        assert_eq!(KeySource::from_fn(move || drawn.clone()).draw(), key);
    }

    #[test]
    fn debug_names_the_source_without_its_key() {
        let key = IdempotencyKey::parse("s3cret").unwrap();
        let shown = format!("{:?}", KeySource::fixed(key.clone()));
        assert_eq!(shown, format!("KeySource::fixed({key:?})"));
        assert!(!shown.contains("s3cret"));
        assert_eq!(
            format!("{:?}", KeySource::seeded(3)),
            "KeySource::seeded(3)"
        );
    }
}
