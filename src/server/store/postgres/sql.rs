//! The statements. Times are the database's, so processes need not agree on theirs.

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::millis;
use crate::server::store::{Claim, Record};

/// $1 scope, $2 key, $3 owner, $4 fingerprint, $5 lease in ms or null, $6 keep in ms.
///
/// A row that is there is seen by reading. Without that condition the insert would meet it in the
/// index and, where a transaction has written to it and not yet committed, wait for that one. A row
/// that is being inserted at this moment is still waited for: it may be rolled back.
pub(super) const INSERT: &str = "
    INSERT INTO idempotency_keys (scope, key, owner, run, fingerprint, lease_ends, ends)
    SELECT $1, $2, $3::uuid, 1, $4::bytea,
        clock_timestamp() + $5::bigint * interval '1 millisecond',
        clock_timestamp() + (coalesce($5, 0) + $6::bigint) * interval '1 millisecond'
    WHERE NOT EXISTS (SELECT FROM idempotency_keys WHERE scope = $1 AND key = $2)
    ON CONFLICT (scope, key) DO NOTHING";

/// $1 scope, $2 key.
pub(super) const FIND: &str = "
    SELECT owner, run, fingerprint, status, header_names, header_values, body,
        status IS NULL AND lease_ends IS NULL AS locked,
        coalesce(lease_ends > clock_timestamp(), false) AS live,
        ends <= clock_timestamp() AS ended
    FROM idempotency_keys WHERE scope = $1 AND key = $2";

/// $1 scope, $2 key. A row that a transaction works on is not waited for.
pub(super) const REMOVE_ENDED: &str = "
    WITH ended AS MATERIALIZED (
        SELECT scope, key FROM idempotency_keys
        WHERE scope = $1 AND key = $2 AND ends <= clock_timestamp()
        FOR UPDATE SKIP LOCKED)
    DELETE FROM idempotency_keys k USING ended
    WHERE k.scope = ended.scope AND k.key = ended.key";

/// $1 scope, $2 key, $3 owner, $4 lease in ms, $5 keep in ms.
pub(super) const RENEW: &str = "
    UPDATE idempotency_keys SET
        lease_ends = clock_timestamp() + $4::bigint * interval '1 millisecond',
        ends = clock_timestamp() + ($4 + $5::bigint) * interval '1 millisecond'
    WHERE scope = $1 AND key = $2 AND owner = $3 AND status IS NULL
    RETURNING run";

/// $1 scope, $2 key, $3 new owner, $4 lease in ms or null, $5 keep in ms, $6 old owner.
pub(super) const TAKE_OVER: &str = "
    WITH free AS MATERIALIZED (
        SELECT scope, key FROM idempotency_keys
        WHERE scope = $1 AND key = $2 AND owner = $6 AND status IS NULL
            AND (lease_ends IS NULL OR lease_ends <= clock_timestamp())
        FOR UPDATE SKIP LOCKED)
    UPDATE idempotency_keys k SET owner = $3, run = k.run + 1,
        lease_ends = clock_timestamp() + $4::bigint * interval '1 millisecond',
        ends = clock_timestamp() + (coalesce($4, 0) + $5::bigint) * interval '1 millisecond'
    FROM free WHERE k.scope = free.scope AND k.key = free.key
    RETURNING k.run";

/// $1 scope, $2 key, $3 owner. Inside the transaction whose lock is the lease.
pub(super) const LOCK: &str = "
    SELECT run FROM idempotency_keys
    WHERE scope = $1 AND key = $2 AND owner = $3 AND status IS NULL
    FOR UPDATE SKIP LOCKED";

/// $1 scope, $2 key. Waits until whoever works on the row has ended.
pub(super) const READ_AGAIN: &str = "
    SELECT owner, status IS NOT NULL AS completed FROM idempotency_keys
    WHERE scope = $1 AND key = $2
    FOR UPDATE";

const COMPLETE: &str = "
    UPDATE idempotency_keys SET status = $4, header_names = $5, header_values = $6, body = $7,
        lease_ends = NULL,
        ends = clock_timestamp() + $8::bigint * interval '1 millisecond'
    WHERE scope = $1 AND key = $2 AND owner = $3 AND status IS NULL";

const RELEASE: &str = "
    DELETE FROM idempotency_keys
    WHERE scope = $1 AND key = $2 AND owner = $3 AND status IS NULL";

/// $1 limit. `now()` and not `clock_timestamp()`, so that the index serves.
pub(super) const SWEEP: &str = "
    WITH ended AS MATERIALIZED (
        SELECT scope, key FROM idempotency_keys WHERE ends <= now()
        ORDER BY ends LIMIT $1
        FOR UPDATE SKIP LOCKED)
    DELETE FROM idempotency_keys k USING ended
    WHERE k.scope = ended.scope AND k.key = ended.key";

type Statement<'q> = Query<'q, Postgres, PgArguments>;

pub(super) fn complete<'q>(claim: &'q Claim, record: &'q Record) -> Statement<'q> {
    let headers = || record.headers.iter();
    let names: Vec<_> = headers().map(|(name, _)| name.as_str()).collect();
    let values: Vec<_> = headers().map(|(_, value)| value.as_bytes()).collect();
    // HTTP's statuses have three digits.
    let status = i16::try_from(record.status.as_u16()).unwrap_or(i16::MAX);
    sqlx::query(COMPLETE)
        .bind(claim.slot.scope.as_bytes().as_slice())
        .bind(claim.slot.key.as_str())
        .bind(claim.owner.uuid())
        .bind(status)
        .bind(names)
        .bind(values)
        .bind(record.body.as_deref())
        .bind(millis(claim.terms.keep))
}

pub(super) fn release(claim: &Claim) -> Statement<'_> {
    sqlx::query(RELEASE)
        .bind(claim.slot.scope.as_bytes().as_slice())
        .bind(claim.slot.key.as_str())
        .bind(claim.owner.uuid())
}
