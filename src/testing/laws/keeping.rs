//! The laws about answers.

use std::num::NonZeroU32;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::bench::{
    Bench, Broken, FIRST, KEEP, LEASE, MOMENT, fresh, is, record, request, rival, terms,
};
use crate::server::store::{Claim, Claimed, Ownership, Record};

pub(super) async fn answers(bench: Bench<'_>) -> Result<(), Broken> {
    let empty = Record {
        status: StatusCode::NO_CONTENT,
        headers: HeaderMap::new(),
        body: Some(Bytes::new()),
    };
    let not_kept = Record {
        body: None,
        ..record()
    };
    for record in [record(), empty, not_kept] {
        let claim = fresh();
        bench.claims("free", &claim, FIRST).await?;
        let kept = bench.store.complete(&claim, &record).await?;
        is("completing", kept, Ownership::Held)?;
        let Claimed::Completed(read) = bench.store.claim(&rival(&claim)).await? else {
            return Err(Broken("a completed slot gave no answer".into()));
        };
        // `Debug` of a record shows sizes only, and the laws are about bytes.
        is("status", read.status, record.status)?;
        is("headers", &read.headers, &record.headers)?;
        is("body", &read.body, &record.body)?;
    }
    Ok(())
}

pub(super) async fn completed(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    bench.claims("free", &claim, FIRST).await?;
    bench
        .completes("the owner", &claim, Ownership::Held)
        .await?;
    let other = Record {
        status: StatusCode::OK,
        ..record()
    };
    let again = bench.store.complete(&claim, &other).await?;
    is("completed again", again, Ownership::Held)?;
    let lost = Ownership::Lost;
    bench.releases("its release", &claim, lost).await?;
    bench.beats("its heartbeat", &claim, lost).await?;
    bench.clock.advance(LEASE + MOMENT).await;
    let first = Claimed::Completed(record());
    bench
        .claims("a rival", &rival(&claim), first.clone())
        .await?;
    bench.claims("its owner", &claim, first).await
}

pub(super) async fn released(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    bench.claims("free", &claim, FIRST).await?;
    bench.releases("the owner", &claim, Ownership::Held).await?;
    bench.releases("once more", &claim, Ownership::Lost).await?;
    bench
        .completes("completing it", &claim, Ownership::Lost)
        .await?;
    let other = Claim::new(claim.slot.clone(), request(b"200"), terms());
    bench.claims("another request", &other, FIRST).await?;
    bench
        .releases("the old owner", &claim, Ownership::Lost)
        .await?;
    let rival = rival(&other);
    bench.claims("a rival", &rival, Claimed::Running).await
}

pub(super) async fn answers_end(bench: Bench<'_>) -> Result<(), Broken> {
    let claim = fresh();
    bench.claims("free", &claim, FIRST).await?;
    bench.clock.advance(LEASE - MOMENT).await;
    bench
        .completes("the owner", &claim, Ownership::Held)
        .await?;
    bench.clock.advance(KEEP - MOMENT).await;
    let kept = Claimed::Completed(record());
    bench.claims("before its end", &rival(&claim), kept).await?;
    bench.clock.advance(MOMENT * 2).await;
    let other = Claim::new(claim.slot.clone(), request(b"200"), terms());
    bench.claims("after its end", &other, FIRST).await
}

pub(super) async fn sweeping(bench: Bench<'_>) -> Result<(), Broken> {
    let (ended, kept, leased) = ([fresh(), fresh(), fresh()], fresh(), fresh());
    for claim in &ended {
        bench.claims("free", claim, FIRST).await?;
        bench.completes("the owner", claim, Ownership::Held).await?;
    }
    bench.clock.advance(KEEP + MOMENT).await;
    bench.claims("free", &kept, FIRST).await?;
    bench.completes("the owner", &kept, Ownership::Held).await?;
    bench.claims("free", &leased, FIRST).await?;
    let mut removed = 0;
    loop {
        let batch = bench.store.sweep(NonZeroU32::MIN).await?;
        removed += batch;
        match batch {
            0 => break,
            1 => {}
            more => return Err(Broken(format!("a batch of 1 removed {more}"))),
        }
    }
    is("the ended ones were removed", removed >= 3, true)?;
    let completed = Claimed::Completed(record());
    bench
        .claims("the kept one", &rival(&kept), completed)
        .await?;
    let running = Claimed::Running;
    bench
        .claims("the leased one", &rival(&leased), running)
        .await
}
