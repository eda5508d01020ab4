//! Time as the code under test sees it.

use std::time::Duration;

use tokio::time::Instant;

/// Awaits `work` and tells how long it took on tokio's clock.
///
/// Under a paused clock the duration is exact: only timers move that clock, loopback traffic takes no time.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let output = work.await;
    (output, start.elapsed())
}
