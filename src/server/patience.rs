//! Asking a store again.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::store::StoreError;

/// The store did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct TooSlow(Duration);

/// Asks up to `times` times, within `limit` in all. Every method of a store can be repeated with the
/// same claim.
pub(super) async fn patiently<T, F>(
    times: u32,
    limit: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let asking = async {
        let mut wait = Duration::from_millis(25);
        for _ in 1..times {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "asking again")
                }
            }
            sleep(wait).await;
            wait *= 2;
        }
        ask().await
    };
    match timeout(limit, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::new(TooSlow(limit))),
    }
}
