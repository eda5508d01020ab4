//! Sweeping in the background.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

use super::store::Store;

/// Removes rows whose time has passed, until it is dropped.
///
/// ```
/// # async fn run() {
/// use std::num::NonZeroU32;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use idempotency::server::{MemoryStore, Sweeper};
///
/// let store = Arc::new(MemoryStore::new());
/// let batch = NonZeroU32::new(1000).expect("more than none");
/// let sweeper = Sweeper::start(store.clone(), Duration::from_secs(600), batch);
/// # }
/// ```
///
/// Nothing depends on it but space: a row whose time has passed answers nobody. Each pass removes
/// batch after batch until one is not full. Every process may have one: they skip each other's rows.
/// Passes begin at a random moment of the first period, so that processes that start together do
/// not sweep together. To sweep on demand, call [`Store::sweep`].
#[derive(Debug)]
#[must_use = "dropping it ends the sweeping"]
pub struct Sweeper(AbortHandle);

impl Sweeper {
    /// Starts a task that sweeps once in every period.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(store: impl Store, every: Duration, batch: NonZeroU32) -> Self {
        let sweeping = async move {
            sleep(every.mul_f64(fastrand::f64())).await;
            loop {
                pass(&store, batch).await;
                sleep(every).await;
            }
        };
        Self(tokio::spawn(sweeping).abort_handle())
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pass(store: &impl Store, batch: NonZeroU32) {
    loop {
        match store.sweep(batch).await {
            Ok(removed) => {
                tracing::debug!(removed, "swept");
                if removed < batch.get() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn Error, "sweeping failed");
                return;
            }
        }
        yield_now().await;
    }
}
