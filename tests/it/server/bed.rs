//! One store, whichever it is, and its clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotency::server::{IdempotencyLayer, MemoryStore, Scope, Store};
use idempotency::testing::laws::Clock;

/// A store to test on, and the means to let time pass for it.
pub(crate) struct Bed {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// A lease that does not pass by itself in a test.
    pub(crate) lease: Duration,
    /// A lease that a test can live through: of real time where the clock is real.
    pub(crate) short_lease: Duration,
    /// What the store stands in.
    #[cfg(feature = "postgres")]
    _schema: Option<super::database::Database>,
}

impl Bed {
    /// In memory, under a paused clock.
    pub(crate) fn memory() -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(PausedClock),
            lease: Duration::from_secs(30),
            short_lease: Duration::from_secs(30),
            #[cfg(feature = "postgres")]
            _schema: None,
        }
    }

    /// In a schema of its own, under the real clock.
    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres() -> Option<Self> {
        let database = super::database::Database::fresh().await?;
        let store = database.store().await;
        Some(Self {
            clock: Arc::new(super::database::RowsClock(store.pool().clone())),
            store: Arc::new(store),
            lease: Duration::from_secs(30),
            short_lease: Duration::from_millis(1500),
            _schema: Some(database),
        })
    }

    /// A layer with the defaults, and one owner for all keys.
    pub(crate) fn layer(&self) -> IdempotencyLayer<Arc<dyn Store>> {
        IdempotencyLayer::new(self.store.clone(), Scope::global()).lease(self.lease)
    }

    /// Time passes in the store, and nowhere else if it can be helped.
    pub(crate) async fn advance(&self, by: Duration) {
        self.clock.advance(by).await;
    }
}

/// Tokio's clock, paused.
pub(crate) struct PausedClock;

#[async_trait]
impl Clock for PausedClock {
    async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }
}

/// Makes a test of each function, on each store.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name($crate::server::bed::Bed::memory()).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(bed) = $crate::server::bed::Bed::postgres().await {
                    super::$name(bed).await;
                }
            })*
        }
    };
}
pub(crate) use on_both_stores;
