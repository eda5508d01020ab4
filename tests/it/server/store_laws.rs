//! The laws of stores, on ours, and on stores that break them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotency::server::store::{Claim, Claimed, Ownership, Record, StoreError};
use idempotency::server::{MemoryStore, Store};
use idempotency::testing::laws;

use super::bed::{Bed, PausedClock, on_both_stores};

async fn the_store_keeps_its_laws(bed: Bed) {
    laws::check(bed.store.clone(), &*bed.clock)
        .await
        .assert_kept();
}

on_both_stores!(the_store_keeps_its_laws);

/// How a store may be wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// B84: a claim is written over whatever stands there.
    PlainSet,
    /// Looks first and claims later.
    CheckThenAct,
    /// B87: does not know its own claim again.
    ForgetsOwner,
    /// B86: looks at the state before the request.
    StateFirst,
    /// B98: anybody may complete or release.
    NoFencing,
    /// Leases never end.
    EternalLease,
    /// Heartbeats do nothing.
    DeafToHeartbeats,
    /// B112, B117: bodies go through text.
    TextBodies,
    /// A release is forgotten.
    NoRelease,
    /// Sweeps do not keep to their limit.
    GreedySweep,
    /// Keys are folded to lower case.
    FoldsCase,
}

/// A memory store with one fault.
struct Faulty(MemoryStore, Fault);

#[async_trait]
impl Store for Faulty {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let mut claim = claim.clone();
        match self.1 {
            Fault::PlainSet => return Ok(Claimed::Owned { run: 1 }),
            Fault::FoldsCase => {
                let folded = claim.slot.key.as_str().to_lowercase();
                claim.slot.key = folded.parse().unwrap();
            }
            Fault::ForgetsOwner => claim.owner = idempotency::server::store::OwnerToken::random(),
            Fault::EternalLease => claim.terms.lease = Duration::from_secs(1_000_000),
            _ => {}
        }
        let claimed = self.0.claim(&claim).await?;
        if self.1 == Fault::CheckThenAct && claimed == Claimed::Running {
            tokio::task::yield_now().await;
            return Ok(Claimed::Owned { run: 1 });
        }
        if self.1 == Fault::StateFirst && claimed == Claimed::Mismatch {
            return Ok(Claimed::Running);
        }
        Ok(claimed)
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        match self.1 {
            Fault::DeafToHeartbeats => Ok(Ownership::Held),
            _ => self.0.heartbeat(claim).await,
        }
    }

    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        let mut record = record.clone();
        if self.1 == Fault::TextBodies {
            let text = record
                .body
                .map(|body| String::from_utf8_lossy(&body).into_owned());
            record.body = text.map(Into::into);
        }
        let owned = self.0.complete(claim, &record).await?;
        match self.1 {
            Fault::NoFencing => Ok(Ownership::Held),
            _ => Ok(owned),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        match self.1 {
            Fault::NoRelease => Ok(Ownership::Held),
            _ => self.0.release(claim).await,
        }
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        match self.1 {
            Fault::GreedySweep => self.0.sweep(NonZeroU32::MAX).await,
            _ => self.0.sweep(limit).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_breaks_the_law_that_forbids_it() {
    for (fault, law) in [
        (Fault::PlainSet, "of fifty claims at once one is owned"),
        (Fault::CheckThenAct, "of fifty claims at once one is owned"),
        (
            Fault::ForgetsOwner,
            "a repeated claim is recognised by its owner",
        ),
        (
            Fault::StateFirst,
            "another request is a mismatch, running or completed",
        ),
        (Fault::NoFencing, "a late owner changes nothing"),
        (
            Fault::EternalLease,
            "a passed lease is taken over by one claim",
        ),
        (
            Fault::DeafToHeartbeats,
            "a lease holds until it ends, and heartbeats renew it",
        ),
        (
            Fault::TextBodies,
            "a completed answer comes back byte for byte",
        ),
        (Fault::NoRelease, "a released slot is free"),
        (
            Fault::GreedySweep,
            "sweeping removes what has ended and nothing else",
        ),
        (
            Fault::FoldsCase,
            "scopes do not meet, and keys are their exact bytes",
        ),
    ] {
        let store = Arc::new(Faulty(MemoryStore::new(), fault));
        let report = laws::check(store, &PausedClock).await;
        assert!(
            report.broken().any(|broken| broken == law),
            "{law}\n{report}"
        );
        assert!(!report.is_kept());
        assert!(
            report.to_string().contains(&format!("BROKEN  {law}: ")),
            "{report}"
        );
    }
}
