//! A row, and what it means to a claim.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::server::store::{Claim, Claimed, OnLeaseExpired, OwnerToken, Record};

/// A row as it was found.
pub(super) struct Found {
    pub(super) owner: OwnerToken,
    fingerprint: Option<Vec<u8>>,
    /// Running, with the lock on the row as its lease.
    pub(super) locked: bool,
    /// Running, with a lease that has not passed.
    live: bool,
    ended: bool,
    pub(super) record: Option<Record>,
}

/// What a claim has to do about a row.
pub(super) enum Next {
    Answer(Claimed),
    /// Its time has passed: remove it.
    Ended,
    /// It is this claim's already.
    Ours,
    /// Its owner is gone, or will turn out not to be.
    TakeOver,
}

impl Found {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            owner: OwnerToken::from_uuid(row.try_get("owner")?),
            fingerprint: row.try_get("fingerprint")?,
            locked: row.try_get("locked")?,
            live: row.try_get("live")?,
            ended: row.try_get("ended")?,
            record: record(row)?,
        })
    }

    pub(super) fn next(&self, claim: &Claim) -> Next {
        if self.ended {
            return Next::Ended;
        }
        if let (Some(theirs), Some(ours)) = (&self.fingerprint, &claim.fingerprint)
            && theirs != ours.as_bytes()
        {
            return Next::Answer(Claimed::Mismatch);
        }
        if let Some(record) = &self.record {
            return Next::Answer(Claimed::Completed(record.clone()));
        }
        if self.owner == claim.owner {
            return Next::Ours;
        }
        if self.live {
            return Next::Answer(Claimed::Running);
        }
        // Of a transaction that ended without its record nothing is left: it can always run again.
        match claim.terms.on_expired {
            OnLeaseExpired::Block if !self.locked => Next::Answer(Claimed::Abandoned),
            _ => Next::TakeOver,
        }
    }
}

fn record(row: &PgRow) -> Result<Option<Record>, sqlx::Error> {
    let Some(status) = row.try_get::<Option<i16>, _>("status")? else {
        return Ok(None);
    };
    let names: Vec<String> = row.try_get("header_names")?;
    let values: Vec<Vec<u8>> = row.try_get("header_values")?;
    let mut headers = HeaderMap::with_capacity(names.len());
    for (name, value) in names.iter().zip(&values) {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(not_ours)?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(not_ours)?);
    }
    let status = u16::try_from(status).map_err(not_ours)?;
    Ok(Some(Record {
        status: StatusCode::from_u16(status).map_err(not_ours)?,
        headers,
        body: row.try_get::<Option<Vec<u8>>, _>("body")?.map(Bytes::from),
    }))
}

/// Somebody else has written into the table.
fn not_ours(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
