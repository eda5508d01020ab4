//! Renewing the lease while the handler lives.

use std::error::Error;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use super::operation::Lease;
use super::store::{Claim, Ownership, Store};

/// Renews the lease until it is dropped.
///
/// A task of its own: a handler that keeps its thread busy would starve a timer beside it.
pub(super) struct Heartbeat(AbortHandle);

impl Heartbeat {
    pub(super) fn start(store: Arc<dyn Store>, claim: Claim, lease: Lease) -> Self {
        let beating = beat(store, claim, lease).in_current_span();
        Self(tokio::spawn(beating).abort_handle())
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn beat(store: Arc<dyn Store>, claim: Claim, lease: Lease) {
    // Two beats may fail before the lease does.
    let every = claim.terms.lease / 3;
    loop {
        sleep(every).await;
        match timeout(every, store.heartbeat(&claim)).await {
            Ok(Ok(Ownership::Held)) => {}
            Ok(Ok(Ownership::Lost)) => {
                lease.lose();
                tracing::error!(
                    "the lease was lost while the handler was running: it may run twice"
                );
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn Error, "a heartbeat failed");
            }
            Err(_) => tracing::warn!("a heartbeat took longer than {every:?}"),
        }
    }
}
