//! The store fails: before, between and after.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idempotency::contract::problem;
use idempotency::server::store::{Claim, Claimed, Ownership, Record, StoreError};
use idempotency::server::{
    IdempotencyLayer, MemoryStore, OnFailure, OnStoreFailure, Scope, Store, UNPROTECTED,
};

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};
use crate::support::timed;

on_both_stores!(
    a_claim_whose_acknowledgement_was_lost_is_ours,
    an_answer_whose_acknowledgement_was_lost_is_kept_once,
    a_release_whose_acknowledgement_was_lost_is_a_release,
    without_the_store_nothing_runs,
    a_claim_of_a_refused_request_does_not_stay_behind,
    where_that_is_chosen_the_handler_runs_unprotected_and_says_so,
    an_answer_that_cannot_be_kept_reaches_its_client_and_leaves_the_key_to_its_lease,
);

/// A store that takes effect and then fails, so many times for each method.
#[derive(Clone)]
struct Flaky(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    /// Failures after the effect.
    claims: AtomicU32,
    completions: AtomicU32,
    releases: AtomicU32,
    /// Failures before any effect, of claims.
    refused_claims: AtomicU32,
}

impl Flaky {
    fn new(bed: &Bed) -> Self {
        Self(Arc::new(Inner {
            store: bed.store.clone(),
            claims: AtomicU32::new(0),
            completions: AtomicU32::new(0),
            releases: AtomicU32::new(0),
            refused_claims: AtomicU32::new(0),
        }))
    }

    fn layer(&self, bed: &Bed) -> IdempotencyLayer<Self> {
        IdempotencyLayer::new(self.clone(), Scope::global()).lease(bed.lease)
    }
}

fn fail(times: &AtomicU32) -> Result<(), StoreError> {
    let left = |left: u32| left.checked_sub(1);
    match times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left) {
        Ok(_) => Err(StoreError::new("the connection was reset")),
        Err(_) => Ok(()),
    }
}

#[async_trait]
impl Store for Flaky {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        fail(&self.0.refused_claims)?;
        let claimed = self.0.store.claim(claim).await?;
        fail(&self.0.claims).map(|()| claimed)
    }
    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        self.0.store.heartbeat(claim).await
    }
    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        // 1000 stands for an outage: nothing takes effect.
        if self.0.completions.load(Ordering::SeqCst) >= 1000 {
            return Err(StoreError::new("the database is down"));
        }
        let kept = self.0.store.complete(claim, record).await?;
        fail(&self.0.completions).map(|()| kept)
    }
    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        let released = self.0.store.release(claim).await?;
        fail(&self.0.releases).map(|()| released)
    }
    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        self.0.store.sweep(limit).await
    }
}

// B87.
async fn a_claim_whose_acknowledgement_was_lost_is_ours(bed: Bed) {
    let store = Flaky::new(&bed);
    let app = App::orders(store.layer(&bed));
    store.0.claims.store(1, Ordering::SeqCst);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

// B125.
async fn an_answer_whose_acknowledgement_was_lost_is_kept_once(bed: Bed) {
    let store = Flaky::new(&bed);
    let app = App::orders(store.layer(&bed));
    store.0.completions.store(2, Ordering::SeqCst);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

async fn a_release_whose_acknowledgement_was_lost_is_a_release(bed: Bed) {
    let store = Flaky::new(&bed);
    let app = App::new(store.layer(&bed), || async {
        http::StatusCode::BAD_GATEWAY
    });
    store.0.releases.store(1, Ordering::SeqCst);
    for runs in 1..=2 {
        assert_eq!(app.send(Ask::post("k-1")).await.status, 502);
        assert_eq!(app.runs(), runs);
    }
}

// B92.
async fn without_the_store_nothing_runs(bed: Bed) {
    let store = Flaky::new(&bed);
    let layer = store.layer(&bed).retry_after(Duration::from_secs(7));
    let app = App::orders(layer);
    store.0.refused_claims.store(3, Ordering::SeqCst);
    let refused = app.send(Ask::post("k-1")).await;
    refused.assert_problem(503, problem::STORE_UNAVAILABLE);
    assert_eq!(refused.header("retry-after"), Some("7"));
    assert_eq!(app.runs(), 0);
    // The store is back.
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
}

async fn a_claim_of_a_refused_request_does_not_stay_behind(bed: Bed) {
    let store = Flaky::new(&bed);
    let app = App::orders(store.layer(&bed).wait_for_running(Duration::from_secs(5)));
    // Written three times, and never heard of.
    store.0.claims.store(3, Ordering::SeqCst);
    let refused = app.send(Ask::post("k-1")).await;
    refused.assert_problem(503, problem::STORE_UNAVAILABLE);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    assert_eq!(app.runs(), 1);
}

// B92.
async fn where_that_is_chosen_the_handler_runs_unprotected_and_says_so(bed: Bed) {
    let store = Flaky::new(&bed);
    let layer = store
        .layer(&bed)
        .on_store_failure(OnStoreFailure::RunUnprotected);
    let app = App::orders(layer);
    store.0.refused_claims.store(3, Ordering::SeqCst);
    let unprotected = app.send(Ask::post("k-1")).await;
    unprotected.assert_order(1, false);
    assert_eq!(unprotected.headers[UNPROTECTED], "true");
    let protected = app.send(Ask::post("k-1")).await;
    protected.assert_order(2, false);
    assert!(!protected.headers.contains_key(UNPROTECTED));
    app.send(Ask::post("k-1")).await.assert_order(2, true);
}

// B125.
async fn an_answer_that_cannot_be_kept_reaches_its_client_and_leaves_the_key_to_its_lease(
    bed: Bed,
) {
    let store = Flaky::new(&bed);
    let app = App::orders(store.layer(&bed));
    store.0.completions.store(1000, Ordering::SeqCst);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    store.0.completions.store(0, Ordering::SeqCst);
    // It was not released: that would invite a second run at once.
    app.send(Ask::post("k-1")).await.assert_in_progress();
    assert_eq!(app.runs(), 1);
    bed.advance(bed.lease * 2).await;
    app.send(Ask::post("k-1")).await.assert_order(2, false);
}

/// A store that never answers.
struct Silent;

#[async_trait]
impl Store for Silent {
    async fn claim(&self, _: &Claim) -> Result<Claimed, StoreError> {
        std::future::pending().await
    }
    async fn heartbeat(&self, _: &Claim) -> Result<Ownership, StoreError> {
        std::future::pending().await
    }
    async fn complete(&self, _: &Claim, _: &Record) -> Result<Ownership, StoreError> {
        std::future::pending().await
    }
    async fn release(&self, _: &Claim) -> Result<Ownership, StoreError> {
        std::future::pending().await
    }
    async fn sweep(&self, _: NonZeroU32) -> Result<u32, StoreError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_not_waited_for_longer_than_the_timeout() {
    let layer = IdempotencyLayer::new(Silent, Scope::global());
    let app = App::orders(layer.store_timeout(Duration::from_secs(3)));
    let (refused, took) = timed(app.send(Ask::post("k-1"))).await;
    refused.assert_problem(503, problem::STORE_UNAVAILABLE);
    assert_eq!((took, app.runs()), (Duration::from_secs(3), 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_memory_store_drops_old_answers_and_never_what_is_running() {
    let store = Arc::new(MemoryStore::bounded(3, 1 << 20));
    let layer = IdempotencyLayer::new(store.clone(), Scope::global());
    let held = App::new(layer.clone().on_server_error(OnFailure::Hold), || async {
        http::StatusCode::BAD_GATEWAY
    });
    let app = App::orders(layer);
    assert_eq!(held.send(Ask::post("running-1")).await.status, 502);
    assert_eq!(held.send(Ask::post("running-2")).await.status, 502);
    app.send(Ask::post("a")).await.assert_order(1, false);
    app.send(Ask::post("b")).await.assert_order(2, false);
    // `a` had to go for `b`.
    app.send(Ask::post("b")).await.assert_order(2, true);
    app.send(Ask::post("a")).await.assert_order(3, false);
    for key in ["running-1", "running-2"] {
        app.send(Ask::post(key)).await.assert_in_progress();
    }
    assert_eq!(store.len(), 3);
    assert_eq!(held.send(Ask::post("running-3")).await.status, 502);
    let full = app.send(Ask::post("c")).await;
    full.assert_problem(503, problem::STORE_UNAVAILABLE);
    // What died and was forgotten makes room.
    tokio::time::advance(Duration::from_secs(60 * 60 * 48)).await;
    app.send(Ask::post("c")).await.assert_order(4, false);
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_memory_store_is_bounded_in_bytes_too() {
    let store = Arc::new(MemoryStore::bounded(100, 1000));
    let layer = IdempotencyLayer::new(store.clone(), Scope::global());
    let app = App::new(layer, |body: String| async move {
        vec![0_u8; body.parse().unwrap()]
    });
    let ask = |size: &str| Ask::post(size).body(size.to_owned());
    for size in ["300", "301", "302"] {
        assert!(!app.send(ask(size)).await.is_replay());
    }
    assert_eq!(store.len(), 2);
    assert!(app.send(ask("302")).await.is_replay());
    assert!(!app.send(ask("300")).await.is_replay());
    // An answer that is larger than all of it is remembered without its body.
    assert_eq!(app.send(ask("2000")).await.body.len(), 2000);
    let refused = app.send(ask("2000")).await;
    refused.assert_problem(409, problem::ANSWER_NOT_KEPT);
    assert!(format!("{store:?}").contains("rows: "));
}
