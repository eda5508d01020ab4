//! Crashed owners, slow owners and late ones.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use http::Method;
use idempotency::contract::{Fingerprint, problem};
use idempotency::server::store::{Claim, Claimed, Ownership, Record, Slot, StoreError, Terms};
use idempotency::server::{IdempotencyLayer, OnLeaseExpired, Operation, Scope, ScopeId, Store};

use super::app::{App, Ask, order};
use super::bed::{Bed, on_both_stores};
use crate::support::Gate;

on_both_stores!(
    after_a_crash_the_operation_runs_again_once_the_lease_has_passed,
    after_a_crash_a_blocked_operation_is_never_run_again,
    a_slow_handler_keeps_its_lease,
    a_late_owner_is_told_the_one_recorded_answer,
    a_late_owner_that_ends_after_its_successor_is_told_the_successors_answer,
    a_late_owner_whose_successor_gave_up_has_its_answer_recorded,
);

/// A claim like the layer's, whose owner dies at once.
async fn dead_owner(bed: &Bed, key: &str) -> Claim {
    let slot = Slot {
        scope: ScopeId::of::<[&str; 0]>([]),
        key: key.parse().unwrap(),
    };
    let json = Some(&b"application/json"[..]);
    let request = Fingerprint::of(&Method::POST, "/orders", json, br#"{"amount":100}"#);
    let terms = Terms {
        lease: bed.lease,
        keep: bed.lease * 1000,
        on_expired: OnLeaseExpired::Rerun,
    };
    let claim = Claim::new(slot, Some(request), terms);
    let claimed = bed.store.claim(&claim).await.unwrap();
    assert_eq!(claimed, Claimed::Owned { run: 1 });
    claim
}

// B95, B96.
async fn after_a_crash_the_operation_runs_again_once_the_lease_has_passed(bed: Bed) {
    let runs = Arc::new(AtomicU32::new(0));
    let app = App::new(bed.layer(), {
        let runs = runs.clone();
        move |operation: Operation| async move {
            runs.store(operation.run(), Ordering::SeqCst);
            order(1)
        }
    });
    dead_owner(&bed, "k-1").await;
    app.send(Ask::post("k-1")).await.assert_in_progress();
    bed.advance(bed.lease * 2).await;
    // Another request is still another request.
    let other = app.send(Ask::post("k-1").body("{}")).await;
    other.assert_problem(422, problem::KEY_REUSED);
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!((app.runs(), runs.load(Ordering::SeqCst)), (1, 2));
}

// B96.
async fn after_a_crash_a_blocked_operation_is_never_run_again(bed: Bed) {
    let app = App::orders(bed.layer().on_lease_expired(OnLeaseExpired::Block));
    let late = dead_owner(&bed, "k-1").await;
    app.send(Ask::post("k-1")).await.assert_in_progress();
    bed.advance(bed.lease * 2).await;
    for _ in 0..2 {
        let refused = app.send(Ask::post("k-1")).await;
        refused.assert_problem(500, problem::OUTCOME_UNKNOWN);
    }
    assert_eq!(app.runs(), 0);
    // It was not dead after all, only late.
    let record = Record {
        status: http::StatusCode::OK,
        headers: http::HeaderMap::new(),
        body: Some("late".into()),
    };
    let kept = bed.store.complete(&late, &record).await.unwrap();
    assert_eq!(kept, Ownership::Held);
    let replay = app.send(Ask::post("k-1")).await;
    assert_eq!((replay.is_replay(), &*replay.body), (true, &b"late"[..]));
}

// B97.
async fn a_slow_handler_keeps_its_lease(bed: Bed) {
    let gate = Gate::new();
    let app = App::gated(bed.layer().lease(bed.short_lease), &gate);
    let first = app.spawn(Ask::post("k-1"));
    gate.reached().await;
    for _ in 0..3 {
        tokio::time::sleep(bed.short_lease * 2 / 3).await;
        app.send(Ask::post("k-1")).await.assert_in_progress();
    }
    gate.open();
    first.await.unwrap().assert_order(1, false);
    assert_eq!(app.runs(), 1);
}

/// A store whose heartbeats do not arrive while it is cut off.
struct CutOff(Arc<dyn Store>, Arc<AtomicBool>);

#[async_trait]
impl Store for CutOff {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.0.claim(claim).await
    }
    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(StoreError::new("cut off")),
            false => self.0.heartbeat(claim).await,
        }
    }
    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        self.0.complete(claim, record).await
    }
    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        self.0.release(claim).await
    }
    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        self.0.sweep(limit).await
    }
}

/// Two processes on one store, of which the first loses it for longer than its lease while its handler runs.
struct TwoProcesses {
    slow: App,
    next: App,
    slow_gate: Gate,
    next_gate: Gate,
    slow_answer: tokio::task::JoinHandle<super::app::Answer>,
    next_answer: tokio::task::JoinHandle<super::app::Answer>,
}

async fn two_processes(bed: &Bed, next_status: u16) -> TwoProcesses {
    let (slow_gate, next_gate) = (Gate::new(), Gate::new());
    let cut_off = CutOff(bed.store.clone(), Arc::new(AtomicBool::new(true)));
    let layer = IdempotencyLayer::new(cut_off, Scope::global()).lease(bed.lease);
    let slow = App::gated(layer, &slow_gate);
    let next = App::new(bed.layer(), {
        let gate = next_gate.clone();
        move || async move {
            gate.pass().await;
            let mut answer = order(2);
            *answer.status_mut() = http::StatusCode::from_u16(next_status).unwrap();
            answer
        }
    });
    let slow_answer = slow.spawn(Ask::post("k-1"));
    slow_gate.reached().await;
    next.send(Ask::post("k-1")).await.assert_in_progress();
    bed.advance(bed.lease * 2).await;
    let next_answer = next.spawn(Ask::post("k-1"));
    next_gate.reached().await;
    TwoProcesses {
        slow,
        next,
        slow_gate,
        next_gate,
        slow_answer,
        next_answer,
    }
}

// B98: one answer is recorded, whoever comes first, and everybody is told that one.
async fn a_late_owner_is_told_the_one_recorded_answer(bed: Bed) {
    let both = two_processes(&bed, 201).await;
    // The late one ends while its successor runs: its result is not stored, and the claim not freed.
    both.slow_gate.open();
    both.slow_answer.await.unwrap().assert_in_progress();
    both.next.send(Ask::post("k-1")).await.assert_in_progress();
    both.next_gate.open();
    both.next_answer.await.unwrap().assert_order(2, false);
    both.slow.send(Ask::post("k-1")).await.assert_order(2, true);
    assert_eq!((both.slow.runs(), both.next.runs()), (1, 1));
}

async fn a_late_owner_whose_successor_gave_up_has_its_answer_recorded(bed: Bed) {
    let both = two_processes(&bed, 503).await;
    both.next_gate.open();
    assert_eq!(both.next_answer.await.unwrap().status, 503);
    both.slow_gate.open();
    both.slow_answer.await.unwrap().assert_order(1, false);
    both.next.send(Ask::post("k-1")).await.assert_order(1, true);
}

// B98.
async fn a_late_owner_that_ends_after_its_successor_is_told_the_successors_answer(bed: Bed) {
    let both = two_processes(&bed, 201).await;
    both.next_gate.open();
    both.next_answer.await.unwrap().assert_order(2, false);
    both.slow_gate.open();
    both.slow_answer.await.unwrap().assert_order(2, true);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_see_that_it_has_lost_its_claim() {
    let bed = Bed::memory();
    let cut = Arc::new(AtomicBool::new(false));
    let cut_off = CutOff(bed.store.clone(), cut.clone());
    let layer = IdempotencyLayer::new(cut_off, Scope::global()).lease(bed.lease);
    let (seen, next) = (
        Arc::new(std::sync::Mutex::new(Vec::new())),
        App::orders(bed.layer()),
    );
    let app = App::new(layer, {
        let (seen, lease, next) = (seen.clone(), bed.lease, next.clone());
        move |operation: Operation| async move {
            let look = || seen.lock().unwrap().push(operation.is_ours());
            look();
            tokio::time::sleep(lease * 2).await;
            look();
            cut.store(true, Ordering::SeqCst);
            tokio::time::sleep(lease * 2).await;
            next.send(Ask::post("k-1")).await.assert_order(1, false);
            cut.store(false, Ordering::SeqCst);
            tokio::time::sleep(lease).await;
            look();
            order(2)
        }
    });
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!(*seen.lock().unwrap(), [true, true, false]);
}
