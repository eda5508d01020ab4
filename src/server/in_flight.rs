//! Operations that are running, also those whose client has gone.

use std::fmt;

use tokio::sync::watch;

/// The operations that a layer is running. Clones, and clones of the layer, share it.
///
/// ```
/// # async fn run(router: axum::Router, listener: tokio::net::TcpListener) -> std::io::Result<()> {
/// use idempotency::server::{IdempotencyLayer, MemoryStore, Scope};
///
/// let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::global());
/// let in_flight = layer.in_flight();
/// # async fn stop() {}
/// axum::serve(listener, router.route_layer(layer))
///     .with_graceful_shutdown(stop())
///     .await?;
/// // Handlers outlive their connections, so the end of the last connection is not the end.
/// in_flight.finished().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InFlight(watch::Sender<usize>);

impl InFlight {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// The number of operations that are running now.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until no operation is running. New ones are not kept from starting: stop accepting
    /// connections first.
    pub async fn finished(&self) {
        // The sender is `self`, so the channel cannot close.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(super) fn enter(&self) -> Running {
        self.0.send_modify(|count| *count += 1);
        Running(self.0.clone())
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.count()).finish()
    }
}

/// One running operation.
pub(super) struct Running(watch::Sender<usize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
