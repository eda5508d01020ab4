-- One row for each key of each owner: running while "status" is null, completed after.
CREATE TABLE idempotency_keys (
    -- SHA-256 of the owner's names.
    scope         bytea       NOT NULL CHECK (octet_length(scope) = 32),
    -- Visible ASCII; compared byte by byte, never by a collation.
    key           text        COLLATE "C" NOT NULL,
    -- The claim that holds the row, or completed it.
    owner         uuid        NOT NULL,
    -- 1 for the first claim, one more for each that took over.
    run           integer     NOT NULL,
    -- SHA-256 of the request; null where requests are not compared.
    fingerprint   bytea       CHECK (octet_length(fingerprint) = 32),
    -- Until when the claim holds without a heartbeat. Null in a running row: the lock on the row
    -- is the lease.
    lease_ends    timestamptz,
    -- When the row may be swept.
    ends          timestamptz NOT NULL,
    claimed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The answer. A null body under a status is an answer that was not kept.
    status        smallint,
    header_names  text[],
    -- Bytes: header values and bodies need not be text.
    header_values bytea[],
    body          bytea,
    PRIMARY KEY (scope, key)
);

CREATE INDEX idempotency_keys_ends ON idempotency_keys (ends);
