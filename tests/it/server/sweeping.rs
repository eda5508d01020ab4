//! Rows whose time has passed go away, by themselves and on demand.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use idempotency::server::{IdempotencyLayer, MemoryStore, Scope, Store as _, Sweeper};

use super::app::{App, Ask};

const HOUR: Duration = Duration::from_secs(3600);

async fn filled() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let app = App::orders(IdempotencyLayer::new(store.clone(), Scope::global()).keep(HOUR));
    for number in 0..25 {
        app.send(Ask::post(&format!("k-{number}"))).await;
    }
    assert_eq!(store.len(), 25);
    store
}

#[tokio::test(start_paused = true)]
async fn ended_rows_are_swept_in_the_background_in_batches() {
    let store = filled().await;
    let batch = NonZeroU32::new(10).unwrap();
    let sweeper = Sweeper::start(store.clone(), Duration::from_secs(60), batch);
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(store.len(), 25);
    tokio::time::sleep(HOUR / 2 + Duration::from_secs(61)).await;
    assert!(store.is_empty());
    drop(sweeper);
}

#[tokio::test(start_paused = true)]
async fn ended_rows_are_swept_on_demand_and_no_more_than_asked_for() {
    let store = filled().await;
    let batch = NonZeroU32::new(10).unwrap();
    assert_eq!(store.sweep(batch).await.unwrap(), 0);
    tokio::time::advance(HOUR).await;
    for removed in [10, 10, 5, 0] {
        assert_eq!(store.sweep(batch).await.unwrap(), removed);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_sweeper_ends_the_sweeping() {
    let store = filled().await;
    drop(Sweeper::start(
        store.clone(),
        Duration::from_secs(60),
        NonZeroU32::MIN,
    ));
    tokio::time::sleep(HOUR * 2).await;
    assert_eq!(store.len(), 25);
}
