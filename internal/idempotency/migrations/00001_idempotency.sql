-- +goose Up
-- The table may be there already, with rows: it was once made by the venue.
-- Times are unix seconds. A row lives until expires, then its owner's sweep
-- removes it.
CREATE TABLE IF NOT EXISTS idempotency (
    scope        TEXT   NOT NULL, -- whose key it is, beginning with the owner of the row: owner/…
    key          TEXT   NOT NULL, -- the caller's key
    request_hash TEXT   NOT NULL, -- SHA-256 of the canonical request, lowercase hex
    response     TEXT   NOT NULL, -- what the first request was answered
    expires      BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX IF NOT EXISTS idempotency_expires ON idempotency (expires);

-- +goose Down
DROP TABLE idempotency;
