//! The bench on which a law is checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::Clock;
use crate::contract::{Fingerprint, IdempotencyKey};
use crate::server::ScopeId;
use crate::server::store::{
    Claim, Claimed, OnLeaseExpired, Ownership, Record, Slot, Store, StoreError, Terms,
};

pub(super) const LEASE: Duration = Duration::from_secs(2);
pub(super) const KEEP: Duration = Duration::from_secs(10);
pub(super) const MOMENT: Duration = Duration::from_millis(500);

/// How a law is broken.
pub(super) struct Broken(pub(super) String);

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Self(format!("{error:?}"))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) clock: &'a dyn Clock,
}

pub(super) fn is<T: PartialEq + fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), Broken> {
    match got == expected {
        true => Ok(()),
        false => Err(Broken(format!("{what}: {got:?} instead of {expected:?}"))),
    }
}

impl Bench<'_> {
    pub(super) async fn claims(
        &self,
        what: &str,
        claim: &Claim,
        expected: Claimed,
    ) -> Result<(), Broken> {
        is(what, self.store.claim(claim).await?, expected)
    }

    pub(super) async fn completes(
        &self,
        what: &str,
        claim: &Claim,
        as_: Ownership,
    ) -> Result<(), Broken> {
        is(what, self.store.complete(claim, &record()).await?, as_)
    }

    pub(super) async fn beats(
        &self,
        what: &str,
        claim: &Claim,
        as_: Ownership,
    ) -> Result<(), Broken> {
        is(what, self.store.heartbeat(claim).await?, as_)
    }

    pub(super) async fn releases(
        &self,
        what: &str,
        claim: &Claim,
        as_: Ownership,
    ) -> Result<(), Broken> {
        is(what, self.store.release(claim).await?, as_)
    }
}

pub(super) const FIRST: Claimed = Claimed::Owned { run: 1 };
pub(super) const SECOND: Claimed = Claimed::Owned { run: 2 };

pub(super) fn request(body: &[u8]) -> Option<Fingerprint> {
    Some(Fingerprint::of(&Method::POST, "/orders", None, body))
}

pub(super) fn terms() -> Terms {
    Terms {
        lease: LEASE,
        keep: KEEP,
        on_expired: OnLeaseExpired::Rerun,
    }
}

pub(super) fn fresh() -> Claim {
    let slot = Slot {
        scope: ScopeId::of(["laws"]),
        key: IdempotencyKey::random(),
    };
    Claim::new(slot, request(b"100"), terms())
}

/// Another claim on the same slot, with the same request.
pub(super) fn rival(of: &Claim) -> Claim {
    Claim::new(of.slot.clone(), of.fingerprint, of.terms)
}

pub(super) fn record() -> Record {
    let mut headers = HeaderMap::new();
    headers.append(header::LINK, HeaderValue::from_static("</1>"));
    headers.append(header::LINK, HeaderValue::from_static("</2>"));
    let latin_1 = HeaderValue::from_bytes(b"caf\xe9").unwrap_or(HeaderValue::from_static(""));
    headers.insert(header::CONTENT_DISPOSITION, latin_1);
    Record {
        status: StatusCode::CREATED,
        headers,
        body: Some(Bytes::from_static(b"\xff\xfe\x00A")),
    }
}
