//! The laws about claims, leases and owners.

use std::collections::HashSet;

use super::bench::{
    Bench, Broken, FIRST, LEASE, MOMENT, SECOND, fresh, is, record, request, rival, terms,
};
use crate::contract::IdempotencyKey;
use crate::server::ScopeId;
use crate::server::store::{Claim, Claimed, OnLeaseExpired, Ownership, Slot};

pub(super) async fn one_of_many(bench: Bench<'_>) -> Result<(), Broken> {
    let first = fresh();
    let claims: Vec<_> = (0..50).map(|_| rival(&first)).collect();
    let (mut owned, mut running) = (0, 0);
    let tasks: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            let store = bench.store.clone();
            tokio::spawn(async move { store.claim(&claim).await })
        })
        .collect();
    for task in tasks {
        match task.await.map_err(|error| Broken(error.to_string()))?? {
            FIRST => owned += 1,
            Claimed::Running => running += 1,
            other => return Err(Broken(format!("a claim was told {other:?}"))),
        }
    }
    is("owned and running", (owned, running), (1, 49))
}

pub(super) async fn own_claim(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    bench.claims("the first time", &claim, FIRST).await?;
    bench.claims("repeated", &claim, FIRST).await?;
    let rival = rival(&claim);
    bench.claims("a rival", &rival, Claimed::Running).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    bench.claims("a successor", &rival, SECOND).await?;
    bench.claims("a successor, repeated", &rival, SECOND).await
}

pub(super) async fn mismatch(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    let other = Claim::new(claim.slot.clone(), request(b"200"), terms());
    bench.claims("free", &claim, FIRST).await?;
    bench.claims("running", &other, Claimed::Mismatch).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    let what = "running, its lease passed";
    bench.claims(what, &other, Claimed::Mismatch).await?;
    let held = Ownership::Held;
    bench.completes("the owner", &claim, held).await?;
    bench.claims("completed", &other, Claimed::Mismatch).await
}

pub(super) async fn not_compared(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    let blind = Claim::new(claim.slot.clone(), None, terms());
    bench.claims("free", &claim, FIRST).await?;
    let what = "without a fingerprint";
    bench.claims(what, &blind, Claimed::Running).await?;
    let first = Claim::new(fresh().slot, None, terms());
    let second = Claim::new(first.slot.clone(), request(b"200"), terms());
    bench
        .claims("free, without a fingerprint", &first, FIRST)
        .await?;
    let what = "with a fingerprint on a row without";
    bench.claims(what, &second, Claimed::Running).await
}

pub(super) async fn leases(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    let rival = rival(&claim);
    bench.claims("free", &claim, FIRST).await?;
    for _ in 0..4 {
        bench.clock.advance(LEASE - MOMENT).await;
        let running = Claimed::Running;
        bench.claims("before its end", &rival, running).await?;
        let held = Ownership::Held;
        bench.beats("within the lease", &claim, held).await?;
    }
    bench.clock.advance(LEASE + MOMENT).await;
    let what = "a heartbeat after the lease, before a successor";
    bench.beats(what, &claim, Ownership::Held).await?;
    bench.claims("after that", &rival, Claimed::Running).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    let what = "the owner's claim renews the lease too";
    bench.claims(what, &claim, FIRST).await?;
    bench.claims("after that", &rival, Claimed::Running).await
}

pub(super) async fn taken_over(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    bench.claims("free", &claim, FIRST).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (store, rival) = (bench.store.clone(), rival(&claim));
            tokio::spawn(async move { store.claim(&rival).await })
        })
        .collect();
    let mut owned = 0;
    for task in tasks {
        match task.await.map_err(|error| Broken(error.to_string()))?? {
            SECOND => owned += 1,
            Claimed::Running => {}
            other => return Err(Broken(format!("a claim was told {other:?}"))),
        }
    }
    is("successors of one owner", owned, 1)
}

pub(super) async fn blocked(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    let mut rival = rival(&claim);
    rival.terms.on_expired = OnLeaseExpired::Block;
    bench.claims("free", &claim, FIRST).await?;
    bench.claims("leased", &rival, Claimed::Running).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    let abandoned = Claimed::Abandoned;
    bench.claims("passed", &rival, abandoned.clone()).await?;
    bench.claims("passed, again", &rival, abandoned).await?;
    let what = "the late owner, without a successor";
    bench.completes(what, &claim, Ownership::Held).await
}

pub(super) async fn late_owner(bench: Bench<'_>) -> Result<(), Broken> {
    let late = fresh();
    let (successor, third) = (rival(&late), rival(&late));
    bench.claims("free", &late, FIRST).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    bench.claims("the successor", &successor, SECOND).await?;
    let lost = Ownership::Lost;
    bench.beats("a late heartbeat", &late, lost).await?;
    bench.completes("a late completion", &late, lost).await?;
    bench.releases("a late release", &late, lost).await?;
    let what = "a third claim after all that";
    bench.claims(what, &third, Claimed::Running).await?;
    let held = Ownership::Held;
    bench.completes("the successor", &successor, held).await?;
    bench
        .completes("a late completion, then", &late, lost)
        .await?;
    bench.releases("a late release, then", &late, lost).await?;
    let completed = Claimed::Completed(record());
    bench.claims("a third claim, then", &third, completed).await
}

pub(super) async fn apart(bench: Bench<'_>) -> Result<(), Broken> {
    let long = "k".repeat(IdempotencyKey::MAX_LENGTH);
    let random = IdempotencyKey::random().to_string();
    let mut slots = HashSet::new();
    for scope in [ScopeId::of(["laws", &random]), ScopeId::of([&random])] {
        for text in ["k-1", "K-1", "k-1.", "../k-1", "';DROP--", "\"k-1\"", &long] {
            if let Ok(key) = IdempotencyKey::parse(text) {
                slots.insert(Slot { scope, key });
            }
        }
    }
    is("slots", slots.len(), 14)?;
    for slot in slots {
        let claim = Claim::new(slot, request(b"100"), terms());
        bench.claims("a slot of its own", &claim, FIRST).await?;
    }
    Ok(())
}
